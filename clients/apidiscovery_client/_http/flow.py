"""The requests of discovery over HTTP, for any client that sends them.

Two requests, conditional where a document is cached; a plain one where a server or proxy cannot
handle the first; and one for each group-version where a server has no aggregated documents.
"""

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TypeAlias

from apidiscovery_client._errors import DiscoveryError, RequestRefused, UnexpectedDocument
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._negotiation import ACCEPT, ACCEPT_JSON, ACCEPT_PLAIN
from apidiscovery_client._package import has_protobuf
from apidiscovery_client._reading import read_document, read_resources, retained
from apidiscovery_client._reading.parsed import STALE
from apidiscovery_client.model import (
    CURRENT,
    PATHS,
    Current,
    DiscoveryPath,
    Freshness,
    Group,
    GroupVersion,
    Resource,
    Snapshot,
    Stale,
    Unknown,
    Version,
)

CORE_V1 = GroupVersion("", "v1")

# A single ETag: a list or `*` would confirm other documents than the cached one. RFC 9110 8.8.3,
# ASCII only.
_ETAG = re.compile(r'(?:W/)?"[!#-~]*"')


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How to ask over HTTP.

    Attributes:
        protobuf: Whether to prefer protobuf, a third of the size with our servers. It needs the
            extra `grpc`; without it JSON is requested.
        resources: Whether to request the resources of each group-version from servers without
            aggregated documents; otherwise they are `Unknown`.
        needs_core: Whether it is an error that `/api` or `/apis` fails, as for kubectl; otherwise
            what was known of it stays, or the snapshot's `failures` say why it is missing.
        max_body_bytes: The largest body that is read, compressed or not.
        query: What each request has in its query, such as `at=2026-11-20T10:00:00Z`; empty for
            nothing.
        warn: Called with the text of each warning that a server sends beside an answer, as often as
            it sends it, in whatever thread reads the answer; None to pass over them.
    """

    protobuf: bool = True
    resources: bool = True
    needs_core: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    query: str = ""
    warn: Callable[[str], object] | None = None


DEFAULT_OPTIONS = HttpOptions()


@dataclass(frozen=True, slots=True)
class Ask:
    """A GET request; `etag` goes into If-None-Match unless it is empty."""

    path: str
    accept: str
    etag: str = ""


Outcome: TypeAlias = Reply | DiscoveryError
Flow: TypeAlias = Generator[Sequence[Ask], Sequence[Outcome], FetchedSnapshot]


def advanced(flow: Flow, outcomes: Sequence[Outcome]) -> Sequence[Ask] | FetchedSnapshot:
    """Return the next requests, or the result."""
    try:
        return flow.send(outcomes)
    except StopIteration as end:
        fetched: FetchedSnapshot = end.value
        return fetched


@dataclass(frozen=True, slots=True)
class _PathState:
    """What is known of `/api` or `/apis`.

    Attributes:
        etag: Empty for none.
        document: Only with an ETag.
        unread: Whether the resources of its versions must be requested one by one.
        stale_reason: Why the server marks its answer as an old one; empty where it does not.
    """

    groups: tuple[Group, ...] = ()
    etag: str = ""
    document: Document | None = None
    unread: bool = False
    stale_reason: str = ""

    @property
    def is_outdated(self) -> bool:
        """Whether it is of an earlier answer because a request failed, see `_as_last_known`."""
        return any(
            isinstance(version.freshness, Stale)
            and version.freshness.retained
            and version.stated_freshness not in ("", STALE)
            for group in self.groups
            for version in group.versions
        )


def discovery(server: str, fetched: FetchedSnapshot | None, options: HttpOptions) -> Flow:
    """Yield requests to send side by side, receive their outcomes, and return the result.

    Where `/api` or `/apis` fails, what was known of it stays, marked as stale. Where nothing was
    known, a failure of `/api` is in `failures` and that of `/apis` is raised. A refusal of the
    caller is raised even for one of the two, so that nobody gets what others were allowed to see:

    - 401, always: the server does not know the caller;
    - 403 where something is known of that path: the caller has lost access. Where nothing is, it
      is a failure like others: the caller never had access to the core group.

    Where the server marks an answer as an old one, the snapshot is stale as a whole.

    Args:
        server: What the snapshot calls the server.
        fetched: The previous result.
        options: How to ask.

    Raises:
        ServerUnreachable: No answer to both paths, or to `/apis` with nothing known.
        RequestRefused: Another status than 200 there, except 404 at `/api` (there is no core
            group); or a refusal of the caller, which is raised first where both fail.
        UnexpectedDocument: A body there is not what its Content-Type promises.
    """
    before: dict[DiscoveryPath, _PathState] = {path: _before(path, fetched) for path in PATHS}
    accept = ACCEPT if options.protobuf and has_protobuf() else ACCEPT_JSON
    outcomes = yield tuple(Ask(path, accept, before[path].etag) for path in PATHS)
    now = datetime.now(UTC)
    answered: dict[DiscoveryPath, Outcome] = dict(zip(PATHS, outcomes, strict=True))
    judged: dict[DiscoveryPath, _PathState | DiscoveryError] = {
        path: _judged(path, answered[path], before[path], now) for path in PATHS
    }
    again: list[DiscoveryPath] = [
        path for path in PATHS if _was_not_understood(answered[path], judged[path])
    ]
    if again:
        outcomes = yield tuple(
            Ask(path, accept if _is_wrong_304(answered[path], before[path]) else ACCEPT_PLAIN)
            for path in again
        )
        for path, outcome in zip(again, outcomes, strict=True):
            judged[path] = _second(judged[path], _judged(path, outcome, _PathState(), now))
    states, failures = _settled(judged, before, now, needs_core=options.needs_core)
    unread = _unread(states) if options.resources else ()
    if unread:
        outcomes = yield tuple(Ask(gv.path, ACCEPT_PLAIN) for gv in unread)
        answers = {gv: _resources(gv, o) for gv, o in zip(unread, outcomes, strict=True)}
        states |= {path: _with_resources(states[path], answers, now) for path in PATHS}
    return _fetched(server, now, before, states, failures, fetched)


def _before(path: DiscoveryPath, fetched: FetchedSnapshot | None) -> _PathState:
    if fetched is None:
        return _PathState()
    of_core = path == "/api"
    groups = tuple(group for group in fetched.snapshot.groups if (not group.name) is of_core)
    etag, document = fetched.etags.get(path, ""), fetched.documents.get(path)
    state = _PathState(groups, etag, document)
    if not _ETAG.fullmatch(etag) or (state.is_outdated and document is None):
        return replace(state, etag="", document=None)
    return state


def _judged(
    path: DiscoveryPath, outcome: Outcome, before: _PathState, now: datetime
) -> _PathState | DiscoveryError:
    """Return the state of a path after an outcome."""
    if isinstance(outcome, DiscoveryError):
        return outcome
    try:
        if outcome.status == HTTPStatus.NOT_MODIFIED:
            state = _unchanged(path, outcome, before, now)
        elif outcome.status == HTTPStatus.NOT_FOUND and path == "/api":
            state = _PathState()
        else:
            state = _state_of(path, outcome, before, now)
        return replace(state, stale_reason=outcome.stale_reason)
    except DiscoveryError as error:
        return error


def _unchanged(path: DiscoveryPath, reply: Reply, before: _PathState, now: datetime) -> _PathState:
    """Return the state that a 304 confirms, as it was before earlier requests failed."""
    if not before.etag:
        problem = "304 says that nothing has changed, but nothing was said to be known"
        raise UnexpectedDocument(problem, url=reply.url)
    named = reply.headers.get("etag", before.etag)
    if named.removeprefix("W/") != before.etag.removeprefix("W/"):
        problem = f"304 says that {named} has not changed, but {before.etag} is known"
        raise UnexpectedDocument(problem, url=reply.url)
    if not before.is_outdated or before.document is None:
        return before
    headers = {"content-type": before.document.content_type}
    known = Reply(reply.url, HTTPStatus.OK, headers, before.document.body)
    told = _state_of(path, known, before, now)
    return replace(told, etag=before.etag, document=before.document)


def _state_of(path: DiscoveryPath, reply: Reply, before: _PathState, now: datetime) -> _PathState:
    state = reply.read(lambda content_type, body: read_document(path, content_type, body, now))
    _check_names(path, state.groups, reply.url)
    if not state.is_aggregated:
        return _PathState(state.groups, unread=True)
    groups = retained(state.groups, before.groups)
    etag = reply.headers.get("etag", "")
    etag = etag if _ETAG.fullmatch(etag) else ""
    document = Document(reply.headers.get("content-type", ""), reply.body)
    return _PathState(groups, etag, document if etag else None)


def _check_names(path: DiscoveryPath, groups: Iterable[Group], url: str) -> None:
    """Refuse the document of the other path, which is of the same kind."""
    for group in groups:
        if (path == "/api") is bool(group.name):
            named = f"group {group.name!r}" if group.name else "the core group, or of no name"
            raise UnexpectedDocument(f"the body is of {named}, which is not at {path}", url=url)


def _was_not_understood(outcome: Outcome, judged: _PathState | DiscoveryError) -> bool:
    """Whether to ask again with a plain Accept: the answer is 406, or not of its stated type.

    Some servers refuse an Accept with several clauses, some proxies drop or rewrite headers.
    """
    if not isinstance(outcome, Reply) or isinstance(judged, _PathState):
        return False
    return outcome.status == HTTPStatus.NOT_ACCEPTABLE or isinstance(judged, UnexpectedDocument)


def _is_wrong_304(outcome: Outcome, before: _PathState) -> bool:
    """Whether a 304 names another ETag than ours; an unconditional request gets the document."""
    is_304 = isinstance(outcome, Reply) and outcome.status == HTTPStatus.NOT_MODIFIED
    return is_304 and bool(before.etag)


def _second(
    first: _PathState | DiscoveryError, second: _PathState | DiscoveryError
) -> _PathState | DiscoveryError:
    """Return the second result; of two errors the first, unless that is the less helpful 406."""
    was_refused = isinstance(first, RequestRefused)
    is_better = isinstance(second, _PathState) or _refuses_caller(second)
    return second if was_refused or is_better else first


def _settled(
    judged: Mapping[DiscoveryPath, _PathState | DiscoveryError],
    before: Mapping[DiscoveryPath, _PathState],
    now: datetime,
    *,
    needs_core: bool,
) -> tuple[dict[DiscoveryPath, _PathState], dict[str, str]]:
    """Return the states of both paths, and why one is missing; raise where both are."""
    states: dict[DiscoveryPath, _PathState] = {}
    failures: dict[str, str] = {}
    errors = [found for found in judged.values() if isinstance(found, DiscoveryError)]
    if len(errors) == len(PATHS):
        raise next(filter(_refuses_caller, errors), errors[0])
    for path, found in judged.items():
        if isinstance(found, _PathState):
            states[path] = found
        elif _must_be_raised(found, before[path]):
            raise found
        elif before[path].groups and not needs_core:
            states[path] = _as_last_known(before[path], str(found), now)
        elif path == "/apis" or needs_core:
            raise found
        else:
            states[path] = _PathState()
            failures[path] = str(found)
    return states, failures


def _must_be_raised(error: DiscoveryError, before: _PathState) -> bool:
    """Whether an error is raised though the other path is known, see `discovery`."""
    if not isinstance(error, RequestRefused):
        return False
    is_unknown = error.status == HTTPStatus.UNAUTHORIZED
    return is_unknown or (error.is_of_the_caller and bool(before.groups))


def _refuses_caller(outcome: _PathState | DiscoveryError) -> bool:
    return isinstance(outcome, RequestRefused) and outcome.is_of_the_caller


def _as_last_known(before: _PathState, reason: str, now: datetime) -> _PathState:
    """Return the earlier state, marked as stale."""

    def marked(version: Version) -> Version:
        return replace(version, freshness=_outdated(version.freshness, reason, now))

    groups = tuple(
        replace(group, versions=tuple(map(marked, group.versions))) for group in before.groups
    )
    if before.document is None:  # without it, a later 304 could not restore the state
        return _PathState(groups)
    return replace(before, groups=groups)


def _outdated(freshness: Freshness, reason: str, now: datetime) -> Freshness:
    since = now if isinstance(freshness, Current) else freshness.since
    if isinstance(freshness, Unknown):
        return Unknown(since, reason)
    return Stale(since, reason, retained=True)


def _unread(states: Mapping[DiscoveryPath, _PathState]) -> tuple[GroupVersion, ...]:
    return tuple(
        dict.fromkeys(
            version.gv
            for state in states.values()
            if state.unread
            for group in state.groups
            for version in group.versions
        )
    )


def _resources(gv: GroupVersion, outcome: Outcome) -> tuple[Resource, ...] | str:
    """Return the resources of a group-version, or why they are not known.

    404 is tolerated for v1 of the core group only, as client-go
    `ServerResourcesForGroupVersion` does.
    """
    if isinstance(outcome, DiscoveryError):
        return str(outcome)
    if outcome.status == HTTPStatus.NOT_FOUND and gv == CORE_V1:
        return ()
    try:
        return outcome.read(lambda content_type, body: read_resources(gv, content_type, body))
    except RequestRefused as error:
        return error.message
    except DiscoveryError as error:
        return str(error)


def _with_resources(
    state: _PathState, answers: Mapping[GroupVersion, tuple[Resource, ...] | str], now: datetime
) -> _PathState:
    def answered(version: Version) -> Version:
        answer = answers[version.gv]
        if isinstance(answer, str):
            return replace(version, freshness=Unknown(now, answer))
        return replace(version, resources=answer, freshness=CURRENT)

    if not state.unread:
        return state
    groups = (
        replace(group, versions=tuple(map(answered, group.versions))) for group in state.groups
    )
    return replace(state, groups=tuple(groups))


def _fetched(  # noqa: PLR0913, PLR0917 - all that is known by now
    server: str,
    now: datetime,
    before: Mapping[DiscoveryPath, _PathState],
    states: Mapping[DiscoveryPath, _PathState],
    failures: Mapping[str, str],
    fetched: FetchedSnapshot | None,
) -> FetchedSnapshot:
    """Return the result; its `groups` are the object of `fetched` where they are equal."""
    known = {
        path: replace(state, groups=retained(state.groups, before[path].groups))
        if state.unread
        else state
        for path, state in states.items()
    }
    groups = _joined(known.values())
    if fetched and fetched.snapshot.groups == groups:
        groups = fetched.snapshot.groups
    return FetchedSnapshot(
        snapshot=Snapshot(groups, server, now, failures, _freshness(states, now, fetched)),
        etags={path: state.etag for path, state in known.items() if state.etag},
        documents={path: state.document for path, state in known.items() if state.document},
    )


def _freshness(
    states: Mapping[DiscoveryPath, _PathState], now: datetime, fetched: FetchedSnapshot | None
) -> Freshness:
    """Return that of the whole: stale where the server says so of an answer, since it first did."""
    reason = next((state.stale_reason for state in states.values() if state.stale_reason), "")
    if not reason:
        return CURRENT
    before = fetched.snapshot.freshness if fetched else CURRENT
    return Stale(before.since if isinstance(before, Stale) else now, reason)


def _joined(states: Iterable[_PathState]) -> tuple[Group, ...]:
    return tuple(group for state in states for group in state.groups)
