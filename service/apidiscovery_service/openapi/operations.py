"""Operations of a resource as Kubernetes publishes them: names, parameters, bodies, responses.

Sources: apiextensions-apiserver pkg/controller/openapi/builder/builder.go (buildRoute);
kube-openapi pkg/builder3/openapi.go; k8s.io/apiserver pkg/endpoints/installer.go.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apidiscovery_service.core.model import GroupVersionKind
from apidiscovery_service.openapi import meta_components

_BODIES: Final = ("application/json", "application/yaml")
# Not the strategic merge patch: it needs the fields of built-in types.
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_CODES: Final = {"200": "OK", "201": "Created", "202": "Accepted"}


@dataclass(frozen=True, slots=True)
class Route:
    """What a verb of discovery does over HTTP.

    Attributes:
        discovery_verb: The verb in `APIResource.verbs`.
        method: Its field in the path item.
        action: `x-kubernetes-action`.
        verb: What its operationId and description begin with.
        codes: Of the answers that have a body.
    """

    discovery_verb: str
    method: str
    action: str
    verb: str
    codes: tuple[str, ...] = ("200",)


LIST: Final = Route("list", "get", "list", "list")
CREATE: Final = Route("create", "post", "post", "create", ("200", "201", "202"))
DELETE_COLLECTION: Final = Route(
    "deletecollection", "delete", "deletecollection", "deletecollection"
)
READ: Final = Route("get", "get", "get", "read")
REPLACE: Final = Route("update", "put", "put", "replace", ("200", "201"))
DELETE: Final = Route("delete", "delete", "delete", "delete", ("200", "202"))
PATCH: Final = Route("patch", "patch", "patch", "patch")

# In the order of the fields of a path item: kube-openapi pkg/spec3/path.go:PathProps.
COLLECTION: Final = (LIST, CREATE, DELETE_COLLECTION)
ITEM: Final = (READ, REPLACE, DELETE, PATCH)


@dataclass(frozen=True, slots=True)
class Subject:
    """What the operations of a path are about.

    Attributes:
        group: Such as `stable.example.com`; `core` for the core group.
        version: Such as `v1`.
        label: What names and descriptions call the resource, such as `CronTab`.
        kind: What is read and written; None when it is not known.
        scope: `Namespaced` where the path has a namespace, else empty.
        subresource: Such as `status`, or empty.
        suffix: `ForAllNamespaces`, or empty.
    """

    group: str
    version: str
    label: str
    kind: GroupVersionKind | None
    scope: str = ""
    subresource: str = ""
    suffix: str = ""

    def operation_id(self, route: Route) -> str:
        """Return a name such as `replaceStableExampleComV1NamespacedCronTabStatus`."""
        below = camel(self.subresource, capital=True)
        stem = f"{route.verb}{self.scope}{self.label}{below}{self.suffix}"
        return operation_id(stem, self.group, self.version)


def operation(
    route: Route,
    subject: Subject,
    name: str,
    parameters: Collection[Mapping[str, Any]] | None,
    model: Mapping[str, object],
) -> dict[str, object]:
    """Return an operation.

    Args:
        route: What it does.
        subject: What it is about.
        name: Its operationId.
        parameters: Its own; None leaves the field out.
        model: The schema of what is read and written, or of the list; deletions do not use it.
    """
    made: dict[str, object] = {
        "tags": [tag(subject.group, subject.version)],
        "description": description(route.verb, subject.label, subject.subresource),
        "operationId": name,
    }
    if parameters is not None:
        made["parameters"] = parameters
    body = _request_body(route, model)
    if body:
        made["requestBody"] = body
    status = meta_components.reference(meta_components.STATUS)
    content = _content(_BODIES, status if route.method == "delete" else model)
    made["responses"] = {
        **{code: {"description": _CODES[code], "content": content} for code in route.codes},
        "401": {"description": "Unauthorized"},
    }
    made["x-kubernetes-action"] = route.action
    kind = subject.kind
    if kind:  # in the order of the Go struct
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        made["x-kubernetes-group-version-kind"] = named
    return made


def _request_body(route: Route, model: Mapping[str, object]) -> dict[str, object]:
    """Return the body that an operation takes; empty when it takes none."""
    match route.action:
        case "delete":
            options = meta_components.reference(meta_components.DELETE_OPTIONS)
            return {"content": _content(_BODIES, options)}
        case "patch":
            patch = meta_components.reference(meta_components.PATCH)
            return {"content": _content(_PATCHES, patch), "required": True}
        case "post" | "put":
            return {"content": _content(_BODIES, model), "required": True}
        case _:
            return {}


def _content(media_types: Iterable[str], schema: Mapping[str, object]) -> dict[str, object]:
    return {media_type: {"schema": schema} for media_type in media_types}


def name_parameter(label: str) -> dict[str, object]:
    """Return the parameter of a path that is the name of an object."""
    return {
        "name": "name",
        "in": "path",
        "description": f"name of the {label}",
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


# k8s.io/apiserver pkg/endpoints/openapi/openapi.go:verbs
_VERBS = (
    "get",
    "log",
    "read",
    "replace",
    "patch",
    "delete",
    "deletecollection",
    "watch",
    "connect",
    "proxy",
    "list",
    "create",
)
_VOWELS = frozenset("aeiou")


def camel(text: str, *, capital: bool) -> str:
    """Return text in camel case: letters, digits and underscores, without a digit at the start.

    Args:
        text: Such as `stable.example.com`.
        capital: Whether the first letter is in upper case.

    Source: k8s.io/apiserver pkg/endpoints/openapi/openapi.go:ToValidOperationID.
    """
    letters: list[str] = []
    for index, letter in enumerate(text):
        if letter.isalpha() or letter == "_" or (index and letter.isdecimal()):
            letters.append(_upper(letter) if capital else letter)
            capital = False
        else:
            capital = True
    return "".join(letters)


def _upper(letter: str) -> str:
    """Return a letter in upper case, or as it is when that is more than one letter."""
    large = letter.upper()
    return large if len(large) == 1 else letter


def operation_id(stem: str, group: str, version: str) -> str:
    """Return the operationId.

    The shortest verb that the stem begins with precedes group and version, so
    `deletecollectionNamespacedCronTab` becomes `delete...CollectionNamespacedCronTab`.

    Args:
        stem: The operation without its group, such as `listNamespacedCronTab`.
        group: Such as `stable.example.com`; a trailing `.k8s.io` is dropped.
        version: Such as `v1`.

    Raises:
        ValueError: The stem begins with no verb.

    Source: k8s.io/apiserver pkg/endpoints/openapi/openapi.go:GetOperationIDAndTags.
    """
    verb = min(filter(stem.startswith, _VERBS), key=len)
    words = (group.removesuffix(".k8s.io"), version, stem[len(verb) :])
    return verb + "".join(camel(word, capital=True) for word in words)


def tag(group: str, version: str) -> str:
    """Return the tag of a group-version, such as `stableExampleCom_v1`."""
    short = group.removesuffix(".k8s.io")
    return f"{camel(short, capital=False)}_{camel(version, capital=False)}"


def article(noun: str) -> str:
    """Return the text between a verb and a noun: ` a `, ` an `, or a space before a plural.

    Source: k8s.io/apiserver pkg/endpoints/installer.go:GetArticleForNoun.
    """
    if noun.endswith("s") and not noun.endswith("ss"):
        return " "
    return " an " if noun[:1].lower() in _VOWELS else " a "


def description(verb: str, kind: str, subresource: str = "") -> str:
    """Return the description of an operation.

    Args:
        verb: `list`, `create`, `deletecollection`, `read`, `replace`, `delete` or `patch`.
        kind: Such as `CronTab`.
        subresource: `status`, `scale`, or empty.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:descriptionFor.
    """
    part = f" {subresource} of" if subresource else ""
    match verb:
        case "list":
            return f"list{part} objects of kind {kind}"
        case "create" | "delete":
            return f"{verb}{part}{article(kind)}{kind}"
        case "deletecollection":
            return f"delete collection of{part}{' a' if part else ''} {kind}"
        case "patch":
            return f"partially update{part} the specified {kind}"
        case _:
            return f"{verb}{part} the specified {kind}"
