"""Rows of what was asked of each client; budgets are for ours alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from client_asking import (
    AGAIN,
    COLD,
    DEAD,
    KUBECTL,
    MISSPELT,
    NEW,
    OUR_COMMAND,
    OURS_GRPC,
    Asked,
)
from client_groups import DEPLOYMENT, GADGET, TYPO, Wanted
from client_sessions import Done
from report import Row

SECTION = "clients"
COLD_REQUESTS = 2

_TITLES = {
    COLD: "one kind, nothing known yet",
    AGAIN: "the same kind again",
    MISSPELT: "a kind that nobody serves, twice",
    NEW: "a kind defined a second ago",
    DEAD: "one group does not answer",
}
# What everyone says who tells of it; the name of the group is only what was asked for.
_TELLING = ("unavailable", "stale")


def question_rows(asked: Sequence[Asked], bare_mb: float) -> Iterator[Row]:
    """Yield the rows of each question, for all clients.

    Args:
        asked: The clients.
        bare_mb: The memory of a process without a client.
    """
    makers: Mapping[str, Callable[[Asked], Row]] = {
        COLD: partial(_cold_row, bare_mb=bare_mb),
        AGAIN: _again_row,
        MISSPELT: _typo_row,
        NEW: _new_row,
        DEAD: _dead_row,
    }
    yield from (make(one) for make in makers.values() for one in asked)


def _cold_row(asked: Asked, bare_mb: float) -> Row:
    cold = asked.cold
    is_command = asked.client in (OUR_COMMAND, KUBECTL)
    memory = f"{cold.peak_mb:.0f} MB" if is_command else f"+{cold.peak_mb - bare_mb:.0f} MB"
    measured = f"{_cost(cold)}; {memory}{wrong(cold, DEPLOYMENT)}"
    passed = cold.is_right(DEPLOYMENT) and cold.counts.requests <= COLD_REQUESTS
    budget = f"{COLD_REQUESTS} requests at most, right"
    return _row(asked, COLD, budget, measured, passed=passed)


def _again_row(asked: Asked) -> Row:
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
    return _row(asked, AGAIN, budget, "; ".join(parts) + mistake, passed=passed)


def _typo_row(asked: Asked) -> Row:
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
    return _row(asked, MISSPELT, budget, measured, passed=passed)


def _new_row(asked: Asked) -> Row:
    warm, fresh = asked.warm, asked.fresh
    first, second = wrong(warm, GADGET), wrong(fresh, GADGET)
    measured = f"known others {_cost(warm)}{first}; known nothing {_cost(fresh)}{second}"
    passed = (
        not first + second and max(warm.counts.requests, fresh.counts.requests) <= COLD_REQUESTS
    )
    budget = f"{COLD_REQUESTS} requests at most, right"
    return _row(asked, NEW, budget, measured, passed=passed)


def _dead_row(asked: Asked) -> Row:
    other, ghost = asked.other, asked.ghost
    mistake = wrong(other, DEPLOYMENT)
    told = tells_of_trouble(ghost)
    measured = f"another kind {_cost(other)}{mistake or ', right'}; its own kind: "
    measured += "told that it does not answer" if told else f"NOT TOLD ({ghost.outcome})"
    return _row(asked, DEAD, "right, told", measured, passed=not mistake and told)


def _row(asked: Asked, scenario: str, budget: str, measured: str, *, passed: bool) -> Row:
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


def tells_of_trouble(done: Done) -> bool:
    """Tell whether somebody who asks for a kind of a dead group hears that it is dead."""
    said = f"{done.error} {done.heard}".lower()
    return done.found is None and any(word in said for word in _TELLING)


def _unchanged(asked: Asked) -> str:
    """Return what is wanted of a question about something that has not changed."""
    if asked.client in OURS_GRPC:
        return "1 call at most, not modified"
    return f"{COLD_REQUESTS} x 304 at most, 0 B in bodies"


def _is_unchanged(done: Done, client: str) -> bool:
    counts = done.counts
    if counts.not_modified != counts.requests:
        return False
    if client in OURS_GRPC:
        return counts.requests <= 1
    return counts.requests <= COLD_REQUESTS and not counts.body_bytes


def wrong(done: Done, wanted: Wanted) -> str:
    """Return what a row says where an answer is not what is served; nothing where it is."""
    return "" if done.is_right(wanted) else f", WRONG: {done.outcome}"


def _refused(done: Done) -> str:
    """Return what is wrong where the only right answer is that there is no such kind."""
    is_refused = done.found is None and TYPO.kind.lower() in done.error.lower()
    return "" if is_refused else f", WRONG: {done.outcome}"


def _cost(done: Done) -> str:
    counts = done.counts
    requests = "1 request" if counts.requests == 1 else f"{counts.requests} requests"
    if counts.requests and counts.not_modified == counts.requests:
        # Over gRPC that is a message, and has a body.
        requests += " not modified" if counts.body_bytes else ", all 304"
    elif counts.not_modified:
        requests += f", {counts.not_modified} of them 304"
    return f"{requests}, {_size(counts.sent_bytes)}, {done.seconds:.2f} s"


def _short(done: Done) -> str:
    return _cost(done) if done.counts.requests else "0 requests"


def _size(count: int) -> str:
    return f"{count / 1e3:.1f} kB" if count else "0 B"
