"""One streamed answer over HTTP and one over gRPC: what `helm test` runs beside a router.

Needs ROUTER_HTTP (a URL), ROUTER_GRPC (host:port), PROMPT, and API_KEY or API_KEY_FILE where keys
are demanded.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

import grpc

from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceStub

TIMEOUT_S = 60.0
MAX_TOKENS = 256


def over_http(url: str, prompt: str, key: str) -> list[str]:
    """The types of the events of a streamed answer."""
    body = {"prompt": prompt, "stream": True, "max_tokens": MAX_TOKENS}
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    request = urllib.request.Request(
        f"{url}/v1/generate", data=json.dumps(body).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        lines = (line.decode().strip() for line in answer)
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [json.loads(text)["type"] for text in data if text != "[DONE]"]


def over_grpc(address: str, prompt: str, key: str) -> list[str]:
    """The kinds of the events of an answer."""
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with grpc.insecure_channel(address) as channel:
        request = pb.GenerateRequest(prompt=prompt, max_tokens=MAX_TOKENS)
        call = GenerateServiceStub(channel).Generate(request, timeout=TIMEOUT_S, metadata=metadata)
        return [event.WhichOneof("event") for event in call]


def api_key() -> str:
    file = os.environ.get("API_KEY_FILE")
    return Path(file).read_text("utf-8").strip() if file else os.environ.get("API_KEY", "")


def main() -> int:
    prompt, key = os.environ["PROMPT"], api_key()
    seen = {
        "http": over_http(os.environ["ROUTER_HTTP"], prompt, key),
        "grpc": over_grpc(os.environ["ROUTER_GRPC"], prompt, key),
    }
    whole = all(kinds and kinds[-1] == "finish" and "error" not in kinds for kinds in seen.values())
    told = {name: {"events": len(kinds), "last": kinds[-1:]} for name, kinds in seen.items()}
    print(json.dumps({"ok": whole, **told}))
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
