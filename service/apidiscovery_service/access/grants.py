"""Reads grants out of the configuration: a list of role, users, groups and API groups."""

from collections.abc import Mapping
from typing import cast

from apidiscovery_service.access import Grant, Role
from apidiscovery_service.errors import InvalidConfiguration

KEY = "access"

_ROLES = {role.name.lower(): role for role in Role if role is not Role.NONE}
_KEYS = ("role", "users", "groups", "api-groups")


def parse_grants(value: object) -> tuple[Grant, ...]:
    """Read the value of the key `access`.

    It is a list; each element has `role` (`reader`, `publisher` or `admin`), at least one name in
    `users` or `groups`, and for a publisher `api-groups`: patterns in which `*` stands for any
    text, with the empty text for the core group.

    Raises:
        InvalidConfiguration: It is not that; the message begins with the path of the key.
    """
    if not isinstance(value, list):
        raise _wrong(KEY, "a list of grants", value)
    elements = cast("list[object]", value)
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
    return Grant(role, frozenset(users), frozenset(groups), patterns)


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
    if not isinstance(value, list):
        raise _wrong(path, "a list of texts", value)
    elements = cast("list[object]", value)
    for place, element in enumerate(elements):
        if not isinstance(element, str):
            raise _wrong(f"{path}[{place}]", "a text", element)
    return tuple(cast("list[str]", elements))


def _wrong(path: str, wanted: str, value: object) -> InvalidConfiguration:
    if value is None:
        return InvalidConfiguration(f"{path}: want {wanted}, got nothing")
    shown = repr(value) if isinstance(value, str | int | float) else type(value).__name__
    return InvalidConfiguration(f"{path}: want {wanted}, got {shown}")
