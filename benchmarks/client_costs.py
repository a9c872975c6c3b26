"""What it costs to find a kind on a server: our clients beside others, on the same server."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, cast

from apidiscovery_client.model import Group
from apidiscovery_client.testing import FakeApiServer, group, resource
from client_child import DRIVERS, OURS, Found
from processes import HERE, Failed, ask, read_line, running
from report import Clock, Row

SECTION = "clients"
COLD, AGAIN, MISSPELT, NEW, DEAD = "cold", "again", "typo", "new", "dead"
_TITLES = {
    COLD: "one kind, nothing known yet",
    AGAIN: "the same kind again",
    MISSPELT: "a kind that nobody serves, twice",
    NEW: "a kind defined a second ago",
    DEAD: "one group does not answer",
}
_COMMANDS = ("ours, command line", "kubectl")

# As many groups as on a cluster with many operators; most have two versions.
_GROUPS = 63
_RELEASE = "1.32"
_DELAY_S = 0.02
# A new definition is a second old when it is looked up: a client may trust a younger response.
_SETTLE_S = 1.0
_LIMIT_S, _SESSION_S = 120.0, 30.0
_REQUESTS = 2  # that ours may take
# Words in every error about the failure; the name of the group is in any error.
_TELLING = ("unavailable", "stale")


class Wanted(NamedTuple):
    """A kind, and what a client needs to request its objects."""

    kind: str
    found: Found


DEPLOYMENT = Wanted("Deployment", ("apps", "v1", "deployments", True))
TYPO = Wanted("Depoyment", ("", "", "", True))
GADGET = Wanted("Gadget", ("new.example.com", "v1", "gadgets", False))
GHOST = Wanted("Ghost", ("dead.example.com", "v1", "ghosts", True))


def groups() -> list[Group]:
    """Return 63 groups with 123 group-versions of four resources each."""
    found = [
        _group("", "Pod", "Service", "Secret", "Binding"),
        _group("apps", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
        _group("dead.example.com", "Ghost", "Phantom", "Spectre", "Wraith"),
    ]
    for number in range(_GROUPS - len(found)):
        kinds = [f"{part}{number}" for part in ("Backup", "Route", "Tenant", "Volume")]
        found.append(_group(f"team{number:02}.example.com", *kinds, versions=("v1", "v1beta1")))
    return found


def _group(name: str, *kinds: str, versions: tuple[str, ...] = ("v1",)) -> Group:
    resources = [resource(f"{kind.lower()}s", kind, subresources=["status"]) for kind in kinds]
    return group(name, **dict.fromkeys(versions, resources))


@dataclass(frozen=True, slots=True)
class Counts:
    """The requests for discovery of a step: all, those answered with 304, bytes of bodies."""

    requests: int
    not_modified: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step.

    Attributes:
        found: The client's answer for the kind; None for none.
        error: The name and text of its exception; empty for none.
        heard: Its log and stderr.
    """

    seconds: float
    found: Found | None
    error: str
    heard: str
    counts: Counts

    def wrong(self, wanted: Wanted) -> str:
        """Return the text for a wrong answer; empty for a right one."""
        return "" if self.found == wanted.found else f", WRONG: {self.outcome}"

    @property
    def outcome(self) -> str:
        """The answer or error in one short line."""
        return self.error.partition("\n")[0][:120] or f"{self.found}"

    @property
    def cost(self) -> str:
        """Requests, bytes and seconds; only requests where there were none."""
        counts = self.counts
        if not counts.requests:
            return "0 requests"
        requests = "1 request" if counts.requests == 1 else f"{counts.requests} requests"
        if counts.not_modified == counts.requests:
            requests += ", all 304"
        elif counts.not_modified:
            requests += f", {counts.not_modified} of them 304"
        return f"{requests}, {counts.body_bytes / 1e3:.1f} kB, {self.seconds:.2f} s"

    @property
    def is_unchanged(self) -> bool:
        """Whether every answer was 304, to few enough requests."""
        return self.counts.not_modified == self.counts.requests <= _REQUESTS


class Session:
    """A process with one client, controlled step by step."""

    def __init__(self, process: subprocess.Popen[bytes], server: FakeApiServer) -> None:
        self._process, self._server = process, server
        read_line(process)

    def find(self, wanted: Wanted) -> Step:
        """Look up a kind."""
        return self._step("find", wanted.kind)

    def check(self) -> Step:
        """Make sure that what the client knows is current."""
        return self._step("check")

    def _step(self, *step: str) -> Step:
        self._server.forget_requests()
        answer = ask(self._process, step)
        objects = [found for path in self._server.paths if (found := found_at(path))]
        asked = [one for one in self._server.requests if not found_at(one.path)]
        stated = cast("list[object] | None", answer["found"])
        found = cast("Found", tuple(stated)) if stated else None
        return Step(
            cast("float", answer["seconds"]),
            found or (objects[-1] if objects else None),
            str(answer["error"]),
            str(answer["heard"]),
            Counts(
                len(asked),
                sum(one.status == 304 for one in asked),  # noqa: PLR2004 - not modified
                sum(one.sent for one in asked),
            ),
        )


def found_at(path: str) -> Found | None:
    """Return the resource whose objects a client requests at a path; None for other paths."""
    root, *parts = path.strip("/").split("/")
    if root not in ("api", "apis"):
        return None
    group = parts.pop(0) if root == "apis" and parts else ""
    version, *rest = parts or [""]
    return (group, version, rest[-1], rest[0] == "namespaces") if rest else None


@contextlib.contextmanager
def session(client: str, server: FakeApiServer, folder: Path) -> Generator[Session]:
    """Run a client in a process of its own until the block ends, and not for much longer.

    It finds in the folder what earlier sessions have left there.
    """
    folder.mkdir(exist_ok=True, parents=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(server.kubeconfig()), encoding="utf-8")
    kubeconfig.chmod(0o600)
    own = [f"HOME={folder}", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"]
    command: list[str | Path] = ["/usr/bin/env", *own, sys.executable]
    with running(
        [*command, HERE / "client_child.py", client, server.url, folder], piped=True
    ) as process:
        limit = threading.Timer(_SESSION_S, process.kill)
        limit.start()
        try:
            yield Session(process, server)
        finally:
            limit.cancel()


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows, for each question those of all clients."""
    own_clock = Clock(_LIMIT_S)
    rows: list[Row] = []
    with FakeApiServer(groups(), release=_RELEASE) as server:
        for client in DRIVERS:
            if clock.out() or own_clock.out():
                yield Row(SECTION, client, "", skipped="out of time")
                continue
            started = time.monotonic()
            try:
                rows += _rows(client, server, folder / client.replace(", ", "-"))
            except (Failed, OSError) as error:
                lines = str(error).splitlines() or [type(error).__name__]
                yield Row(SECTION, client, "", skipped=f"broken: {lines[-1][:200]}")
            took = time.monotonic() - started
            print(f"({SECTION}, {client}: {took:.0f} s)", file=sys.stderr, flush=True)
    yield from sorted(rows, key=lambda row: list(_TITLES).index(str(row.numbers["scenario"])))


def _rows(client: str, server: FakeApiServer, folder: Path) -> Iterator[Row]:
    """Run all steps, in processes with and without a disk cache."""
    server.replace(groups())
    server.mend()
    server.slow(_DELAY_S)
    is_ours = client in OURS
    with session(client, server, folder / "kept") as first:
        cold, again = first.find(DEPLOYMENT), first.find(DEPLOYMENT)
    yield _cold_row(client, cold)
    with session(client, server, folder / "kept") as second:
        elsewhere = second.find(DEPLOYMENT)
        checked = second.check() if is_ours or client in _COMMANDS else None
        yield _again_row(client, again, elsewhere, checked)
        time.sleep(_SETTLE_S)
        yield _typo_row(client, second.find(TYPO), second.find(TYPO))
        server.add(group("new.example.com", v1=[resource("gadgets", "Gadget", namespaced=False)]))
        time.sleep(_SETTLE_S)
        warm = second.find(GADGET)
    with session(client, server, folder / "fresh") as third:
        yield _new_row(client, warm, third.find(GADGET))
    server.fail("dead.example.com")
    with session(client, server, folder / "dead") as fourth:
        yield _dead_row(client, fourth.find(DEPLOYMENT), fourth.find(GHOST))


def _row(client: str, scenario: str, step: Step, measured: str, *, passed: bool) -> Row:
    """Return a row, whose budget is for ours alone."""
    again = "each time" if client in _COMMANDS else "then 0 requests"
    budgets = {
        COLD: f"{_REQUESTS} requests at most, right",
        AGAIN: f"{_REQUESTS} x 304 at most, right",
        MISSPELT: f"{_REQUESTS} x 304 at most, {again}",
        NEW: f"{_REQUESTS} requests at most, right",
        DEAD: "right, said",
    }
    is_ours = client in OURS
    numbers: dict[str, object] = {"client": client, "scenario": scenario, "seconds": step.seconds}
    return Row(
        SECTION,
        f"{_TITLES[scenario]}: {client}",
        budgets[scenario] if is_ours else "",
        measured,
        passed=passed if is_ours else None,
        numbers=numbers | asdict(step.counts),
    )


def _cold_row(client: str, cold: Step) -> Row:
    mistake = cold.wrong(DEPLOYMENT)
    passed = not mistake and cold.counts.requests <= _REQUESTS
    return _row(client, COLD, cold, cold.cost + mistake, passed=passed)


def _again_row(client: str, again: Step, elsewhere: Step, checked: Step | None) -> Row:
    parts = [f"same process {again.cost}", f"another {elsewhere.cost}"]
    if client in _COMMANDS:
        parts = [f"another process {again.cost}"]
    parts.append(f"made sure {checked.cost}" if checked else "cannot make sure")
    mistake = again.wrong(DEPLOYMENT) or elsewhere.wrong(DEPLOYMENT)
    if checked and checked.error:
        mistake += f", WRONG: {checked.outcome}"
    passed = not mistake and checked is not None and checked.is_unchanged
    return _row(client, AGAIN, again, "; ".join(parts) + mistake, passed=passed)


def _typo_row(client: str, typo: Step, again: Step) -> Row:
    mistakes = ["" if _is_refused(one) else f", WRONG: {one.outcome}" for one in (typo, again)]
    measured = f"{typo.cost}{mistakes[0]}; then {again.cost}{mistakes[1]}"
    # Each process of a command line asks again.
    is_known = again.is_unchanged if client in _COMMANDS else not again.counts.requests
    passed = not any(mistakes) and typo.is_unchanged and is_known
    return _row(client, MISSPELT, typo, measured, passed=passed)


def _is_refused(step: Step) -> bool:
    return step.found is None and TYPO.kind.lower() in step.error.lower()


def _new_row(client: str, warm: Step, fresh: Step) -> Row:
    mistakes = [one.wrong(GADGET) for one in (warm, fresh)]
    measured = f"known others {warm.cost}{mistakes[0]}; known nothing {fresh.cost}{mistakes[1]}"
    passed = not any(mistakes) and max(warm.counts.requests, fresh.counts.requests) <= _REQUESTS
    return _row(client, NEW, warm, measured, passed=passed)


def _dead_row(client: str, other: Step, ghost: Step) -> Row:
    mistake = other.wrong(DEPLOYMENT)
    said = f"{ghost.error} {ghost.heard}".lower()
    told = ghost.found is None and any(word in said for word in _TELLING)
    measured = f"another kind {other.cost}{mistake or ', right'}; its own kind: "
    measured += "the error says that it does not answer" if told else f"NOT SAID ({ghost.outcome})"
    return _row(client, DEAD, other, measured, passed=not mistake and told)
