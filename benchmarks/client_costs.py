"""What it costs to find a kind on a server: our clients beside others, on the same server."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

import client_groups
import grpc
from client_asking import (
    KUBECTL,
    OTHERS,
    OUR_COMMAND,
    OURS_GRPC,
    OURS_HTTP,
    Asked,
    over_grpc,
    over_http,
    own_folder,
)
from client_groups import DEPLOYMENT, GADGET
from client_rows import SECTION, question_rows, wrong
from client_sessions import HttpSide, Side, grpc_side, http_side, session
from processes import Failed
from report import Clock, Row

COMMAND_RATIO = 2.0

_T = TypeVar("_T")

_LIMIT_S = 120.0
_ROUNDS = 7  # of the two command lines in turn


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows: for each question those of all clients, then those of one client alone."""
    own_clock = Clock(_LIMIT_S)
    with http_side() as side:
        bare_mb = _bare_mb(side, folder)
        asked: list[Asked] = []
        clients: dict[str, Callable[[], Asked]] = {
            **{name: partial(over_http, name, side, folder) for name in OURS_HTTP},
            **{name: partial(over_grpc, name, folder) for name in OURS_GRPC},
            **{name: partial(over_http, name, side, folder) for name in (OUR_COMMAND, KUBECTL)},
            **{name: partial(over_http, name, side, folder) for name in OTHERS},
        }
        for name, client in clients.items():
            if clock.out() or own_clock.out():
                yield Row(SECTION, name, "", skipped="out of time")
                continue
            answer = _unless_broken(name, partial(_told, name, client))
            if isinstance(answer, Row):
                yield answer
            else:
                asked.append(answer)
        yield from question_rows(asked, bare_mb)
        yield _unless_broken(f"{OUR_COMMAND} and {KUBECTL}", partial(_command_row, side, folder))
    for name in OURS_GRPC:
        yield _unless_broken(f"{name}, watching", partial(_watch_row, name, folder))


def _unless_broken(name: str, measure_it: Callable[[], _T]) -> _T | Row:
    """Return what comes of it, or the row of what cannot be measured."""
    try:
        return measure_it()
    except (Failed, OSError, grpc.RpcError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        return Row(SECTION, name, "", skipped=f"broken: {lines[-1][:200]}")


def _told(name: str, client: Callable[[], Asked]) -> Asked:
    """Measure a client, and say so, for it is a while until the first row."""
    started = time.monotonic()
    asked = client()
    took = time.monotonic() - started
    print(f"({SECTION}, {name}: {took:.0f} s)", file=sys.stderr, flush=True)
    return asked


def _bare_mb(side: Side, folder: Path) -> float:
    """Return how much memory the process takes without a client."""
    with session("nothing", side, folder / "nothing") as bare:
        return bare.find(DEPLOYMENT).peak_mb


def _watch_row(client: str, folder: Path) -> Row:
    """Answer while a watch is up, and tell of a new kind that nobody asked for."""
    name = f"while a watch is up, 200 questions and a new kind: {client}"
    own = own_folder(client, folder)
    side = grpc_side(own, client_groups.usual())
    with side as served, session(client, served, own / "watching") as following:
        following.find(DEPLOYMENT)
        done = following.watch(GADGET)
    mistake = wrong(done, GADGET)
    measured = f"{done.counts.requests} requests{mistake or ', right'}"
    passed = not mistake and not done.counts.requests
    return Row(SECTION, name, "0 requests", measured, passed=passed, numbers=asdict(done.counts))


def _command_row(side: HttpSide, folder: Path) -> Row:
    """Let both command lines list everything, in turn, with what they keep on disk."""
    name = "command line, api-resources again: ours beside kubectl"
    with (
        session(OUR_COMMAND, side, own_folder(OUR_COMMAND, folder) / "kept") as ours,
        session(KUBECTL, side, own_folder(KUBECTL, folder) / "kept") as kubectl,
    ):
        for one in (ours, kubectl):
            one.check()
        pairs = [(ours.check().seconds, kubectl.check().seconds) for _ in range(_ROUNDS)]
    own_s, their_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = own_s / their_s
    measured = f"{own_s * 1e3:.0f} ms, kubectl {their_s * 1e3:.0f} ms: {ratio:.2f}"
    numbers: dict[str, object] = {"seconds": own_s, "kubectl_seconds": their_s}
    budget, passed = f"<= {COMMAND_RATIO} x kubectl", ratio <= COMMAND_RATIO
    return Row(SECTION, name, budget, measured, passed=passed, numbers=numbers)
