"""The answers of a kube-apiserver to requests for discovery."""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote

from apidiscovery_formats import go_json, go_yaml
from apidiscovery_formats.go_text import parse_bool
from apidiscovery_formats.media_types import AGGREGATED_KIND
from apidiscovery_formats.media_types import JSON as JSON_TYPE
from apidiscovery_formats.negotiation import (
    MEDIA_TYPES,
    PROTOBUF,
    YAML,
    Representation,
    negotiate,
    not_acceptable_message,
    route_accepts,
)

from apidiscovery_client import _writing
from apidiscovery_client.model import CURRENT, Group, Version
from apidiscovery_client.testing._state import ANY_PATH, Failure, State

_TEXT = "text/plain; charset=utf-8"
_HEALTH = ("/healthz", "/livez", "/readyz")
_OPEN_TO_ALL = (*_HEALTH, "/version")
_NOT_CACHED = {"Cache-Control": "no-cache, private"}
_COMPRESSED_FROM = 128 * 1024 + 1
_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_GARBAGE = b"<html><body>This is not discovery.</body></html>"
# Source: apimachinery pkg/apis/meta/v1/types.go `StatusReason`.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        path: As it came, without the query.
        headers: The first of each name, in lower case.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def place(self) -> str:
        """Return the path without a slash at the end."""
        return self.path.rstrip("/") or "/"

    @property
    def names(self) -> list[str]:
        """Return the segments of the path, unquoted."""
        return [unquote(part) for part in self.place.split("/")[1:]]

    @property
    def is_pretty(self) -> bool:
        """Whether a person reads the answer.

        Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go `isPrettyPrint`.
        """
        told = parse_qs(self.query).get("pretty")
        if told:
            return bool(parse_bool(told[0]))
        return self.headers.get("user-agent", "").startswith(_PEOPLE)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes:
        breaks_off: Whether the connection ends in the middle of the body.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    breaks_off: bool = False


def answer(asked: Asked, state: State, address: str) -> Answer:
    """Return what a server in that state, at that `host:port`, answers."""
    if state.drops_accept:
        asked = _without(asked, "accept")
    if state.is_unauthorized and asked.place not in _OPEN_TO_ALL:
        return _status(asked, 401, "Unauthorized")
    if state.refuses_aggregated and f"as={AGGREGATED_KIND}" in asked.headers.get("accept", ""):
        return _not_acceptable()
    is_garbled = not state.garbled.isdisjoint((asked.place, ANY_PATH))
    breaks_off = not state.truncated.isdisjoint((asked.place, ANY_PATH))
    if is_garbled or breaks_off:  # a broken answer is never a 304
        asked = _without(asked, "if-none-match")
    made = _route(asked, state, address)
    if is_garbled:
        made = replace(made, body=_GARBAGE)
    return replace(_compressed(asked, made), breaks_off=breaks_off)


def _without(asked: Asked, header: str) -> Asked:
    kept = {name: text for name, text in asked.headers.items() if name != header}
    return replace(asked, headers=kept)


def failed(asked: Asked, failure: Failure) -> Answer:
    """Return the answer of a failure."""
    if failure.body is not None:
        made = Answer(failure.status, {"Content-Type": failure.content_type}, failure.body)
    elif failure.status == 503 and failure.retry_after_s is None:  # noqa: PLR2004
        # Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go `proxyError`.
        made = Answer(503, {"Content-Type": _TEXT}, b"service unavailable\n")
    else:
        made = _status(asked, failure.status, "refused, as the test wants it")
    if failure.retry_after_s is None:
        return made
    return replace(made, headers={**made.headers, "Retry-After": str(failure.retry_after_s)})


def _route(asked: Asked, state: State, address: str) -> Answer:
    if own := _aggregators_own(asked, state):
        return own
    made = _behind_go_restful(asked, state, address)
    return made if made.status == 404 else _go_restful_refusal(asked) or made  # noqa: PLR2004


def _aggregators_own(asked: Asked, state: State) -> Answer | None:
    """Return the answer of kube-aggregator's own handlers, which accept any method.

    Only `/apis` without a slash at the end is aggregated.
    Source: k8s.io/kube-aggregator pkg/apiserver/apiserver.go `NewWithDelegate`.
    """
    if asked.place in _HEALTH:
        return Answer(200, {"Content-Type": _TEXT, **_NOT_CACHED}, b"ok")
    if asked.path == "/apis":
        return _either(asked, state, lambda: _writing.group_list_fields(_named(state)))
    match asked.names:
        case ["apis"]:
            return _plain(asked, _writing.group_list_fields(_named(state)))
        case ["apis", name]:
            return _group(asked, state.group(name))
        case _:
            return None


def _behind_go_restful(asked: Asked, state: State, address: str) -> Answer:
    if asked.place == "/api":
        core = state.group("")
        return _either(asked, state, lambda: _writing.core_versions_fields(core, address))
    if asked.place in _FIXED:
        return _pretty_document(_FIXED[asked.place](state))
    return _resources(asked, state)


def _named(state: State) -> tuple[Group, ...]:
    return tuple(group for group in state.groups if group.name)


def _either(asked: Asked, state: State, fields: Callable[[], Mapping[str, object]]) -> Answer:
    """Return the aggregated document, or the unaggregated one with these fields."""
    release = state.release_at(asked.place)
    if state.is_never_modified and release.aggregated_versions:
        return _not_modified(_etag(asked, state))
    accept = asked.headers.get("accept", "")
    chosen = negotiate(accept, release.aggregated_versions)
    if chosen is None or not chosen.aggregated:
        return _plain(asked, fields())
    etag = _etag(asked, state)
    if asked.headers.get("if-none-match") == etag:
        return _not_modified(etag)
    headers = {"Content-Type": chosen.content_type, **_validators(etag)}
    groups = state.aggregated_groups(asked.place)
    if chosen.serializer is PROTOBUF:
        body = _writing.write_protobuf(groups, chosen.aggregated)
    else:
        body = _as_text(asked, chosen, _writing.write_aggregated(groups, chosen.aggregated))
    return Answer(200, headers, body)


def _etag(asked: Asked, state: State) -> str:
    body = _writing.write_aggregated(state.aggregated_groups(asked.place))
    return f'"{_writing.etag_of(body)}"'


def _validators(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}


def _not_modified(etag: str) -> Answer:
    """Return 304 without a Content-Type: client-go would take it for that of the stored answer."""
    return Answer(304, _validators(etag))


def _group(asked: Asked, group: Group | None) -> Answer:
    if group is None or not group.name:
        return _not_found()
    return _plain(asked, _writing.group_fields(group))


def _resources(asked: Asked, state: State) -> Answer:
    version, rest = _version(asked.names, state)
    if version is None:
        return _not_found()
    if rest:
        return _status(asked, 404, "the server could not find the requested resource", details=True)
    if version.freshness != CURRENT and not version.resources:
        return failed(asked, Failure(503))
    return _plain(asked, _writing.resource_list_fields(version))


def _version(names: list[str], state: State) -> tuple[Version | None, list[str]]:
    """Return the version that a path names, and the rest of the path."""
    match names:
        case ["api", name, *rest]:
            group = state.group("")
        case ["apis", group_name, name, *rest] if group_name:
            group = state.group(group_name)
        case _:
            return None, []
    return (group.version(name) if group else None), rest


def _plain(asked: Asked, fields: Mapping[str, object]) -> Answer:
    chosen = negotiate(asked.headers.get("accept", ""))
    if chosen is None:
        return _not_acceptable()
    headers = {"Content-Type": chosen.content_type, **_NOT_CACHED}
    if chosen.serializer is PROTOBUF:
        from apidiscovery_client import _writing_protobuf  # noqa: PLC0415 - few need the stubs

        return Answer(200, headers, _writing_protobuf.unaggregated(fields))
    return Answer(200, headers, _as_text(asked, chosen, _writing.document_json(fields)))


def _as_text(asked: Asked, chosen: Representation, body: bytes) -> bytes:
    """Return a JSON document as JSON or YAML, indented where a person reads it."""
    if chosen.serializer is YAML:
        return go_yaml.text(json.loads(body)).encode()
    if chosen.pretty or asked.is_pretty:
        return _indented(json.loads(body))
    return body


def _indented(value: object) -> bytes:
    return go_json.dumps_indented(value, 2).encode()


def _not_found() -> Answer:
    headers = {"Content-Type": _TEXT, "X-Content-Type-Options": "nosniff"}
    return Answer(404, headers, b"404 page not found\n")


def _not_acceptable() -> Answer:
    """Return 406, which is always indented JSON."""
    fields = _status_fields(406, not_acceptable_message(), details=False)
    return Answer(406, {"Content-Type": JSON_TYPE, **_NOT_CACHED}, _indented(fields))


def _go_restful_refusal(asked: Asked) -> Answer | None:
    """Return the refusal of a request for an existing path; None if it is not refused.

    Source: k8s.io/apiserver pkg/server/handler.go `serviceErrorHandler`.
    """
    if asked.method != "GET":
        message = "the server does not allow this method on the requested resource"
        return _status(asked, 405, message, details=True)
    if not route_accepts(asked.headers.get("accept", "")):
        available = ", ".join(MEDIA_TYPES)
        message = f"406: Not Acceptable\n\nAvailable representations: {available}"
        return _status(asked, 406, message, details=True)
    return None


def _status(asked: Asked, code: int, message: str, *, details: bool = False) -> Answer:
    """Return an error in a form that the client accepts, by default indented JSON."""
    fields = _status_fields(code, message, details=details)
    headers = {"Content-Type": JSON_TYPE, **_NOT_CACHED}
    chosen = negotiate(asked.headers.get("accept", ""))
    if chosen is None or chosen.serializer is PROTOBUF:
        return Answer(code, headers, _indented(fields))
    headers["Content-Type"] = chosen.serializer.media_type
    return Answer(code, headers, _as_text(asked, chosen, _writing.document_json(fields)))


def _status_fields(code: int, message: str, *, details: bool) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "Unknown"),
        **({"details": {}} if details else {}),
        "code": code,
    }


def _pretty_document(fields: Mapping[str, object]) -> Answer:
    return Answer(200, {"Content-Type": JSON_TYPE, **_NOT_CACHED}, _indented(fields))


def _index(state: State) -> dict[str, object]:
    paths = {version.gv.path for group in state.groups for version in group.versions}
    paths |= {f"/apis/{group.name}" for group in _named(state)}
    return {"paths": sorted(paths | {"/api", "/apis", "/openapi/v3", *_OPEN_TO_ALL})}


def _version_document(state: State) -> Mapping[str, object]:
    return state.release.version_document


def _openapi_index(_: State) -> Mapping[str, object]:
    return {"paths": {}}  # it has no schemas


_FIXED: Mapping[str, Callable[[State], Mapping[str, object]]] = {
    "/": _index,
    "/version": _version_document,
    "/openapi/v3": _openapi_index,
}


def _compressed(asked: Asked, made: Answer) -> Answer:
    """Return a large answer gzipped, if the client accepts that.

    Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go.
    """
    told = [word.strip() for word in asked.headers.get("accept-encoding", "").split(",")]
    if "gzip" not in told or len(made.body) < _COMPRESSED_FROM:
        return made
    vary = ", ".join(filter(None, [made.headers.get("Vary"), "Accept-Encoding"]))
    headers = {**made.headers, "Content-Encoding": "gzip", "Vary": vary}
    return replace(made, headers=headers, body=gzip.compress(made.body, 1, mtime=0))
