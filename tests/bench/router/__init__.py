"""What the router adds to a stream, and what it costs: `make bench-router`.

load       streams that begin one after another, and what each of them saw
http       a load over HTTP: server-sent events on plain sockets
direct     the same load straight to the worker, over one gRPC stream
notes      when a request reached the far end, and when its first token left there
worker     a simulator worker that keeps notes
facade     the same simulator behind OpenAI's API, which keeps notes too
gateway    the Rust gateway from PyPI, in front of the facade
processes  pinned child processes, their CPU time and memory
report     from what was seen to figures
"""
