"""Calls that run side by side, and how they end."""

import threading
import time

import pytest
from apidiscovery_client.transports import _scope
from apidiscovery_client.transports._scope import Scope

CALLS = 5


def test_an_interrupt_waits_once_for_all_calls_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scope, "_END_S", 2.0)
    all_run, hang = threading.Barrier(CALLS), threading.Event()
    caller = threading.current_thread()

    def call() -> None:
        all_run.wait(10)
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        hang.wait(60)

    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            Scope("the fleet").together([call] * CALLS, CALLS)
        assert time.monotonic() - began < 2.0 * (CALLS - 1)
    finally:
        hang.set()
