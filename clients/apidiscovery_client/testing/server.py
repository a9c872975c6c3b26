"""A Kubernetes API server for tests, which serves discovery and can be made to fail."""

import os
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from apidiscovery_client.model import PATHS, Group, GroupVersion
from apidiscovery_client.testing import _answers
from apidiscovery_client.testing._answers import Answer, Asked
from apidiscovery_client.testing._listening import HOST, Listener
from apidiscovery_client.testing._state import (
    ANY_PATH,
    DEFAULT_RELEASE,
    Failure,
    Serves,
    State,
    added,
    parse_release,
    read_groups,
    removed,
)

_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered.

    Attributes:
        path: Without the query.
        headers: The first of each name, in lower case.
        status: Of the answer.
        sent: The size of the body in bytes, as it was sent.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    status: int
    sent: int

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.method} {self.path}{query} -> {self.status}, {self.sent} bytes"


class FakeApiServer:
    """A context manager that serves discovery on a loopback port as kube-apiserver does.

    It has `/api`, `/apis`, `/apis/{group}`, the resource list of each group-version, `/version`,
    health checks, and an empty `/openapi/v3`; aggregated and unaggregated, in JSON, YAML and
    protobuf, with ETags. It has no objects. All methods may be called at any time from any thread,
    and take effect with the next request. Faults add up until `mend` removes them.

    The argument `what` of faults is a group-version such as `apps/v1` (`v1` for the core group), a
    group, for all its versions, or a path such as `/apis`.

    >>> from apidiscovery_client.testing import FakeApiServer, group, resource
    >>> with FakeApiServer([group("example.com", v1=[resource("widgets", "Widget")])]) as server:
    ...     server.fail("example.com/v1")

    Attributes:
        url: Its URL.
    """

    def __init__(
        self,
        serves: Serves | None = None,
        *,
        release: str = DEFAULT_RELEASE,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Prepare a server; its port is bound, but refuses connections.

        Args:
            serves: What it serves, by default the built-in APIs of that release of Kubernetes.
            release: The release that it answers as, see `old`.
            cert_file: Serve https with this certificate.
            key_file: Its key, by default in the same file.
            ca_file: The authority in `kubeconfig`, by default the certificate.

        Raises:
            ValueError: `release` is not a release.
            InvalidConfiguration: A file is not a snapshot.
            OSError: A file cannot be read.
        """
        of_release = parse_release(release)
        self._state = State(read_groups(serves, of_release), of_release)
        self._lock = threading.Condition()
        self._requests: list[Request] = []
        self._arrived = 0
        self._ending = threading.Event()
        self._ca_file = ca_file or cert_file
        tls = _tls(cert_file, key_file)
        self._listener = Listener(self._respond, self._sending, tls)
        self.url = f"{'https' if tls else 'http'}://{HOST}:{self._listener.port}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        self._listener.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._listener.close()

    # Its content.

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the groups that it serves, in the order of its documents."""
        return self._state.groups

    def replace(self, serves: Serves) -> None:
        """Serve only this from now on; raise as the constructor does."""
        groups = read_groups(serves, self._state.release)
        self._change(lambda state: replace(state, groups=groups))

    def add(self, *groups: Group) -> None:
        """Serve these too; new versions of a known group come first, others are replaced."""
        self._change(lambda state: replace(state, groups=added(state.groups, groups)))

    def remove(self, what: str) -> None:
        """Stop serving a group or group-version; raise `ValueError` when it is not served."""
        gvs = set(self._group_versions(what))
        self._change(lambda state: replace(state, groups=removed(state.groups, gvs)))

    # Its release.

    def old(self, release: str, path: str | None = None) -> None:
        """Answer as another release of Kubernetes, such as `1.26`.

        Up to 1.26 there are no aggregated documents, 1.27 to 1.29 have v2beta1, 1.30 to 1.32 have
        both v2beta1 and v2, and later ones v2. The served groups stay the same.

        Args:
            release: `1.0` or later.
            path: `/api` or `/apis` to answer only that path as that release, as behind a load
                balancer during an upgrade.

        Raises:
            ValueError: It is not a release, or another path.
        """
        told = parse_release(release)
        if path is None:
            self._change(lambda state: replace(state, release=told, releases={}))
            return
        if path not in PATHS:
            raise ValueError(f"{path!r} is the same in all releases; wanted '/api' or '/apis'")
        self._change(lambda state: replace(state, releases={**state.releases, path: told}))

    # Its faults.

    def fail(
        self,
        what: str,
        *,
        status: int = 503,
        body: str | bytes | None = None,
        content_type: str = "text/plain; charset=utf-8",
        times: int | None = None,
    ) -> None:
        """Answer with an error, as for an extension API server that does not answer.

        A group-version is also marked as stale in the aggregated documents, without resources.

        Args:
            what: See the class.
            status: The HTTP status.
            body: By default Kubernetes' text for that status.
            content_type: Of `body`.
            times: How often; by default until `mend`. A group-version that fails only a number of
                times is not marked as stale.

        Raises:
            ValueError: It serves no such group-version.
        """
        told = body.encode() if isinstance(body, str) else body
        self._fail(what, Failure(status, told, content_type, left=times))

    def retry_after(
        self, seconds: int, *, times: int = 1, status: int = 429, what: str | None = None
    ) -> None:
        """Answer with an error that has Retry-After, a number of times.

        Args:
            seconds: The value of Retry-After.
            times: How many requests fail.
            status: The HTTP status.
            what: See the class; by default all paths.
        """
        failure = Failure(status, retry_after_s=seconds, left=times)
        self._fail(what, failure)

    def stale(self, what: str, *, with_resources: bool = False) -> None:
        """Mark a group-version as stale in the aggregated documents; its own path still works.

        Args:
            what: A group-version, or a group.
            with_resources: Whether its resources are still listed.

        Raises:
            ValueError: It serves no such group-version.
        """
        told = dict.fromkeys(self._group_versions(what), with_resources)
        self._change(lambda state: replace(state, stale={**state.stale, **told}))

    def slow(self, seconds: float, what: str | None = None) -> None:
        """Delay each answer by that time; delayed answers end with the server.

        Raises:
            ValueError: It serves no such group-version.
        """
        told = dict.fromkeys(self._paths(what), seconds)
        self._change(lambda state: replace(state, delays={**state.delays, **told}))

    def truncate(self, what: str | None = None) -> None:
        """End answers in the middle of the body; raise `ValueError` as `fail` does."""
        paths = self._paths(what)
        self._change(lambda state: replace(state, truncated=state.truncated.union(paths)))

    def garbage(self, what: str | None = None) -> None:
        """Send HTML under the right Content-Type; raise `ValueError` as `fail` does."""
        paths = self._paths(what)
        self._change(lambda state: replace(state, garbled=state.garbled.union(paths)))

    def refuse_aggregated(self) -> None:
        """Answer 406 to requests that accept an aggregated document.

        Extension API servers that do not use k8s.io/apiserver do so.
        """
        self._change(lambda state: replace(state, refuses_aggregated=True))

    def drop_accept(self) -> None:
        """Ignore the Accept header, as behind a proxy that removes it."""
        self._change(lambda state: replace(state, drops_accept=True))

    def not_modified_always(self) -> None:
        """Answer every request for `/api` and `/apis` with 304, as a broken cache does."""
        self._change(lambda state: replace(state, is_never_modified=True))

    def unauthorized(self) -> None:
        """Answer 401 to everything but health checks and `/version`."""
        self._change(lambda state: replace(state, is_unauthorized=True))

    def mend(self, what: str | None = None) -> None:
        """Remove all faults, or those of one group-version or path; the release stays.

        Raises:
            ValueError: It serves no such group-version.
        """
        if what is None:
            self._change(State.healthy)
            return
        paths = self._paths(what)
        gvs = () if what.startswith("/") else self._group_versions(what)
        self._change(lambda state: state.without_faults_at(paths, gvs))

    def down(self) -> None:
        """Refuse connections and break existing ones until `up`; the port stays reserved."""
        self._ending.set()
        self._listener.down()
        self._ending.clear()

    def up(self) -> None:
        """Answer again, on the same port."""
        self._listener.up()

    # Its requests.

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return the requests that have been answered, in the order of their answers."""
        with self._lock:
            return tuple(self._requests)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of `requests`."""
        return tuple(request.path for request in self.requests)

    def forget_requests(self) -> None:
        """Clear `requests`, and the count of `wait_for_arrivals`."""
        with self._lock:
            self._requests.clear()
            self._arrived = 0

    def wait_for_requests(self, count: int, *, timeout_s: float = _WAIT_S) -> tuple[Request, ...]:
        """Return `requests` when there are that many; raise `TimeoutError` if they do not come."""
        return self._wait(count, timeout_s, lambda: len(self._requests), "answered")

    def wait_for_arrivals(self, count: int, *, timeout_s: float = _WAIT_S) -> None:
        """Wait until that many requests have arrived, answered or not; raise `TimeoutError`."""
        self._wait(count, timeout_s, lambda: self._arrived, "received")

    def kubeconfig(self) -> dict[str, object]:
        """Return a kubeconfig whose only context, `fake`, is this server."""
        cluster: dict[str, object] = {"server": self.url}
        if self._ca_file:
            cluster["certificate-authority"] = str(Path(self._ca_file).absolute())
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }

    def _wait(
        self, count: int, timeout_s: float, seen: Callable[[], int], what: str
    ) -> tuple[Request, ...]:
        with self._lock:
            if not self._lock.wait_for(lambda: seen() >= count, timeout_s):
                raise TimeoutError(f"{self.url}: {seen()} of {count} requests {what}: {self.paths}")
            return tuple(self._requests)

    def _change(self, change: Callable[[State], State]) -> None:
        with self._lock:
            self._state = change(self._state)

    def _fail(self, what: str | None, failure: Failure) -> None:
        told = dict.fromkeys(self._paths(what), failure)
        is_for_good = failure.left is None and what is not None and not what.startswith("/")
        if is_for_good:
            self.stale(str(what))
        self._change(lambda state: replace(state, failures={**state.failures, **told}))

    def _paths(self, what: str | None) -> tuple[str, ...]:
        if what is None:
            return (ANY_PATH,)
        if what.startswith("/"):
            return (what.rstrip("/") or "/",)
        return tuple(gv.path for gv in self._group_versions(what))

    def _group_versions(self, what: str) -> tuple[GroupVersion, ...]:
        gvs = [version.gv for group in self._state.groups for version in group.versions]
        found = tuple(gv for gv in gvs if what in (str(gv), gv.group))
        if not found:
            served = ", ".join(map(str, gvs)) or "nothing"
            raise ValueError(f"no group-version {what!r} is served, but {served}")
        return found

    def _respond(self, asked: Asked) -> Answer | None:
        with self._lock:
            self._arrived += 1
            self._lock.notify_all()
            state = self._state
            failure = self._taken_failure(asked.place)
        delay_s = state.delay_at(asked.place)
        if delay_s and self._ending.wait(delay_s):
            return None
        if failure:
            return _answers.failed(asked, failure)
        return _answers.answer(asked, state, f"{HOST}:{self._listener.port}")

    def _taken_failure(self, place: str) -> Failure | None:
        """Return the failure for a request, and count it."""
        failures = self._state.failures
        path = place if place in failures else ANY_PATH
        failure = failures.get(path)
        if failure is None or failure.left is None:
            return failure
        rest = {key: told for key, told in failures.items() if key != path}
        if failure.left > 1:
            rest[path] = replace(failure, left=failure.left - 1)
        self._state = replace(self._state, failures=rest)
        return failure

    def _sending(self, asked: Asked, answer: Answer, size: int) -> None:
        made = Request(asked.method, asked.path, asked.query, asked.headers, answer.status, size)
        with self._lock:
            self._requests.append(made)
            self._lock.notify_all()


def _tls(
    cert_file: str | os.PathLike[str] | None, key_file: str | os.PathLike[str] | None
) -> ssl.SSLContext | None:
    if cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    return context
