"""Settings of the whole process: logging, memory, descriptors, the ready file."""

import contextlib
import ctypes
import gc
import json
import logging
import os
import resource
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import structlog

LEVELS = ("debug", "info", "warning", "error")

# Source: mallopt(3).
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MMAP_THRESHOLD_BYTES = 4 * 1024 * 1024

# The time after which a thread yields to the event loop. With Python's own 5 ms a changed
# definition of 3,000 was visible after 4.5 ms instead of 1.5 (benchmarks: apply, in memory, HTTP).
_SWITCH_INTERVAL_S = 0.0005


def _is_coloured() -> bool:
    """Return whether to colour messages: on a terminal that supports it, unless NO_COLOR is set.

    Source: no-color.org.
    """
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_wanted and sys.stderr.isatty()


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for the record of a caller that left before its answer: grpc logs a traceback.

    Source: grpcio, `_handle_exceptions` of grpc/_cython/_cygrpc/aio/server.pyx.pxi.
    """
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Set up structlog and the standard library's logging on standard error.

    Each message is constant, and its values are fields.
    """
    threshold = getattr(logging, level.upper())
    logging.basicConfig(level=max(threshold, logging.WARNING), stream=sys.stderr)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_logging)
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=_is_coloured(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info
            if as_json
            else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def tune() -> None:
    """Tune memory, threads and limits for a server."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Large blocks are mappings of their own, which are given back when they are freed, and threads
    # share two heaps; otherwise replaced documents leave holes in the heap. Only glibc has this.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_ARENA_MAX, 2)
    # As many descriptors as allowed: a connection through the front takes three.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS allows less than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def without_collections() -> Generator[None]:
    """Load without garbage collections, and exclude the loaded objects from later ones.

    They are permanent, and each collection of them takes 20 ms with 3,000 groups. The last one
    skips objects from before, which would take 50 ms. Memory that was used for reading is returned
    to the system: 125 MiB with 1,000 real definitions.
    """
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def ready_file(path: Path | None, addresses: Mapping[str, str | None]) -> Generator[None]:
    """Provide a file with the addresses, which is replaced atomically and removed at the end.

    Raises:
        OSError: It cannot be written.
    """
    if path is None:
        yield
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps(addresses) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise OSError(f"--ready-file {path}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
