"""A teacher behind any OpenAI-compatible endpoint; our own router is one.

Needs the extra `openai`. Retries are not the client's business here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from multiverse_curator.teachers.contract import (
    Question,
    Reply,
    Spent,
    TeacherBusy,
    TeacherError,
    TeacherMisconfigured,
    TeacherRefused,
    TeacherTruncated,
    TeacherUnavailable,
    missing,
)

if TYPE_CHECKING:
    import openai

SCHEMA = "Answer with one JSON object of this schema, and nothing else:"
_REPEATABLE = {408, 409, 425}
_FATAL = {401, 402, 403, 404, 405}


class OpenAITeacher:
    """`structured` False: the schema stands in the prompt, for endpoints that know none."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        structured: bool = True,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise missing("openai", error) from None
        self._library = openai
        self._model = model
        self._structured = structured
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, timeout=timeout_s, max_retries=0
            )
        except openai.OpenAIError as error:
            raise TeacherMisconfigured(str(error)) from None

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        schema = question.schema.model_json_schema()
        options: dict[str, Any] = {}
        prompt = question.prompt
        if self._structured:
            shape = {"name": question.stage.value, "schema": schema}
            options["response_format"] = {"type": "json_schema", "json_schema": shape}
        else:
            prompt = f"{SCHEMA}\n{json.dumps(schema)}\n\n{prompt}"
        try:
            response = await self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=max_output_tokens,
                **options,
            )
        except self._library.APIError as error:
            raise self._error(error) from error
        except ValueError as error:  # a body that is no JSON
            raise TeacherUnavailable(f"the answer of {self.name} can't be read: {error}") from None
        usage = response.usage
        spent = Spent(usage.prompt_tokens, usage.completion_tokens) if usage else Spent()
        if not response.choices:
            raise TeacherRefused("no choice in the answer", spent)
        choice = response.choices[0]
        if choice.finish_reason == "length":
            raise TeacherTruncated(f"more than {max_output_tokens} tokens", spent)
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise TeacherRefused(choice.message.refusal or "content filter", spent)
        if not choice.message.content:
            raise TeacherRefused("an empty answer", spent)
        return Reply(choice.message.content, spent)

    async def close(self) -> None:
        await self._client.close()

    def _error(self, error: openai.APIError) -> TeacherError:
        library = self._library
        if not isinstance(error, library.APIStatusError):
            return TeacherUnavailable(f"{self.name}: {error.message}")
        if error.status_code == 429:
            return TeacherBusy(error.message, _seconds(error.response.headers.get("retry-after")))
        if error.status_code >= 500 or error.status_code in _REPEATABLE:
            return TeacherUnavailable(error.message)
        if error.status_code in _FATAL:
            return TeacherMisconfigured(f"{self.name}: {error.message}")
        return TeacherRefused(error.message)


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:  # a date: our own back-off is as good
        return None
