"""A server of the demo: `apidiscovery serve`, which also ends when standard input is closed.

The demo holds the other end of the pipe, so no server outlives it, however it ends.
"""

import os
import signal
import sys
from threading import Thread

from apidiscovery_service.app.command import serve


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=_end_with_input, daemon=True).start()
    serve(prog_name="apidiscovery serve")
