"""Grants: parsed from the configuration, and the roles that callers have by them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from apidiscovery_service.access import ALL_CLUSTERS, Caller, Grant, Role
from apidiscovery_service.errors import InvalidConfiguration

KEY = "access"

_ROLES = {role.name.lower(): role for role in Role if role is not Role.NONE}
_KEYS = ("role", "users", "groups", "api-groups", "clusters")


class Roles:
    """The roles of callers by a list of grants.

    A caller has the highest role of the grants that name the user or one of its groups. A publisher
    may change the API groups that any of its `publisher` grants has a pattern for.
    """

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        self._grants = [(grant, matching(grant.api_groups)) for grant in grants]
        self._clusters = [matching(grant.clusters) for grant in grants]

    def role(self, caller: Caller) -> Role:
        """Return the caller's role."""
        return max((grant.role for grant, _ in self._of(caller)), default=Role.NONE)

    def clusters(self, caller: Caller) -> tuple[str, ...]:
        """Return the patterns of the clusters that a caller may read about, sorted."""
        patterns = {pattern for grant, _ in self._of(caller) for pattern in grant.clusters}
        return ALL_CLUSTERS if "*" in patterns else tuple(sorted(patterns))

    def all_may_read(self, cluster: str) -> bool:
        """Return whether every caller with a role may read about a cluster."""
        return all(pattern.fullmatch(cluster) for pattern in self._clusters)

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Return why a caller may not change registrations of these API groups; None if it may.

        Args:
            caller: The caller.
            api_groups: Names, empty for the core group. Without any, the right to publish is
                enough.
        """
        grants = [(grant, p) for grant, p in self._of(caller) if grant.role >= Role.PUBLISHER]
        if not grants:
            return f"user {caller.user!r} is no publisher"
        if any(grant.role is Role.ADMIN for grant, _ in grants):
            return None
        denied = sorted(
            group
            for group in set(api_groups)
            if not any(pattern.fullmatch(group) for _, pattern in grants)
        )
        if not denied:
            return None
        names = ", ".join(map(repr, denied))
        return f"user {caller.user!r} may not change these API groups: {names}"

    def _of(self, caller: Caller) -> list[tuple[Grant, re.Pattern[str]]]:
        return [
            (grant, pattern)
            for grant, pattern in self._grants
            if caller.user in grant.users or not grant.groups.isdisjoint(caller.groups)
        ]


def matching(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return what matches any of the patterns; only `*` is special, and it matches any text."""
    alternatives = [
        ".*".join(re.escape(part) for part in pattern.split("*")) for pattern in patterns
    ]
    # Without an alternative nothing must match, not even the empty name of the core group.
    return re.compile("|".join(alternatives) if alternatives else r"(?!)", re.DOTALL)


def parse_grants(value: object) -> tuple[Grant, ...]:
    """Parse the value of the key `access`.

    It is a list; each element has `role` (`reader`, `publisher` or `admin`), at least one name in
    `users` or `groups`, and for a publisher `api-groups`: patterns in which `*` matches any text,
    with the empty text for the core group. But for an admin it may have `clusters`: patterns of the
    clusters that these callers read about, by default all.

    Raises:
        InvalidConfiguration: It is not that; the message begins with the path of the key.
    """
    elements = _list(KEY, "a list of grants", value)
    return tuple(_grant(f"{KEY}[{place}]", element) for place, element in enumerate(elements))


def _grant(path: str, value: object) -> Grant:
    if not isinstance(value, Mapping):
        raise _wrong(path, "a mapping with role, users or groups", value)
    fields = cast("Mapping[object, object]", value)
    unknown = [str(key) for key in fields if key not in _KEYS]
    if unknown:
        raise InvalidConfiguration(
            f"{path}.{unknown[0]}: unknown key; want one of {', '.join(_KEYS)}"
        )
    role = _role(f"{path}.role", fields.get("role"))
    users = _names(f"{path}.users", fields.get("users", []))
    groups = _names(f"{path}.groups", fields.get("groups", []))
    if not users and not groups:
        raise InvalidConfiguration(f"{path}: want at least one name in users or groups, got none")
    patterns = _texts(f"{path}.api-groups", fields.get("api-groups", []))
    if role is Role.PUBLISHER and not patterns:
        raise InvalidConfiguration(
            f"{path}.api-groups: want at least one pattern, for a publisher without any could "
            "publish nothing; '*' is every group"
        )
    if role is not Role.PUBLISHER and patterns:
        raise InvalidConfiguration(
            f"{path}.api-groups: only a publisher has API groups, this is {role.name.lower()!r}"
        )
    clusters = _names(f"{path}.clusters", fields.get("clusters", list(ALL_CLUSTERS)))
    if role is Role.ADMIN and "clusters" in fields:
        raise InvalidConfiguration(f"{path}.clusters: an admin may read about every cluster")
    return Grant(role, frozenset(users), frozenset(groups), patterns, clusters)


def _role(path: str, value: object) -> Role:
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        raise _wrong(path, f"one of {', '.join(_ROLES)}", value)
    return role


def _names(path: str, value: object) -> tuple[str, ...]:
    names = _texts(path, value)
    if "" in names:
        raise InvalidConfiguration(f"{path}[{names.index('')}]: want a name, got an empty text")
    return names


def _texts(path: str, value: object) -> tuple[str, ...]:
    elements = _list(path, "a list of texts", value)
    for place, element in enumerate(elements):
        if not isinstance(element, str):
            raise _wrong(f"{path}[{place}]", "a text", element)
    return tuple(cast("list[str]", elements))


def _list(path: str, wanted: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(path, wanted, value)
    return cast("list[object]", value)


def _wrong(path: str, wanted: str, value: object) -> InvalidConfiguration:
    if value is None:
        return InvalidConfiguration(f"{path}: want {wanted}, got nothing")
    shown = repr(value) if isinstance(value, str | int | float) else type(value).__name__
    return InvalidConfiguration(f"{path}: want {wanted}, got {shown}")
