"""Servers that count requests, and sessions with clients in processes of their own."""

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, Self, cast

import client_groups
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.model import Group
from client_child import Found
from client_groups import Wanted
from crds import fill
from plain_http import get
from processes import HERE, Served, ask, read_line, running, serving, tell

DELAY_S = 0.02

_SERVERS, _CHILD = HERE / "client_servers.py", HERE / "client_child.py"
_SESSION_S = 30.0
_CALLS = "apidiscovery_grpc_requests_total"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server was asked for and answered; the first four of `client_servers.Counts`."""

    requests: int = 0
    not_modified: int = 0
    body_bytes: int = 0
    sent_bytes: int = 0

    def since(self, before: Self) -> "Counts":
        """Return how much more it is."""
        pairs = [(getattr(self, each.name), getattr(before, each.name)) for each in fields(self)]
        return Counts(*(now - then for now, then in pairs))


class Side(Protocol):
    """A server as the client sees it.

    Attributes:
        target: What clients connect to.
        counts_all: Whether `counts` knows everything, and nothing is left to what clients say.
    """

    target: str
    counts_all: bool

    def counts(self) -> Counts:
        """Return what was counted so far."""
        ...

    def objects(self) -> list[str]:
        """Return the paths of all objects that were asked for."""
        ...

    def add_gadget(self) -> None:
        """Serve one group more."""
        ...


class HttpSide:
    """A kube-apiserver with a delay before every response."""

    counts_all = True

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.target = f"http://{read_line(process)['address']}"

    def counts(self) -> Counts:
        found = self._ask("count")
        return Counts(*(int(str(found[each.name])) for each in fields(Counts)))

    def objects(self) -> list[str]:
        return str(self._ask("count")["objects"]).split()

    def add_gadget(self) -> None:
        self._ask("gadget")

    def serve(self, content: str) -> None:
        """Serve something else from now on."""
        self._ask(content)

    def _ask(self, what: str) -> dict[str, object]:
        return ask(self._process, what)


class GrpcSide:
    """Our service, behind a proxy that delays each request.

    Only clients know whether a response was new, so that is not counted here.
    """

    counts_all = False

    def __init__(self, served: Served, proxy: subprocess.Popen[bytes]) -> None:
        self._served, self._proxy = served, proxy
        self.target = f"grpc://{read_line(proxy)['address']}"

    def counts(self) -> Counts:
        """Return what was counted; calls that have not ended, such as watches, are not."""
        text = get(self._served.http, "/metrics", {}).body.decode()
        calls = [
            line for line in text.splitlines() if line.startswith(_CALLS) and "Watch" not in line
        ]
        requests = sum(int(float(line.rpartition(" ")[2])) for line in calls if "Apply" not in line)
        return Counts(requests, sent_bytes=int(str(ask(self._proxy, "count")["sent_bytes"])))

    def objects(self) -> list[str]:
        return []

    def add_gadget(self) -> None:
        gadget = client_groups.with_gadget()[-1].versions[0].resources[0]
        fill(self._served.grpc, [client_groups.definition(gadget)])


@contextlib.contextmanager
def http_side() -> Generator[HttpSide]:
    """Run a server over HTTP until the block ends."""
    command: list[str | Path] = [sys.executable, _SERVERS, "http", str(DELAY_S)]
    with running(command, piped=True) as process:
        yield HttpSide(process)


@contextlib.contextmanager
def grpc_side(folder: Path, groups: Sequence[Group]) -> Generator[GrpcSide]:
    """Run our service with these groups, and the proxy, until the block ends."""
    manifest = folder / "served.json"
    manifest.write_bytes(write_aggregated(groups))
    with serving(folder, "--manifests", manifest) as served:
        command: list[str | Path] = [sys.executable, _SERVERS, "proxy", served.grpc, str(DELAY_S)]
        with running(command, piped=True) as proxy:
            yield GrpcSide(served, proxy)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step.

    Attributes:
        found: The client's answer for the kind; None for none.
        error: The name and text of its exception; empty for none.
        heard: Its log and stderr.
        counts: Requests and bytes of the step.
        peak_mb: The most memory of the process so far, in MB of 10^6.
    """

    seconds: float
    found: Found | None
    error: str
    heard: str
    counts: Counts
    peak_mb: float

    def is_right(self, wanted: Wanted) -> bool:
        """Return whether the answer is right."""
        return self.found == tuple(wanted[1:])

    @property
    def outcome(self) -> str:
        """Return the answer or error in one short line."""
        return self.error.partition("\n")[0][:120] or f"{self.found}"


class Session:
    """A process with one client, controlled step by step."""

    def __init__(self, process: subprocess.Popen[bytes], side: Side) -> None:
        self._process, self._side = process, side
        self._counts = side.counts()
        self._told: Mapping[str, int] = {}
        self._objects = len(side.objects())
        read_line(process)

    def find(self, wanted: Wanted) -> StepResult:
        """Look up a kind."""
        return self._done(ask(self._process, ["find", wanted.kind, wanted.group, wanted.version]))

    def check(self) -> StepResult:
        """Verify the client's cache."""
        return self._done(ask(self._process, ["check"]))

    def watch(self, wanted: Wanted) -> StepResult:
        """Watch the server, look up kinds meanwhile, then serve the gadget.

        Requests before the watch is established do not count.
        """
        tell(self._process, ["watch", wanted.kind, wanted.group])
        answer = read_line(self._process)
        if "watching" in answer:
            self._counts = self._side.counts()
            self._side.add_gadget()
            answer = read_line(self._process)
        return self._done(answer)

    def _done(self, answer: dict[str, object]) -> StepResult:
        told = cast("Mapping[str, int]", answer["traffic"])
        counts = self._side.counts()
        taken = counts.since(self._counts)
        if not self._side.counts_all:
            more = {name: told[name] - self._told.get(name, 0) for name in told}
            taken = Counts(
                taken.requests, more["not_modified"], more["body_bytes"], taken.sent_bytes
            )
        self._counts, self._told = counts, told
        return StepResult(
            seconds=cast("float", answer["seconds"]),
            found=self._found(answer["found"]),
            error=str(answer["error"]),
            heard=str(answer["heard"]),
            counts=taken,
            peak_mb=cast("int", answer["peak_kb"]) * 1024 / 1e6,
        )

    def _found(self, answer: object) -> Found | None:
        if answer is not None:
            return cast("Found", tuple(cast("list[object]", answer)))
        objects = self._side.objects()
        new, self._objects = objects[self._objects :], len(objects)
        return found_in_path(new[-1]) if new else None


def found_in_path(path: str) -> Found:
    """Return what somebody knows who asks for objects at a path.

    >>> found_in_path("/apis/apps/v1/namespaces/default/deployments")
    ('apps', 'v1', 'deployments', True)
    >>> found_in_path("/api/v1/nodes")
    ('', 'v1', 'nodes', False)
    """
    root, *parts = path.strip("/").split("/")
    group = parts.pop(0) if root == "apis" else ""
    version, *rest = parts
    return group, version, rest[-1], rest[0] == "namespaces" and len(rest) > 1


@contextlib.contextmanager
def session(client: str, side: Side, folder: Path) -> Generator[Session]:
    """Run a client in a process of its own until the block ends, and not for much longer than it.

    Args:
        client: One of `client_child.DRIVERS`.
        side: What it talks to.
        folder: What the client has kept on disk before, and keeps.
    """
    folder.mkdir(exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(side.target)), encoding="utf-8")
    kubeconfig.chmod(0o600)
    own = [f"HOME={folder}", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"]
    command: list[str | Path] = [shutil.which("env") or "env", *own, sys.executable, _CHILD]
    with running([*command, client, side.target, folder], piped=True) as process:
        limit = threading.Timer(_SESSION_S, process.kill)
        limit.start()
        try:
            yield Session(process, side)
        finally:
            limit.cancel()


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {}}],
    }
