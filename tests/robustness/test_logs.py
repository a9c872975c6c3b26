"""Tracebacks in logs are found, but for those that grpc writes when callers go."""

from tests.robustness.run import tracebacks

_GRPC = '  File "src/python/grpcio/grpc/_cython/_cygrpc/aio/server.pyx.pxi", line 812, in f\n'
_OURS = (
    '  File "/app/apidiscovery_service/serving/grpc/unread.py", line 83, in leave\n    self.x()\n'
)
_HEAD = "Traceback (most recent call last):\n"


def test_a_traceback_is_found_to_its_last_line() -> None:
    ours = f"{_HEAD}{_GRPC}{_OURS}KeyError: 'address'"
    assert tracebacks(f"[info] serving\nERROR:grpc\n{ours}\n[info] stopping\n") == [ours]


def test_grpc_may_say_so_when_a_caller_has_gone() -> None:
    gone = "grpc._cython.cygrpc.ExecuteBatchError: Failed"
    log = f"{_HEAD}{_GRPC}asyncio.exceptions.CancelledError\n{_HEAD}{_GRPC}{gone}\n"
    assert tracebacks(log) == []
    ours = f"{_HEAD}{_GRPC}{_OURS}{gone}"
    assert tracebacks(f"{log}{ours}\n") == [ours]
