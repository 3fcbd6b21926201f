"""A teacher behind any OpenAI-compatible endpoint; our own router is one.

Needs the extra `openai`.
"""

from __future__ import annotations

import json
from typing import Any

from multiverse_curator.teachers.contract import Question, Spent, TeacherMisconfigured, missing
from multiverse_curator.teachers.wire import CALL_HEADER, Heard, WireTeacher

SCHEMA = "Answer with one JSON object of this schema, and nothing else:"


class OpenAITeacher(WireTeacher):
    """`structured` False: the schema stands in the prompt, for endpoints that know none."""

    kind = "openai"

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
        super().__init__(model)
        self._library = openai
        self._structured = structured
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, timeout=timeout_s, max_retries=0
            )
        except openai.OpenAIError as error:
            raise TeacherMisconfigured(str(error)) from None

    async def _hear(self, question: Question, max_output_tokens: int) -> Heard:
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
                extra_headers={CALL_HEADER: question.call},
                **options,
            )
        except self._library.APIStatusError as error:
            after = _seconds(error.response.headers.get("retry-after"))
            raise self.fault(error.status_code, error.message, after) from error
        except self._library.APIError as error:
            raise self.unreachable(error) from error
        except ValueError as error:
            raise self.unreadable(error) from None
        usage = response.usage
        spent = Spent(usage.prompt_tokens, usage.completion_tokens) if usage else Spent()
        if not response.choices:
            return Heard(None, spent, refusal="no choice in the answer")
        choice = response.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            return Heard(None, spent, refusal=choice.message.refusal or "content filter")
        return Heard(choice.message.content, spent, truncated=choice.finish_reason == "length")

    async def close(self) -> None:
        await self._client.close()


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:  # a date: our own back-off is as good
        return None
