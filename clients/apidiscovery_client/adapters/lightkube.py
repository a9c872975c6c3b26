"""Classes of `lightkube` for every resource of a server, without a list of its definitions.

    from apidiscovery_client import DiscoveryClient
    from apidiscovery_client.adapters.lightkube import load_generic_resources, resource

    with DiscoveryClient() as discovery:
        load_generic_resources(discovery)  # for `codecs.load_all_yaml` and the like
        CronTab = resource("crontabs.stable.example.com", discovery)

With asyncio, pass `await discovery.snapshot()`. lightkube has one registry of classes for all
clusters of a process, so a kind that two clusters serve differently is an error.
"""

from collections.abc import Callable
from typing import Any, cast

from lightkube import generic_resource
from lightkube.core.exceptions import LoadResourceError
from lightkube.core.resource import NamespacedResource, api_info
from lightkube.core.resource import Resource as LightkubeResource
from lightkube.core.resource_registry import resource_registry
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource

from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import GroupVersion, Resource, Snapshot
from apidiscovery_client.resolving import Resolution, Resolver, full_name

__all__ = ["load_generic_resources", "resource"]

# The verbs of Kubernetes by lightkube's names, in the order of lightkube's default: lightkube
# compares the order too, when the same class is made again.
_VERBS = {
    "delete": "delete",
    "deletecollection": "deletecollection",
    "get": "get",
    "global_list": "list",
    "global_watch": "watch",
    "list": "list",
    "patch": "patch",
    "post": "create",
    "put": "update",
    "watch": "watch",
}

_Create = Callable[..., type[LightkubeResource]]
_MODULE = cast("Any", generic_resource)  # its functions are partly untyped
_CREATE_NAMESPACED: _Create = _MODULE.create_namespaced_resource
_CREATE_GLOBAL: _Create = _MODULE.create_global_resource


def load_generic_resources(
    source: DiscoveryClient | Snapshot,
) -> tuple[type[LightkubeResource], ...]:
    """Make a generic class of each kind that a server serves and lightkube does not know.

    They are registered with lightkube: `get_generic_resource`, `codecs.load_all_yaml` and others
    find them. Where several resources of a group-version are of one kind, the class is that of the
    first resource.

    Returns:
        Those classes, in the server's order; also those that were there before.

    Raises:
        LoadResourceError: Some kinds already have classes of other resources. All others
            are loaded.
        DiscoveryError: As `DiscoveryClient.snapshot`.
    """
    snapshot = source if isinstance(source, Snapshot) else source.snapshot()
    first: dict[tuple[GroupVersion, str], Resource] = {}
    for served in snapshot.resources:
        if served.kind:
            first.setdefault((served.gv, served.kind), served)
    loaded: list[type[LightkubeResource]] = []
    problems: list[str] = []
    for served in first.values():
        try:
            loaded.append(_class_of(served))
        except LoadResourceError as error:
            problems.append(str(error))
    if problems:
        raise LoadResourceError("; ".join(problems))
    generic = (GenericNamespacedResource, GenericGlobalResource)
    return tuple(one for one in loaded if issubclass(one, generic))


def resource(text: str, source: DiscoveryClient | Snapshot) -> type[LightkubeResource]:
    """Return the class of the resource that kubectl takes a name for, also `deployments/scale`.

    It is lightkube's own class, or else a generic one, which is registered.

    Raises:
        LoadResourceError: There is no such resource; it is a category of several; the class that
            is registered for its kind leads elsewhere; lightkube has no class for the subresource.
        DiscoveryError: As `DiscoveryClient.snapshot`.
    """
    try:
        found = _resolved(text, source)
    except (NotServed, AmbiguousResource) as error:
        raise LoadResourceError(str(error)) from error
    made = _class_of(found.resource)
    return _below(made, found.subresource.name) if found.subresource else made


def _resolved(text: str, source: DiscoveryClient | Snapshot) -> Resolution:
    if isinstance(source, Snapshot):
        return Resolver(source).resolve(text)
    return source.resolve(text)


def _class_of(served: Resource) -> type[LightkubeResource]:
    """Return the class of a resource, registered now or before."""
    try:
        known = cast("Any", resource_registry).load(str(served.gv), served.kind)
    except LoadResourceError:
        return _created(served)
    found = cast("type[LightkubeResource]", known)
    info = api_info(found)
    is_namespaced = issubclass(found, NamespacedResource)
    if (info.plural, is_namespaced) == (served.name, served.is_namespaced):
        return found
    scope = "namespaced" if is_namespaced else "global"
    raise LoadResourceError(
        f"{full_name(served)} has the scope {served.scope}, but the class that lightkube has for"
        f" {served.gv} {served.kind} is of the {scope} resource {info.plural};"
        " `resource_registry.clear()` forgets it"
    )


def _created(served: Resource) -> type[LightkubeResource]:
    create = _CREATE_NAMESPACED if served.is_namespaced else _CREATE_GLOBAL
    verbs = [own for own, verb in _VERBS.items() if verb in served.verbs]
    return create(served.gv.group, served.gv.version, served.kind, served.name, verbs=verbs)


def _below(made: type[LightkubeResource], name: str) -> type[LightkubeResource]:
    """Return the class of a subresource, an attribute of the resource's class."""
    for value in cast("dict[str, Any]", vars(made)).values():
        if isinstance(value, type) and issubclass(value, LightkubeResource):
            below: type[LightkubeResource] = value
            if api_info(below).action == name:
                return below
    raise LoadResourceError(
        f"lightkube has no class for the subresource {name!r} of {made.__name__}"
    )
