"""Other dialects through real processes, on the small model with other names for its tags."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import httpx
import jinja2
import pytest

from multiverse_cli.stack import Stack, StackError
from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_shared.tokenizer import TextTokenizer
from tests.e2e.answers import FLAT, Tree, events_of
from tests.e2e.conftest import EXACT

THREADS = {
    "<Goal>": "<Outlines>",
    "</Goal>": "</Outlines>",
    "<Path>": "<Thread>",
    "</Path>": "</Thread>",
}


def model_in(dialect: str, model: Path, target: Path, names: dict[str, str]) -> Path:
    """A copy of `model` that says it speaks `dialect`, with tags renamed by `names`."""
    shutil.copytree(model, target)
    tokenizer = (target / "tokenizer.json").read_text("utf-8")
    for old, new in names.items():
        tokenizer = tokenizer.replace(json.dumps(old), json.dumps(new))
    (target / "tokenizer.json").write_text(tokenizer, "utf-8")
    card = json.loads((target / "multiverse.json").read_text("utf-8"))
    (target / "multiverse.json").write_text(json.dumps({**card, "dialect": dialect}), "utf-8")
    return target


@contextmanager
def answered(model: Path, **router_settings: str) -> Iterator[tuple[Stack, list[dict[str, Any]]]]:
    """A stack that serves `model`, and its answer to one question."""
    with (
        Stack(model, worker_settings=EXACT, router_settings=router_settings) as stack,
        httpx.Client(base_url=stack.url, timeout=60) as client,
    ):
        yield stack, events_of(client, FLAT, max_tokens=150)


def decoded(worker_port: int, ids: list[int], count: int) -> list[int]:
    """What the worker decodes greedily behind plain text."""
    start = pb.Start(
        branch=1,
        request="plain",
        context=pb.Context(items=[pb.Item(text=pb.Text(ids=ids))]),
        max_tokens=count,
    )
    out: list[int] = []
    done = Event()

    def commands() -> Iterator[pb.RunRequest]:
        yield pb.RunRequest(start=start)
        done.wait(30)  # the worker ends what runs when the commands end

    with grpc.insecure_channel(f"127.0.0.1:{worker_port}") as channel:
        frames = EngineServiceStub(channel).Run(commands(), timeout=30)
        for frame in frames:
            for update in frame.updates:
                out.extend(update.ids)
                if update.HasField("finish"):
                    done.set()
                    return out
    raise AssertionError("the stream ended before the branch")


def test_a_closed_block_of_the_linear_rule_is_one_plain_text(model: Path, tmp_path: Path) -> None:
    """What the root says behind the join is what it would say behind the same text, unforked."""
    directory = model_in("threadweaver", model, tmp_path / "threads", THREADS)
    tokenizer = TextTokenizer.from_directory(directory)
    with answered(directory) as (stack, events):
        tree = Tree(events)
        assert len(tree.paths) > 1, "the model did not fork"
        joined = next(n for n, event in enumerate(events) if event["type"] == "join")
        after = [event for event in events[joined:] if event["type"] == "text"]
        header, said = after[0], [t for event in after[1:] for t in event["token_ids"]]
        assert (header["kind"], header["delta"]) == ("written", "</Parallel>")
        before = [event for event in events[:joined] if event["type"] == "text"]
        order = ["0", *sorted({event["path"] for event in before} - {"0"})]
        flat = [t for path in order for e in before if e["path"] == path for t in e["token_ids"]]
        prompt = tokenizer.encode_trusted(prompt_text(directory))
        text = [*prompt, *flat, *header["token_ids"]]
        assert said
        assert decoded(stack.worker_port, text, len(said)) == said


def prompt_text(directory: Path) -> str:
    """The prompt of FLAT as the small model's template writes it."""
    suffix = json.loads((directory / "multiverse.json").read_text("utf-8"))["prompt_suffix"]
    template = (directory / "chat_template.jinja").read_text("utf-8")
    message = {"role": "user", "content": FLAT + suffix}
    config = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))
    return jinja2.Template(template, trim_blocks=True, lstrip_blocks=True).render(
        messages=[message], add_generation_prompt=True, bos_token=config["bos_token"]
    )


def test_a_dialect_with_offsets_is_refused_with_the_remedy_and_served_with_it(
    model: Path, tmp_path: Path
) -> None:
    directory = model_in("multiverse-qwen", model, tmp_path / "qwen", {})
    with pytest.raises(StackError, match="MULTIVERSE_ROUTER_POSITIONS=sequential"):
        Stack(directory).__enter__()
    with answered(directory, positions="sequential") as (stack, events):
        assert events[-1] == {"type": "finish", "seq": len(events) - 1, "reason": "stop"}
        served = httpx.get(f"{stack.url}/v1/models", timeout=10).json()["data"][0]
        assert served["multiverse"]["positions"] == "sequential"
        assert served["multiverse"]["dialect"] == "multiverse-qwen"
