"""`make demo`: one model, asked in the terminal and over HTTP. Asks nothing, ends by itself."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import httpx
from rich.console import Console

from multiverse_cli.chat import ask
from multiverse_cli.stack import Stack

FLAT = "sum a:7+5-3+2,b:4+9-2+5,c:8-3+6+1,d:6+6-4+9,?"
NESTED = "sum A max(a:7+5-3,b:4+9-2,c:8-1+6,) B min(d:8-3+6,e:3+3+3,f:9-4+7,)?"
CURL = """curl -N {url}/v1/chat/completions -H 'content-type: application/json' -d '{{
    "messages": [{{"role": "user", "content": "{prompt}"}}], "temperature": 0}}'"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--pace", type=float, default=0.02, help="seconds per token on a terminal")
    options = parser.parse_args()
    console = Console()
    console.rule("starting a router and a worker on this machine")
    with Stack(options.model) as stack:
        for title, prompt in (("a plan with four paths", FLAT), ("paths inside paths", NESTED)):
            console.rule(title)
            ask(console, stack.url, prompt, {"temperature": 0.0}, options.pace)
        console.rule("the same over HTTP, as OpenAI's clients see it")
        print(CURL.format(url=stack.url, prompt=FLAT), end="\n\n")
        for parallel in ("auto", "serial"):
            answer, seconds = _chat(stack.url, FLAT, parallel)
            extension = answer["multiverse"]
            print(answer["choices"][0]["message"]["content"])
            print(
                f"  -> parallel: {parallel}, {answer['usage']['completion_tokens']} tokens, "
                f"{extension['critical_path_tokens']} on the critical path, {seconds:.3f} s\n"
            )
    console.print("`make serve` keeps it running; `multiverse chat` talks to it.")


def _chat(url: str, prompt: str, parallel: str) -> tuple[dict, float]:
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "multiverse": {"parallel": parallel},
    }
    begun = time.monotonic()
    response = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    response.raise_for_status()
    return response.json(), time.monotonic() - begun


if __name__ == "__main__":
    main()
