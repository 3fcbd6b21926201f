"""Clients of others against real processes.

The heavy ones (LangChain, LiteLLM, lm-eval) have a virtual environment of their own: `make
test-clients` runs them, and elsewhere they are left out.
"""

from __future__ import annotations

from importlib.util import find_spec

_HEAVY = {
    "test_langchain.py": "langchain_openai",
    "test_litellm.py": "litellm",
    "test_lm_eval.py": "lm_eval",
}
collect_ignore = [file for file, package in _HEAVY.items() if not find_spec(package)]
