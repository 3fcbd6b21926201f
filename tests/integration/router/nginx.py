"""An nginx before a router, as people run it: buffering on, nothing set for streams."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from multiverse_cli.stack import free_port

PROGRAM = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
START_WITHIN_S = 60.0

_CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 16m;
  gzip on;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_buffering on;
      {extra}
    }}
  }}
}}
"""


@asynccontextmanager
async def proxied(folder: Path, upstream: int, extra: str = "") -> AsyncIterator[int]:
    """The port of an nginx that hands on to `upstream`; `extra` goes into its location."""
    assert PROGRAM, "no nginx: install nginx-light (scripts/setup.sh all)"
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(folder=folder, port=port, upstream=upstream, extra=extra), "utf-8"
    )
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "-c", str(config), "-p", str(folder), stderr=subprocess.PIPE
    )
    try:
        await _listening(port, process)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _listening(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert process.returncode is None, await process.communicate()
                await asyncio.sleep(0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return
