"""Colours of messages, and messages of libraries that are left out."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog
from apidiscovery_service.app.process import configure_logging


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _configured_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_messages_are_coloured_on_a_terminal_unless_variables_forbid_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, is_coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure_logging("info", as_json=False)
    structlog.get_logger().info("serving", http="http://127.0.0.1:8080")
    assert "http://127.0.0.1:8080" in terminal.getvalue()
    assert ("\x1b[" in terminal.getvalue()) is is_coloured


def test_grpc_logs_no_traceback_of_a_caller_that_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    configure_logging("info", as_json=False)
    grpc = logging.getLogger("grpc._cython.cygrpc")
    grpc.error("ExecuteBatchError raised in core by servicer method [/a.B/C]")
    grpc.error("Unexpected [KeyError] raised by servicer method [/a.B/C]")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["Unexpected"]
