"""Routes of paths to objects.

Sources: k8s.io/apiserver pkg/endpoints/installer.go:registerResourceHandlers for the paths and
their methods, pkg/endpoints/request/requestinfo.go:NewRequestInfo for the verbs.
"""

from dataclasses import dataclass

from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, ObjectKind

_KINDS = {(kind.group, kind.version): kind for kind in (STORAGE_VERSION, LEASE)}

# The service itself writes leases, for clients that report over gRPC.
_WRITABLE = frozenset((STORAGE_VERSION.kind,))

_READ = ("GET",)
_COLLECTION = ("GET", "POST", "DELETE")
_ITEM = ("GET", "PUT", "PATCH", "DELETE")
_STATUS = ("GET", "PUT", "PATCH")

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


@dataclass(frozen=True, slots=True)
class ObjectRoute:
    """Objects of one kind, or one of them.

    Attributes:
        kind: Their kind.
        namespace: Their namespace; empty for all, and for kinds without namespaces.
        name: The name of one object; empty for all.
        status: Whether the path is the subresource `status`.
        watches: Whether the path has the deprecated prefix `watch`.
    """

    kind: ObjectKind
    namespace: str = ""
    name: str = ""
    status: bool = False
    watches: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The HTTP methods of the path."""
        if self.watches or self.kind.kind not in _WRITABLE:
            return _READ
        if self.status:
            return _STATUS
        return _ITEM if self.name else _COLLECTION

    @property
    def resource(self) -> str:
        """The resource in authorization messages: with the subresource."""
        return f"{self.kind.plural}/status" if self.status else self.kind.plural

    @property
    def endpoint(self) -> str:
        """The pattern of the path, for metrics."""
        parts = ["/apis", self.kind.group, self.kind.version]
        if self.watches:
            parts.append("watch")
        if self.namespace:
            parts.append("namespaces/{namespace}")
        parts.append(self.kind.plural)
        if self.name:
            parts.append("{name}")
        if self.status:
            parts.append("status")
        return "/".join(parts)

    def verb(self, method: str, *, watch: bool) -> str:
        """Return the verb of a request in authorization messages; empty for an unknown method.

        Args:
            method: The HTTP method.
            watch: Whether its query has `watch=true`.
        """
        verb = _VERBS.get(method, "")
        if self.watches:
            return "watch"
        if self.name:
            return verb
        if verb == "get":
            return "watch" if watch else "list"
        return "deletecollection" if verb == "delete" else verb


def object_route(path: str) -> ObjectRoute | None:
    """Return the route of a path; None for a path that is not about objects."""
    match path.split("/"):
        case ["", "apis", group, version, *rest]:
            kind = _KINDS.get((group, version))
        case _:
            return None
    if rest and rest[-1] == "":
        rest.pop()
    if kind is None or not rest or "" in rest:
        return None
    watches = rest[0] == "watch"
    return _below(kind, rest[1:] if watches else rest, watches=watches)


def _below(kind: ObjectKind, parts: list[str], *, watches: bool) -> ObjectRoute | None:
    namespace = ""
    if kind.namespaced and len(parts) > 2 and parts[0] == "namespaces":  # noqa: PLR2004
        namespace, parts = parts[1], parts[2:]
    if not parts or parts.pop(0) != kind.plural:
        return None
    match parts:
        case []:
            return ObjectRoute(kind, namespace, watches=watches)
        case [name] if namespace or not kind.namespaced:
            return ObjectRoute(kind, namespace, name, watches=watches)
        case [name, "status"] if kind is STORAGE_VERSION and not watches:
            return ObjectRoute(kind, namespace, name, status=True)
        case _:
            return None
