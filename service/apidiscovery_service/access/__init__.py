"""Authentication and authorization: decisions alone, without sockets.

Roles: `reader` may read discovery and registrations, `publisher` may also change registrations of
the API groups that its patterns match, `admin` may do everything. Readers and publishers may read
about the clusters that their grants name; a grant that names none is for all. Everything else is
denied.
"""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What a caller may do; each role includes those below it."""

    NONE = 0
    READER = 1
    PUBLISHER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and its groups.

    Attributes:
        user: Name of the user; `system:anonymous` without credentials.
        groups: Groups of the user, such as the organizations of a client certificate.
    """

    user: str
    groups: tuple[str, ...] = ()


ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))

# The caller of a server without authentication, which listens on loopback only.
LOCAL = Caller("", ())


# Patterns of names of clusters; `*` matches any text.
ALL_CLUSTERS = ("*",)


@dataclass(frozen=True, slots=True)
class Grant:
    """One element of the configuration key `access`: these subjects have this role.

    Attributes:
        role: The role.
        users: User names.
        groups: Group names of users.
        api_groups: Patterns of API groups that a publisher may change; `*` matches any text, and
            the core group is the empty text.
        clusters: Patterns of the clusters that a caller may read about.
    """

    role: Role
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    api_groups: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ALL_CLUSTERS
