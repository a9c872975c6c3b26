"""Structured logs on standard error: a constant message, and its values as fields."""

import logging
import os
import sys

import structlog

LEVELS = ("debug", "info", "warning", "error")


def _is_coloured() -> bool:
    """Tell whether messages are coloured: on a terminal that knows how to, unless NO_COLOR is set.

    Source: no-color.org.
    """
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_wanted and sys.stderr.isatty()


def _is_no_lost_caller(record: logging.LogRecord) -> bool:
    """Tell a caller that has gone before its answer, for which grpc logs a traceback, from errors.

    Source: grpcio, `_handle_exceptions` of grpc/_cython/_cygrpc/aio/server.pyx.pxi.
    """
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Set up structlog and the standard library's logging for the whole process."""
    threshold = getattr(logging, level.upper())
    logging.basicConfig(level=max(threshold, logging.WARNING), stream=sys.stderr)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_no_lost_caller)
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
