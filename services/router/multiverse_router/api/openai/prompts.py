"""The prompts of a completion: texts or token ids, as they are, without a chat template."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiverse_router.answers import Answers
from multiverse_router.api.bodies import prompted_request
from multiverse_router.api.openai.bodies import CompletionBody
from multiverse_router.api.openai.choices import check_choices
from multiverse_router.api.openai.logprobs import Columns
from multiverse_router.logprobs import TokenLogprob
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Text


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked, and how it is said again."""

    request: AnswerRequest
    text: str
    first: str | None  # its first token, where nothing stands before it

    @classmethod
    def of(
        cls,
        name: str,
        body: CompletionBody,
        prompt: str | list[int],
        model: ServedModel,
        settings: RouterSettings,
    ) -> Prompt:
        """InvalidRequest when nothing can go on from it."""
        decode = model.tokenizer.decode
        begins: list[int] = []
        if isinstance(prompt, str):
            begins, ids = model.prompts.bare(prompt)
            text = prompt
        else:
            ids = _known(prompt, model)
            text = decode(ids)
        if not (begins or ids):
            raise InvalidRequest("the prompt has no tokens; write something", field="prompt")
        context = (Text(tuple(begins + ids)),)
        options = body.multiverse
        request = prompted_request(name, body, options, context, body.max_tokens, model, settings)
        request = replace(request, operation="text_completion")
        return cls(request, text, None if begins else decode(ids[:1]))

    def echo(
        self, score: Sequence[TokenLogprob] | None, columns: Columns
    ) -> tuple[str, dict[str, Any] | None]:
        """Its text, and its logprobs if there is a `score`."""
        if score is None:
            return self.text, None
        return self.text, columns.prompt(self.text, self.first, score)


def prompts_of(body: CompletionBody, model: ServedModel, settings: RouterSettings) -> list[Prompt]:
    """The checked prompts for `model`. InvalidRequest names the field."""
    check_choices(body, len(body.prompts), settings)
    name = f"cmpl-{uuid.uuid4()}"
    return [
        Prompt.of(f"{name}-p{index}" if index else name, body, prompt, model, settings)
        for index, prompt in enumerate(body.prompts)
    ]


async def scores_of(prompts: Sequence[Prompt], answers: Answers) -> list[tuple[TokenLogprob, ...]]:
    """Logprobs of each prompt, one prompt after the other."""
    return [await answers.prompt_logprobs(prompt.request) for prompt in prompts]


def _known(ids: list[int], model: ServedModel) -> list[int]:
    most = min(model.vocab_size, model.tokenizer.vocab_size)
    unknown = [token for token in ids if token >= most]
    if unknown:
        raise InvalidRequest(
            f"prompt: {unknown[0]} is no token id; ids are 0 to {most - 1}", field="prompt"
        )
    return ids
