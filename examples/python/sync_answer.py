"""Ask, and see every event: python examples/python/sync_answer.py [URL]

URL may be http://host:port or grpc://host:port.
"""

import sys

from multiverse_client import ApiError, Client, Fork, Join, PathEnd, Text

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"

with Client(url) as client, client.stream("sum a:7+5-3+2,b:4+9-2+5,?", parallel="auto") as stream:
    try:
        for event in stream:
            match event:
                case Text():
                    print(f"path {event.path:8} {event.delta}")
                case Fork():
                    print(f"path {event.path:8} waits for {', '.join(event.paths)}")
                case PathEnd():
                    print(f"path {event.path:8} ends: {event.reason}")
                case Join():
                    print(f"path {event.path:8} goes on from {event.k} paths")
    except ApiError as error:
        sys.exit(f"{error.kind}: {error.message}")

answer = stream.answer
print(answer.text())
if answer.usage:
    print(f"{answer.usage.completion_tokens} tokens, parallelism {answer.usage.parallelism:.2f}")
