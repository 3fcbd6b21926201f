"""The simulator behind OpenAI's chat API, for a gateway to stand in front of.

As little as such a server can do: one process, an engine thread, one write for each token; the
prompt is not even looked at. Keeps notes. Arguments: file of notes, port; MULTIVERSE_WORKER_...
as ever.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Text
from multiverse_worker.contract import BranchId, Load, Sampling, Start, Update
from multiverse_worker.engine_thread import EngineThread
from multiverse_worker.launch import launch
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.settings import WorkerSettings
from tests.bench.router.direct import PROMPT_IDS
from tests.bench.router.notes import NoteBook

STREAM = 1
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@dataclass(slots=True)
class Stream:
    """An answer in the making."""

    write: Callable[[bytes], None]
    before: bytes  # of a chunk, up to its text
    tokens: int


class Facade:
    """Starts branches, and writes what the engine says of them."""

    def __init__(self, settings: WorkerSettings, notes: Path) -> None:
        model = ModelDirectory(settings.model, settings.weights, False)
        tokenizer = TextTokenizer((settings.model / "tokenizer.json").read_text("utf-8"))
        self.name = model.name
        self._texts = [
            json.dumps(tokenizer.decode([n])).encode() for n in range(tokenizer.vocab_size)
        ]
        self._notes = NoteBook(notes)
        self._numbers = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self.engine = EngineThread(launch(model, settings), self._deliver, lambda: sys.exit(1))

    def start(self, body: bytes, write: Callable[[bytes], None]) -> int:
        wanted = json.loads(body)
        number = next(self._numbers)
        frame = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0}
        before = json.dumps({**frame, "model": self.name}).encode()[:-1]
        before = b"data: " + before + b', "choices": [{"index": 0, "delta": {'
        self._streams[number] = Stream(write, before, wanted["max_tokens"])
        self._notes.arrived(number, wanted["seed"])
        start = Start(
            branch=BranchId(STREAM, number),
            request=str(number),
            context=(Text(PROMPT_IDS),),
            max_tokens=wanted["max_tokens"],
            sampling=Sampling(seed=wanted["seed"], stream="0"),
        )
        self.engine.start(start)
        role = b'"role": "assistant", "content": ""}, "finish_reason": null}]}\n\n'
        write(_HEAD + _chunk(before + role))
        return number

    def stop(self, number: int) -> None:
        """The client has left."""
        if self._streams.pop(number, None):
            self.engine.abort(BranchId(STREAM, number))

    def _deliver(self, updates: list[Update], load: Load) -> None:
        for update in updates:
            number = update.branch.number
            stream = self._streams.get(number)
            if stream is None:
                continue
            if number in self._notes.waiting and update.ids:
                self._notes.written(number)
            for token in update.ids:
                rest = b'"content": ' + self._texts[token] + b'}, "finish_reason": null}]}\n\n'
                stream.write(_chunk(stream.before + rest))
            if update.finish:
                self.engine.release(update.finish.lease, STREAM)
                stream.write(_end(stream))
                del self._streams[number]


class Connection(asyncio.Protocol):
    """HTTP/1.1, kept open; no pipelining."""

    def __init__(self, facade: Facade) -> None:
        self._facade = facade
        self._transport: asyncio.Transport
        self._read = b""
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, blank, body = self._read.partition(b"\r\n\r\n")
        if not blank or len(body) < _length(head):
            return
        self._read = b""
        if head.startswith(b"POST /v1/chat/completions "):
            self._number = self._facade.start(body, self._transport.write)
        else:
            self._transport.write(self._about(head.split(b" ")[1].decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._facade.stop(self._number)

    def _about(self, path: str) -> bytes:
        """What gateways ask for: health, models, and facts about the server."""
        known = path.split("?")[0] in ("/health", "/v1/models", "/server_info", "/model_info")
        data = {
            "object": "list",
            "data": [{"id": self._facade.name, "object": "model", "owned_by": "facade"}],
            "model_path": self._facade.name,
            "served_model_name": self._facade.name,
        }
        body = json.dumps(data).encode()
        status = b"200 OK" if known else b"404 Not Found"
        length = str(len(body)).encode()
        head = b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\ncontent-length: "
        return head + length + b"\r\n\r\n" + body


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _end(stream: Stream) -> bytes:
    reason = b'}, "finish_reason": "length"}]}\n\n'
    prompt, total = len(PROMPT_IDS), len(PROMPT_IDS) + stream.tokens
    usage = b'{"prompt_tokens": %d, "completion_tokens": %d, "total_tokens": %d}' % (
        prompt,
        stream.tokens,
        total,
    )
    before = stream.before.rpartition(b', "choices"')[0]
    last = before + b', "choices": [], "usage": ' + usage + b"}\n\ndata: [DONE]\n\n"
    return _chunk(stream.before + reason) + _chunk(last) + b"0\r\n\r\n"


async def serve(settings: WorkerSettings, notes: Path, port: int) -> None:
    facade = Facade(settings, notes)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(facade), "127.0.0.1", port)
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await facade.engine.stop()


if __name__ == "__main__":
    book, port = Path(sys.argv[1]), int(sys.argv[2])
    asyncio.run(serve(WorkerSettings(), book, port))
