"""`multiverse generate`: answers to one prompt or to a file of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from rich.progress import Progress

from multiverse_cli.errors import InputError
from multiverse_cli.keys import API_KEY
from multiverse_client import ApiError, AsyncClient, Options


def read_prompts(path: Path) -> list[str]:
    """The `prompt` of each line of a JSONL file; InputError names the line at fault."""
    return [prompt for prompt in _prompts(path)]


def _prompts(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                prompt = json.loads(line.decode())["prompt"]
            except (ValueError, KeyError, TypeError):
                prompt = None
            if not isinstance(prompt, str):
                raise InputError(f'{path}:{number}: need an object with a string "prompt"')
            yield prompt


async def generate_all(
    url: str,
    prompts: list[str],
    options: Options,
    concurrency: int,
    out: TextIO,
    progress: Progress,
) -> dict[str, Any]:
    """Write one JSON line per prompt, in the order of the prompts; returns the totals.

    A prompt that fails becomes a line with `error`; the others go on.
    """
    bar = progress.add_task("answers", total=len(prompts))
    slots = asyncio.Semaphore(concurrency)
    begun = time.monotonic()
    async with (
        AsyncClient(url, api_key=os.environ.get(API_KEY)) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def one(prompt: str) -> dict[str, Any]:
            async with slots:
                row = await _row(client, prompt, options)
            progress.advance(bar)
            return row

        answers = [tasks.create_task(one(prompt)) for prompt in prompts]
        rows = []
        for answer in answers:
            rows.append(await answer)
            out.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
            out.flush()
    return _totals(rows, time.monotonic() - begun)


async def _row(client: AsyncClient, prompt: str, options: Options) -> dict[str, Any]:
    begun = time.monotonic()
    try:
        answer = await client.generate(prompt, **options)
    except ApiError as error:
        return {"prompt": prompt, "error": str(error)}
    assert answer.usage, "a whole answer has its usage"
    usage = {key: value for key, value in asdict(answer.usage).items() if key != "seq"}
    return {
        "prompt": prompt,
        "text": answer.text(),
        "finish_reason": answer.finish_reason,
        "usage": usage,
        "seconds": round(time.monotonic() - begun, 4),
    }


def _totals(rows: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    done = [row["usage"] for row in rows if "usage" in row]
    tokens = sum(usage["completion_tokens"] for usage in done)
    critical = sum(usage["critical_path_tokens"] for usage in done)
    return {
        "requests": len(rows),
        "failed": len(rows) - len(done),
        "tokens": tokens,
        "parallelism": round(tokens / critical, 4) if critical else 1.0,
        "seconds": round(seconds, 3),
        "tokens_per_s": round(tokens / seconds, 1),
    }
