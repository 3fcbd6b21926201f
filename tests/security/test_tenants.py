"""Who shows another tenant's prompt learns nothing of it from what is cached; over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx

from multiverse_cli.stack import Stack
from multiverse_shared.api_keys import new_key

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
PROMPT = "sum a:7+5-3+2,b:4+9-2+5,c:8-3+6+1,?" * 4


def cached_tokens(client: httpx.Client, key: str) -> int:
    """Of the prompt, as its usage says, when the owner of `key` sends it."""
    body = {"prompt": PROMPT, "stream": False, "max_tokens": 4}
    answer = client.post("/v1/generate", json=body, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    [usage] = [event for event in answer.json()["events"] if event["type"] == "usage"]
    return int(usage["cached_tokens"])


def test_what_was_computed_for_one_tenant_is_not_found_by_another() -> None:
    keys = dict(new_key(name) for name in ("alice", "bob", "alice"))
    alice, bob, alice_too = keys
    with (
        Stack(
            MODEL,
            worker_settings={"engine": "sim", "sim_speed": "0"},
            router_settings={"keys": ",".join(keys.values())},
        ) as stack,
        httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as client,
    ):
        assert cached_tokens(client, alice) == 0
        assert cached_tokens(client, bob) == 0
        assert cached_tokens(client, alice) > 0
        assert cached_tokens(client, bob) > 0
        assert cached_tokens(client, alice_too) > 0  # another key of the same name
