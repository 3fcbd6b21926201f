"""A teacher behind the Gemini API. Needs the extra `gemini`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multiverse_curator.teachers.contract import Question, Spent, TeacherMisconfigured, missing
from multiverse_curator.teachers.wire import CALL_HEADER, Heard, WireTeacher

if TYPE_CHECKING:
    from google.genai import types

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class GeminiTeacher(WireTeacher):
    """`thinking_budget`: tokens of thought per answer; 0 none, None the model's own choice."""

    kind = "gemini"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        thinking_budget: int | None = None,
    ) -> None:
        try:
            import httpx
            from google import genai
            from google.genai import errors, types
        except ImportError as error:
            raise missing("gemini", error) from None
        super().__init__(model)
        self._types, self._errors = types, errors
        self._transport_error = httpx.TransportError
        self._thinking_budget = thinking_budget
        self._http = httpx.AsyncClient(timeout=timeout_s, limits=httpx.Limits(max_connections=None))
        options = types.HttpOptions(
            base_url=base_url,
            httpx_async_client=self._http,
            timeout=int(timeout_s * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        try:
            self._client = genai.Client(api_key=api_key, http_options=options)
        except ValueError as error:
            raise TeacherMisconfigured(str(error)) from None

    async def _hear(self, question: Question, max_output_tokens: int) -> Heard:
        try:
            response = await self._client.aio.models.generate_content(
                model=self._model,
                contents=question.prompt,
                config=self._config(question, max_output_tokens),
            )
        except self._errors.APIError as error:
            raise self.fault(error.code, str(error.message), _retry_after(error.details)) from error
        except self._transport_error as error:
            raise self.unreachable(error) from error
        except ValueError as error:
            raise self.unreadable(error) from None
        spent = _spent(response.usage_metadata)
        feedback = response.prompt_feedback
        if feedback and feedback.block_reason:
            return Heard(None, spent, refusal=f"prompt blocked: {feedback.block_reason.name}")
        if not response.candidates:
            return Heard(None, spent, refusal="no candidate in the answer")
        reason, finished = response.candidates[0].finish_reason, self._types.FinishReason
        if reason is finished.MAX_TOKENS:
            return Heard(None, spent, truncated=True)
        if reason not in (None, finished.STOP):
            return Heard(None, spent, refusal=f"answer blocked: {getattr(reason, 'name', reason)}")
        content = response.candidates[0].content
        parts = (content.parts if content else None) or []
        return Heard("".join(part.text for part in parts if part.text and not part.thought), spent)

    async def close(self) -> None:
        await self._http.aclose()

    def _config(self, question: Question, max_output_tokens: int) -> types.GenerateContentConfig:
        thinking = None
        if self._thinking_budget is not None:
            thinking = self._types.ThinkingConfig(thinking_budget=self._thinking_budget)
        return self._types.GenerateContentConfig(
            response_mime_type="application/json",
            response_json_schema=question.schema.model_json_schema(),
            max_output_tokens=max_output_tokens,
            thinking_config=thinking,
            http_options=self._types.HttpOptions(headers={CALL_HEADER: question.call}),
        )


def _spent(usage: types.GenerateContentResponseUsageMetadata | None) -> Spent:
    if usage is None:
        return Spent()
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return Spent(usage.prompt_token_count or 0, output)


def _retry_after(details: Any) -> float | None:
    """Seconds of the RetryInfo in an error body (`"retryDelay": "7s"`)."""
    body = details.get("error", details) if isinstance(details, dict) else {}
    listed = body.get("details") if isinstance(body, dict) else None
    for detail in listed if isinstance(listed, list) else []:
        if isinstance(detail, dict) and detail.get("@type") == _RETRY_INFO:
            try:
                return float(str(detail.get("retryDelay", "")).removesuffix("s"))
            except ValueError:
                return None
    return None
