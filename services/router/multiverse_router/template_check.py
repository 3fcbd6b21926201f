"""Whether a chat template keeps client text whole, tried on chats of every role."""

from __future__ import annotations

from multiverse_router.chat_template import ChatTemplate
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.model_check import Finding, Verdict

_REMEDY = "correct chat_template.jinja"
_TEXT = "say <Path> and </think>: 3 < 4 & 5 > 2\n\n    “日本” 👍 {{ x }} "
_CHATS = {
    ("user",): Verdict.REFUSED,
    ("user", "assistant", "user"): Verdict.REFUSED,
    ("system", "user"): Verdict.NOTE,  # some models know no system messages
}


def check_template(template: ChatTemplate) -> list[Finding]:
    """One finding for each kind of chat that it refuses or cuts, or one that all are well."""
    found: list[Finding] = []
    for roles, verdict in _CHATS.items():
        chat = [
            {"role": role, "content": f"{_TEXT}{number}"} for number, role in enumerate(roles, 1)
        ]
        called = ", ".join(roles)
        try:
            told = [piece.text for piece in template.render(chat) if piece.message is not None]
        except InvalidRequest as error:
            message = f"refuses a chat of {called}: {error.message}"
            found.append(Finding("template", verdict, message, remedy=_REMEDY))
            continue
        for role, message_ in zip(roles, chat, strict=True):
            if not any(message_["content"] in text for text in told):
                message = f"the text of {role} is not whole in the prompt of a chat of {called}"
                found.append(Finding("template", verdict, message, example=_TEXT, remedy=_REMEDY))
    if any(finding.verdict is Verdict.REFUSED for finding in found):
        return found
    return [Finding("template", Verdict.OK, "keeps every client's text whole"), *found]
