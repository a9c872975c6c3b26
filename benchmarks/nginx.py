"""nginx with one worker, serving given bytes: what a static file server makes of the same task."""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from processes import Failed, running

_START_TIMEOUT_S = 10.0

_CONFIG = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  open_file_cache max=100 inactive=10m;
  open_file_cache_valid 10m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  default_type application/json;
  server {{
    listen 127.0.0.1:{http1};
    sendfile on;
    root {folder}/files;
    location = /304 {{ add_header etag '"{etag}"' always; return 304; }}
  }}
  server {{
    listen 127.0.0.1:{http2} http2;
    # With sendfile a body of some 100 kB waits 40 ms for the acknowledgement of its first part.
    sendfile off;
    http2_chunk_size 128k;
    root {folder}/files;
    location = /304 {{ add_header etag '"{etag}"' always; return 304; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Nginx:
    """nginx, running; its worker is what computes."""

    worker_pid: int
    http1: str
    http2: str


@contextlib.contextmanager
def serving(folder: Path, files: dict[str, bytes], etag: str) -> Generator[Nginx]:
    """Serve files by name, and `/304`, until the block ends."""
    (folder / "files").mkdir(parents=True)
    for name, content in files.items():
        (folder / "files" / name).write_bytes(content)
    http1, http2 = _free_port(), _free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(folder=folder, user=user, http1=http1, http2=http2, etag=etag),
        encoding="utf-8",
    )
    with running([shutil.which("nginx") or "nginx", "-p", folder, "-c", config]) as master:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not (workers := _children(master.pid)) or not _listens(http1):
            if master.poll() is not None or time.monotonic() > deadline:
                raise Failed("nginx does not start")
            time.sleep(0.02)
        yield Nginx(workers[0], f"127.0.0.1:{http1}", f"127.0.0.1:{http2}")


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        name: tuple[str, int] = probe.getsockname()
        return name[1]
