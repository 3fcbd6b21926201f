"""A teacher behind the Gemini API.

Needs the extra `gemini`. Retries are not the client's business here.
"""

from __future__ import annotations

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
    from google.genai import errors, types

_FATAL = {401, 403, 404}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class GeminiTeacher:
    """`thinking_budget`: tokens of thought per answer; 0 none, None the model's own choice."""

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
        self._types, self._errors = types, errors
        self._transport_error = httpx.TransportError
        self._model = model
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

    @property
    def name(self) -> str:
        return f"gemini:{self._model}"

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        try:
            response = await self._client.aio.models.generate_content(
                model=self._model,
                contents=question.prompt,
                config=self._config(question, max_output_tokens),
            )
        except self._errors.APIError as error:
            raise self._error(error) from error
        except self._transport_error as error:
            raise TeacherUnavailable(f"{self.name}: {type(error).__name__} {error}") from error
        except ValueError as error:  # a body that is no JSON
            raise TeacherUnavailable(f"the answer of {self.name} can't be read: {error}") from None
        spent = _spent(response.usage_metadata)
        feedback = response.prompt_feedback
        if feedback and feedback.block_reason:
            raise TeacherRefused(f"prompt blocked: {feedback.block_reason.name}", spent)
        if not response.candidates:
            raise TeacherRefused("no candidate in the answer", spent)
        reason = response.candidates[0].finish_reason
        if reason is self._types.FinishReason.MAX_TOKENS:
            raise TeacherTruncated(f"more than {max_output_tokens} tokens", spent)
        if reason not in (None, self._types.FinishReason.STOP):
            raise TeacherRefused(f"answer blocked: {getattr(reason, 'name', reason)}", spent)
        content = response.candidates[0].content
        parts = (content.parts if content else None) or []
        text = "".join(part.text for part in parts if part.text and not part.thought)
        if not text:
            raise TeacherRefused("an empty answer", spent)
        return Reply(text, spent)

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
        )

    def _error(self, error: errors.APIError) -> TeacherError:
        message = f"{self.name}: {error.code} {error.message}"
        if error.code == 429:
            return TeacherBusy(message, _retry_after(error.details))
        if error.code >= 500 or error.code == 408:
            return TeacherUnavailable(message)
        if error.code in _FATAL or "API key" in message:
            return TeacherMisconfigured(message)
        return TeacherRefused(message)


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
