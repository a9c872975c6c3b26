"""Keys of the configuration file that have no flag, since their values have a structure."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from apidiscovery_kubeconfig.fields import Fields

from apidiscovery_service.access import ALL_CLUSTERS, Grant, Role
from apidiscovery_service.app.settings import UPSTREAM_NAME, UpstreamSettings
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.fleet.view_groups import ViewKind
from apidiscovery_service.fleet.view_spec import BUILT_IN_VIEWS, ViewSpec
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.selectors import parse_labels
from apidiscovery_service.sources.upstreams.credentials import translated

KEYS = ("upstreams", "cluster-options", "views", "services", "access")

_VIEW_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9]*(:[0-9]{1,5})?")

_ENDPOINT_KEYS = ("url", "kubeconfig", "context")
_GRANT_KEYS = ("role", "users", "groups", "api-groups", "clusters")
_ROLES = {role.name.lower(): role for role in Role if role is not Role.NONE}


@translated()
def configured_upstreams(value: object) -> list[UpstreamSettings]:
    """Return the upstreams of the key `upstreams`: a mapping from a name to its settings.

    Raises:
        InvalidConfiguration: It is not such a mapping, or an upstream has no `url` and no
            `kubeconfig` or `context`, or both.
    """
    upstreams = Fields(value, "upstreams.")
    return [_upstream(name, upstreams.raw(name)) for name in upstreams]


def _upstream(name: str, value: object) -> UpstreamSettings:
    where = f"upstreams.{name}"
    if not UPSTREAM_NAME.fullmatch(name):
        raise InvalidConfiguration(f"{where}: want a name of letters, digits, dots and dashes")
    if isinstance(value, str):
        return UpstreamSettings(name, value, place=f"{where}.")
    fields = Fields(value, f"{where}.")
    url, kubeconfig, context = map(fields.text, _ENDPOINT_KEYS)
    if bool(url) == bool(kubeconfig or context):
        raise InvalidConfiguration(f"{where}: want url, or kubeconfig or context, one of the two")
    file = Path(kubeconfig) if kubeconfig else None
    options = _values(fields, without=_ENDPOINT_KEYS)
    return UpstreamSettings(name, url, file, context, options, fields.place)


def _values(fields: Fields, without: Collection[str] = ()) -> dict[str, object]:
    return {key: fields.raw(key) for key in fields if key not in without}


@translated()
def configured_cluster_options(value: object) -> dict[str, Mapping[str, object]]:
    """Return the key `cluster-options`: options by a pattern of names of clusters, in order.

    Raises:
        InvalidConfiguration: It is no such mapping.
    """
    patterns = Fields(value, "cluster-options.")
    return {
        pattern: _values(Fields(patterns.raw(pattern), f"cluster-options.{pattern}."))
        for pattern in patterns
    }


@translated()
def configured_services(value: object) -> dict[str, str]:
    """Return the key `services`: addresses by `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.

    Raises:
        InvalidConfiguration: It is no such mapping.
    """
    services = Fields(value, "services.")
    for name in services:
        if not _SERVICE.fullmatch(name):
            raise services.wrong(name, "want NAMESPACE/NAME or NAMESPACE/NAME:PORT")
        if not isinstance(services.raw(name), str):
            raise services.wrong(name, "want a URL")
    return {name: services.text(name) for name in services}


@translated()
def configured_views(value: object) -> tuple[ViewSpec, ...]:
    """Return the views of the key `views`: a mapping from a name to its settings.

    Raises:
        InvalidConfiguration: It is not such a mapping, a name is not valid, or a view has no
            valid `of`.
    """
    views = Fields(value, "views.")
    return tuple(_view(name, views.raw(name)) for name in views)


def _view(name: str, value: object) -> ViewSpec:
    where = f"views.{name}"
    if not _VIEW_NAME.fullmatch(name):
        raise InvalidConfiguration(
            f"{where}: want a name of at most 63 small letters, digits and dashes"
        )
    if name in {spec.name for spec in BUILT_IN_VIEWS}:
        raise InvalidConfiguration(
            f"{where}: a view of this name is built in, over all clusters; want another name"
        )
    fields = Fields(value, f"{where}.")
    fields.only(("of", "clusters"))
    kind, selector = fields.text("of"), fields.text("clusters")
    if kind not in tuple(ViewKind):
        wanted, seen = " or ".join(ViewKind), f"{kind!r}" if kind else "nothing"
        raise fields.wrong("of", f"want {wanted}, got {seen}")
    try:
        return ViewSpec(name, ViewKind(kind), parse_labels(selector))
    except ObjectError as error:
        raise fields.wrong("clusters", f"want labels such as region=eu: {error.message}") from None


@translated()
def configured_grants(value: object) -> tuple[Grant, ...]:
    """Return the grants of the key `access`.

    It is a list; each element has `role` (`reader`, `publisher` or `admin`), at least one name in
    `users` or `groups`, and for a publisher `api-groups`: patterns in which `*` matches any text,
    with the empty text for the core group. A reader or publisher may have `clusters`: patterns of
    the clusters that these callers read about, by default all.

    Raises:
        InvalidConfiguration: It is not that; the message begins with the path of the key.
    """
    if value is None:
        raise InvalidConfiguration("access: want a list, got nothing")
    return tuple(map(_grant, Fields({"access": value}).inners("access")))


def _grant(fields: Fields) -> Grant:
    place = fields.place.rstrip(".")
    fields.only(_GRANT_KEYS)
    for key in fields:
        # An empty key must not widen a grant: without `clusters` it is about every cluster.
        if key != "role" and key not in fields:
            raise fields.wrong(key, "want a list of texts, got nothing")
    role = _role(fields)
    users, groups = _names(fields, "users"), _names(fields, "groups")
    if not users and not groups:
        raise InvalidConfiguration(f"{place}: want at least one name in users or groups, got none")
    patterns = fields.texts("api-groups")
    if role is Role.PUBLISHER and not patterns:
        message = "want at least one pattern, such as '*' for every group, got none"
        raise fields.wrong("api-groups", message)
    if role is not Role.PUBLISHER and patterns:
        seen = role.name.lower()
        raise fields.wrong("api-groups", f"only a publisher has API groups, this is {seen!r}")
    if role is Role.ADMIN and "clusters" in fields:
        raise fields.wrong("clusters", "an admin may read about every cluster")
    clusters = _names(fields, "clusters") if "clusters" in fields else ALL_CLUSTERS
    return Grant(role, frozenset(users), frozenset(groups), patterns, clusters)


def _role(fields: Fields) -> Role:
    name = fields.text("role")
    if name not in _ROLES:
        seen = repr(name) if name else "nothing"
        raise fields.wrong("role", f"want one of {', '.join(_ROLES)}, got {seen}")
    return _ROLES[name]


def _names(fields: Fields, key: str) -> tuple[str, ...]:
    names = fields.texts(key)
    if "" in names:
        raise fields.wrong(f"{key}[{names.index('')}]", "want a name, got an empty text")
    return names
