"""Parameters of OpenAI's API without an effect here: taken and ignored, or refused.

Those that are honoured are the other fields of the bodies.
"""

from __future__ import annotations

from pydantic import BaseModel, Field, JsonValue

_UNUSED = Field(None, description="taken and ignored")


class Ignored(BaseModel):
    """They say who asks, or how OpenAI is to run the request: no answer depends on them."""

    user: JsonValue = _UNUSED
    metadata: JsonValue = _UNUSED
    store: JsonValue = _UNUSED
    service_tier: JsonValue = _UNUSED
    safety_identifier: JsonValue = _UNUSED
    prompt_cache_key: JsonValue = _UNUSED
    prompt_cache_retention: JsonValue = _UNUSED


IGNORED = frozenset(Ignored.model_fields)

_NO_TOOLS = "tools can't be called here"
REFUSED = {
    "tools": _NO_TOOLS,
    "tool_choice": _NO_TOOLS,
    "parallel_tool_calls": _NO_TOOLS,
    "functions": _NO_TOOLS,
    "function_call": _NO_TOOLS,
    "audio": "only text is written here",
    "prediction": "nothing is predicted here",
    "reasoning_effort": "a model's thinking has no levels here",
    "verbosity": "an answer has no levels of detail here",
    "web_search_options": "nothing is searched here",
    "suffix": "text can't be written into a gap here",
}
