"""What it costs to find a kind on a server: our clients beside others, on the same server."""

import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import client_groups
import grpc
from client_groups import DEPLOYMENT, GADGET, GHOST, TYPO, Wanted
from client_sessions import HttpSide, Side, StepResult, grpc_side, http_side, session
from processes import Failed
from report import Clock, Row

COLD, AGAIN, MISSPELT, NEW, DEAD = "cold", "again", "typo", "new", "dead"

OURS_HTTP = ("ours, asyncio", "ours, sync")
OURS_GRPC = ("ours, gRPC", "ours, gRPC betterproto")
OUR_COMMAND, KUBECTL = "ours, command line", "kubectl"
OTHERS = ("lightkube", "kubernetes", "kubernetes_asyncio", "kr8s")

# A new definition is a second old when it is looked up: a client may trust a younger response.
_SETTLE_S = 1.0

SECTION = "clients"
COLD_REQUESTS = 2

_TITLES = {
    COLD: "one kind, nothing known yet",
    AGAIN: "the same kind again",
    MISSPELT: "a kind that nobody serves, twice",
    NEW: "a kind defined a second ago",
    DEAD: "one group does not answer",
}
# Words in every error about the failure; the name of the group is in any error.
_TELLING = ("unavailable", "stale")

COMMAND_RATIO = 2.0

_T = TypeVar("_T")

_LIMIT_S = 120.0
_ROUNDS = 7  # of the two command lines in turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResults:
    """The measurements of a client.

    Attributes:
        elsewhere: In a second process, with the disk cache of the first.
        checked: When it verifies its cache; None where it cannot.
        warm: The new kind, by a client that knew the others.
        fresh: The new kind, by a client without a cache.
        other: A kind of a group that answers, while another does not.
        ghost: A kind of the one that does not.
    """

    client: str
    cold: StepResult
    again: StepResult
    elsewhere: StepResult
    checked: StepResult | None
    typo: StepResult
    typo_again: StepResult
    warm: StepResult
    fresh: StepResult
    other: StepResult
    ghost: StepResult

    def shown(self, scenario: str) -> StepResult:
        """Return the value for the picture."""
        shown = {COLD: self.cold, AGAIN: self.again, MISSPELT: self.typo, NEW: self.warm}
        return shown.get(scenario, self.other)


def over_http(client: str, side: HttpSide, folder: Path) -> ClientResults:
    """Return what came of asking a client that talks HTTP, or a command line.

    Raises:
        Failed: The client cannot be run.
    """

    @contextmanager
    def dead() -> Generator[Side]:
        side.serve("dead")
        yield side

    try:
        return _measured(client, side, dead, own_folder(client, folder))
    finally:
        side.serve("usual")


def over_grpc(client: str, folder: Path) -> ClientResults:
    """Return what came of asking a client that talks gRPC, with a server of its own.

    Raises:
        Failed: The client cannot be run.
    """
    own = own_folder(client, folder)
    with grpc_side(own, client_groups.usual()) as side:
        return _measured(client, side, partial(grpc_side, own, client_groups.with_dead()), own)


def own_folder(client: str, folder: Path) -> Path:
    """Return where a client has its files; it is there then."""
    own = folder / client.replace(", ", "-").replace(" ", "-")
    own.mkdir(exist_ok=True)
    return own


def _measured(
    client: str, side: Side, dead: Callable[[], AbstractContextManager[Side]], folder: Path
) -> ClientResults:
    """Run all steps, in processes with or without a disk cache."""
    with session(client, side, folder / "kept") as first:
        cold, again = first.find(DEPLOYMENT), first.find(DEPLOYMENT)
    with session(client, side, folder / "kept") as second:
        elsewhere = second.find(DEPLOYMENT)
        checked = None if client in OTHERS else second.check()
        time.sleep(_SETTLE_S)
        typo, typo_again = second.find(TYPO), second.find(TYPO)
        side.add_gadget()
        time.sleep(_SETTLE_S)
        warm = second.find(GADGET)
    with session(client, side, folder / "fresh") as third:
        fresh = third.find(GADGET)
    with dead() as without, session(client, without, folder / "dead") as fourth:
        other, ghost = fourth.find(DEPLOYMENT), fourth.find(GHOST)
    return ClientResults(
        client=client,
        cold=cold,
        again=again,
        elsewhere=elsewhere,
        checked=checked,
        typo=typo,
        typo_again=typo_again,
        warm=warm,
        fresh=fresh,
        other=other,
        ghost=ghost,
    )


def question_rows(asked: Sequence[ClientResults], bare_mb: float) -> Iterator[Row]:
    """Yield the rows of each question, for all clients.

    Args:
        asked: The clients.
        bare_mb: The memory of a process without a client.
    """
    makers: Mapping[str, Callable[[ClientResults], Row]] = {
        COLD: partial(_cold_row, bare_mb=bare_mb),
        AGAIN: _again_row,
        MISSPELT: _typo_row,
        NEW: _new_row,
        DEAD: _dead_row,
    }
    yield from (make(one) for make in makers.values() for one in asked)


def _cold_row(asked: ClientResults, bare_mb: float) -> Row:
    cold = asked.cold
    is_command = asked.client in (OUR_COMMAND, KUBECTL)
    memory = f"{cold.peak_mb:.0f} MB" if is_command else f"+{cold.peak_mb - bare_mb:.0f} MB"
    measured = f"{_cost(cold)}; {memory}{wrong(cold, DEPLOYMENT)}"
    passed = cold.is_right(DEPLOYMENT) and cold.counts.requests <= COLD_REQUESTS
    budget = f"{COLD_REQUESTS} requests at most, right"
    return _question_row(asked, COLD, budget, measured, passed=passed)


def _again_row(asked: ClientResults) -> Row:
    checked = asked.checked
    parts = [f"same process {_short(asked.again)}", f"another {_short(asked.elsewhere)}"]
    if asked.client in (OUR_COMMAND, KUBECTL):
        parts = [f"another process {_short(asked.again)}"]
    parts.append("cannot make sure" if checked is None else f"made sure {_cost(checked)}")
    mistake = wrong(asked.again, DEPLOYMENT) or wrong(asked.elsewhere, DEPLOYMENT)
    if checked is not None and checked.error:
        mistake += f", WRONG: {checked.outcome}"
    passed = not mistake and checked is not None and _is_unchanged(checked, asked.client)
    budget = f"{_unchanged(asked)}, right"
    return _question_row(asked, AGAIN, budget, "; ".join(parts) + mistake, passed=passed)


def _typo_row(asked: ClientResults) -> Row:
    typo, again = asked.typo, asked.typo_again
    first, second = _refused(typo), _refused(again)
    measured = f"{_cost(typo)}{first}; then {_short(again)}{second}"
    passed = not first + second and _is_unchanged(typo, asked.client)
    budget = f"{_unchanged(asked)}, then 0 requests"
    if asked.client == OUR_COMMAND:
        budget = f"{_unchanged(asked)}, each time"
        passed = passed and _is_unchanged(again, asked.client)
    else:
        passed = passed and not again.counts.requests
    return _question_row(asked, MISSPELT, budget, measured, passed=passed)


def _new_row(asked: ClientResults) -> Row:
    warm, fresh = asked.warm, asked.fresh
    first, second = wrong(warm, GADGET), wrong(fresh, GADGET)
    measured = f"known others {_cost(warm)}{first}; known nothing {_cost(fresh)}{second}"
    passed = (
        not first + second and max(warm.counts.requests, fresh.counts.requests) <= COLD_REQUESTS
    )
    budget = f"{COLD_REQUESTS} requests at most, right"
    return _question_row(asked, NEW, budget, measured, passed=passed)


def _dead_row(asked: ClientResults) -> Row:
    other, ghost = asked.other, asked.ghost
    mistake = wrong(other, DEPLOYMENT)
    told = tells_of_trouble(ghost)
    measured = f"another kind {_cost(other)}{mistake or ', right'}; its own kind: "
    measured += "told that it does not answer" if told else f"NOT TOLD ({ghost.outcome})"
    return _question_row(asked, DEAD, "right, told", measured, passed=not mistake and told)


def _question_row(
    asked: ClientResults, scenario: str, budget: str, measured: str, *, passed: bool
) -> Row:
    """Return a row, whose budget is for ours alone."""
    shown = asked.shown(scenario)
    is_ours = asked.client.startswith("ours")
    numbers: dict[str, object] = {
        "client": asked.client,
        "scenario": scenario,
        "seconds": shown.seconds,
        "peak_mb": shown.peak_mb,
        **asdict(shown.counts),
    }
    return Row(
        SECTION,
        f"{_TITLES[scenario]}: {asked.client}",
        budget if is_ours else "",
        measured,
        passed=passed if is_ours else None,
        numbers=numbers,
    )


def tells_of_trouble(done: StepResult) -> bool:
    """Return whether the error for a kind of a failing group mentions the failure."""
    said = f"{done.error} {done.heard}".lower()
    return done.found is None and any(word in said for word in _TELLING)


def _unchanged(asked: ClientResults) -> str:
    """Return the budget of a lookup without changes."""
    if asked.client in OURS_GRPC:
        return "1 call at most, not modified"
    return f"{COLD_REQUESTS} x 304 at most, 0 B in bodies"


def _is_unchanged(done: StepResult, client: str) -> bool:
    counts = done.counts
    if counts.not_modified != counts.requests:
        return False
    if client in OURS_GRPC:
        return counts.requests <= 1
    return counts.requests <= COLD_REQUESTS and not counts.body_bytes


def wrong(done: StepResult, wanted: Wanted) -> str:
    """Return the text for a wrong answer; empty for a right one."""
    return "" if done.is_right(wanted) else f", WRONG: {done.outcome}"


def _refused(done: StepResult) -> str:
    """Return the text for a wrong answer, where the right one is that the kind does not exist."""
    is_refused = done.found is None and TYPO.kind.lower() in done.error.lower()
    return "" if is_refused else f", WRONG: {done.outcome}"


def _cost(done: StepResult) -> str:
    counts = done.counts
    requests = "1 request" if counts.requests == 1 else f"{counts.requests} requests"
    if counts.requests and counts.not_modified == counts.requests:
        # Over gRPC that is a message, and has a body.
        requests += " not modified" if counts.body_bytes else ", all 304"
    elif counts.not_modified:
        requests += f", {counts.not_modified} of them 304"
    return f"{requests}, {_size(counts.sent_bytes)}, {done.seconds:.2f} s"


def _short(done: StepResult) -> str:
    return _cost(done) if done.counts.requests else "0 requests"


def _size(count: int) -> str:
    return f"{count / 1e3:.1f} kB" if count else "0 B"


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows: for each question those of all clients, then those of one client alone."""
    own_clock = Clock(_LIMIT_S)
    with http_side() as side:
        bare_mb = _bare_mb(side, folder)
        asked: list[ClientResults] = []
        clients: dict[str, Callable[[], ClientResults]] = {
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
    """Return the result, or the row of a failed measurement."""
    try:
        return measure_it()
    except (Failed, OSError, grpc.RpcError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        return Row(SECTION, name, "", skipped=f"broken: {lines[-1][:200]}")


def _told(name: str, client: Callable[[], ClientResults]) -> ClientResults:
    """Measure a client, and print progress, since the first row takes a while."""
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
    """Look up kinds during a watch, and a new kind that the watch reported."""
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
    """Run both command lines in turn, with their disk caches."""
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
