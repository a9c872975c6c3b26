"""Who calls, and what they may do: decisions alone, without sockets.

Roles: `reader` may read discovery and registrations, `publisher` also change registrations that
concern the API groups of its patterns, `admin` everything. What is not granted is denied.
"""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What a caller may do; each includes those below it."""

    NONE = 0
    READER = 1
    PUBLISHER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        user: Name of the user; `system:anonymous` when nobody has said who they are.
        groups: Groups of the user, such as the organizations of a client certificate.
    """

    user: str
    groups: tuple[str, ...] = ()


ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))

# Whoever reaches a server that identifies nobody; it listens on loopback only.
LOCAL = Caller("", ())


@dataclass(frozen=True, slots=True)
class Grant:
    """One line of the configuration: these subjects have this role.

    Attributes:
        users: User names.
        groups: Group names of users.
        api_groups: Patterns of API groups that a publisher may change; `*` stands for any text,
            and the core group is the empty text.
    """

    role: Role
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    api_groups: tuple[str, ...] = ()
