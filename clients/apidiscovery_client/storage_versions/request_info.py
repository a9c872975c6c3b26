"""The attributes of a request, from its method and URL.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go `NewRequestInfo`, with the prefixes
of pkg/server/config.go: `api`, which has no groups, and `apis`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.storage_versions.gate import RequestAttributes

_CORE_PREFIX = "api"
_GROUPS_PREFIX = "apis"
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_PATH_VERBS = frozenset({"proxy", "watch"})
_NO_SUBRESOURCES = "proxy"  # after this verb and a name comes a path, not a subresource
_METHOD_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FALSE = frozenset({"false", "0"})
_COMMA = re.compile(r"(?<!\\)((?:\\\\)*),")
_TERM = re.compile(r"(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\,=])")
_BARE_IN_VALUE = re.compile(r"(?<!\\)(?:\\\\)*=")


class UnreadablePath(DiscoveryError):
    """A path ends after `watch` or `proxy`, where a resource is expected."""


@dataclass(frozen=True, slots=True)
class _GroupPath:
    """The group of a path, and its parts from the version on."""

    group: str
    parts: Sequence[str]


def request_attributes(
    method: str, path: str, query: str = "", *, user: str = "", groups: Collection[str] = ()
) -> RequestAttributes:
    """Return the attributes of a request.

    Args:
        method: HTTP method, in capitals.
        path: Percent-decoded.
        query: As sent, without the question mark.
        user: Returned in the attributes.
        groups: Returned in the attributes.

    Raises:
        UnreadablePath: The path is one of an API group, but names no resource.
    """
    found = _group_path([part for part in path.strip("/").split("/") if path.strip("/")])
    if found is None:
        return RequestAttributes(method.lower(), is_resource=False, user=user, groups=groups)
    version, *parts = found.parts
    verb = _METHOD_VERBS.get(method, "")
    if parts[0] in _PATH_VERBS:
        verb, *parts = parts
        if not parts:
            raise UnreadablePath(f"unable to determine kind and namespace from url, {path}")
    namespace, parts = _namespace(parts)
    has_subresource = len(parts) > 2 and verb != _NO_SUBRESOURCES  # noqa: PLR2004 - resource, name
    name = parts[1] if len(parts) > 1 else ""
    if not name and verb == "get":
        verb, name = _listing(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestAttributes(
        verb,
        found.group,
        parts[0],
        namespace,
        parts[2] if has_subresource else "",
        user=user,
        groups=groups,
        version=version,
        name=name,
    )


def _group_path(parts: Sequence[str]) -> _GroupPath | None:
    """Return the group, and the parts from the version on; None if it is not a resource."""
    match parts:
        case [prefix, _, _, *_] if prefix == _CORE_PREFIX:
            return _GroupPath("", parts[1:])
        case [prefix, group, _, _, *_] if prefix == _GROUPS_PREFIX:
            return _GroupPath(group, parts[2:])
        case _:
            return None


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    """Return the namespace, and the parts from the resource on.

    A namespace is also a resource, in its own namespace.
    """
    match parts:
        case ["namespaces", namespace, resource, *_] if resource not in _NAMESPACE_SUBRESOURCES:
            return namespace, parts[2:]
        case ["namespaces", namespace, *_]:
            return namespace, parts
        case _:
            return "", parts


def _listing(query: str) -> tuple[str, str]:
    """Return the verb of a GET without a name, and the single name of its field selector."""
    parameters = _parameters(query)
    watched = parameters.get("watch")
    is_watch = watched is not None and watched[0].lower() not in _FALSE
    selector = parameters.get("fieldSelector", [""])[0]
    return "watch" if is_watch else "list", _selected_name(selector)


def _parameters(query: str) -> dict[str, list[str]]:
    """Return parameters by name, without malformed ones, as Go's net/url `ParseQuery`."""
    parameters: dict[str, list[str]] = {}
    for piece in query.split("&") if query else ():
        if ";" in piece or _BAD_ESCAPE.search(piece):
            continue
        name, _, value = piece.partition("=")
        parameters.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return parameters


def _selected_name(selector: str) -> str:
    """Return the only name that a field selector matches; empty when there is none.

    Sources: k8s.io/apimachinery pkg/fields/selector.go `ParseSelector`, `RequiresExactMatch`;
    pkg/api/validate/content/path.go `IsPathSegmentName`.
    """
    names: list[str] = []
    for term in filter(None, _COMMA.sub("\\1\0", selector).split("\0")):
        found = _TERM.fullmatch(term)
        if found is None or _BARE_IN_VALUE.search(found["value"]):
            return ""  # malformed
        if found["field"] == "metadata.name" and found["operator"] != "!=":
            names.append(_ESCAPED.sub(r"\1", found["value"]))
    name = names[0] if names else ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name
