"""Make the blocking modules of the client from those for asyncio, or with --check fail if stale.

Each pair of files differs in `async`, `await` and the names in `NAMES`, in nothing else.

Usage:  python tools/generate_blocking.py [--check]
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
CLIENT = REPO / "clients" / "apidiscovery_client"
RUFF = Path(sys.executable).parent / "ruff"
PAIRS = (
    ("adapters/_async_borrowed.py", "adapters/_borrowed.py"),
    ("adapters/_async_lookups.py", "adapters/_lookups.py"),
    ("async_client.py", "client.py"),
    ("openapi/async_published.py", "openapi/published.py"),
    ("fleet/_async_asked.py", "fleet/_asked.py"),
    ("fleet/_async_over_grpc.py", "fleet/_over_grpc.py"),
    ("fleet/_async_over_http.py", "fleet/_over_http.py"),
    ("fleet/_async_served.py", "fleet/_served.py"),
    ("fleet/async_fleet.py", "fleet/blocking_fleet.py"),
    ("transports/_async_calling.py", "transports/_calling.py"),
    ("transports/_async_discovery.py", "transports/_discovery.py"),
    ("transports/_async_paths.py", "transports/_paths.py"),
    ("transports/async_grpc.py", "transports/grpc.py"),
    ("transports/async_http.py", "transports/http.py"),
)
NAMES = {
    "_AsyncBorrowed": "_Borrowed",
    "AsyncBorrowedTransport": "BorrowedTransport",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AioCalls": "GrpcioCalls",
    "AsyncAsked": "Asked",
    "AsyncCaller": "Caller",
    "AsyncCalls": "Calls",
    "AsyncConnections": "Connections",
    "AsyncDiscovery": "Discovery",
    "AsyncDiscoveryClient": "DiscoveryClient",
    "AsyncDriver": "Driver",
    "AsyncExitStack": "ExitStack",
    "AsyncFetchesPaths": "FetchesPaths",
    "AsyncFleet": "Fleet",
    "AsyncGrpcTransport": "GrpcTransport",
    "AsyncOverGrpc": "OverGrpc",
    "AsyncOverHttp": "OverHttp",
    "AsyncServed": "Served",
    "AsyncGenerator": "Generator",
    "AsyncLookups": "Lookups",
    "AsyncHttpTransport": "HttpTransport",
    "AsyncOpenApi": "OpenApi",
    "AsyncPathTransport": "PathTransport",
    "AsyncRead": "Read",
    "AsyncScope": "Scope",
    "AsyncSends": "Sends",
    "AsyncTransport": "Transport",
    "AsyncWaiting": "Waiting",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "_AsyncSession": "_Session",
    "_aio_calls": "_grpcio_calls",
    "_async_asked": "_asked",
    "_async_calling": "_calling",
    "_async_connections": "_connections",
    "_async_over_grpc": "_over_grpc",
    "_async_over_http": "_over_http",
    "_async_served": "_served",
    "async_http": "http",
    "_async_discovery": "_discovery",
    "_async_driver": "_driver",
    "async_client": "client",
    "_async_paths": "_paths",
    "_async_scope": "_scope",
    "_async_waiting": "_waiting",
    "async_published": "published",
    "aclosing": "closing",
    "open_async": "open_blocking",
    "push_async_callback": "callback",
}
KEYWORDS = ("async", "await")
_AWAITABLE = re.compile(r"Awaitable\[(\w+)\]")
_WORD = re.compile(r"\w+")


def blocking(text: str) -> str:
    """Return the text of a module without what is for asyncio, before it is formatted."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token in reversed(tokens):
        (row, begin), (end_row, end) = token.start, token.end
        if row != end_row or token.type not in (tokenize.NAME, tokenize.STRING):
            continue  # docstrings of several lines are the same in both
        before, after = lines[row - 1][:begin], lines[row - 1][end:]
        if token.string in KEYWORDS:
            lines[row - 1] = before + after.removeprefix(" ")
        else:
            renamed = _WORD.sub(lambda word: NAMES.get(word[0], word[0]), token.string)
            lines[row - 1] = before + renamed + after
    rows_of_docstring = tokens[0].end[0]
    return _AWAITABLE.sub(r"\1", "".join(lines[rows_of_docstring:]))


def made(source: Path, target: Path) -> str:
    """Return what the blocking module has to be."""
    header = f'"""The blocking form of `{source.stem}`, made by `make generate`. DO NOT EDIT."""\n'
    text = header + blocking(source.read_text(encoding="utf-8"))
    # Blocking generators have `yield from`, `with` takes several; imports are others, and in
    # another order.
    fix = ["check", "--select", "F401,I,SIM117,UP028", "--fix", "--unsafe-fixes", "--quiet"]
    for command in (fix, ["format", "--quiet"]):
        name = ["--stdin-filename", str(target), "-"]
        done = subprocess.run(
            [str(RUFF), *command, *name], input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Make blocking modules from those for asyncio.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one is stale")
    check = parser.parse_args().check
    stale: list[Path] = []
    for source, target in PAIRS:
        path = CLIENT / target
        text = made(CLIENT / source, path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.relative_to(REPO))
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(*stale, "these are stale; run `make generate`", sep="\n", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
