"""What callers may do, from the grants of the configuration; what is not granted is denied."""

import re
from collections.abc import Iterable, Sequence

from apidiscovery_service.access import Caller, Grant, Role


class Roles:
    """Decides by a list of grants.

    A caller has the highest role of the grants that name the user or one of its groups. Which API
    groups a publisher may change is the sum of the patterns of its `publisher` grants.
    """

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        self._grants = tuple(grants)
        self._patterns = {id(grant): _pattern(grant.api_groups) for grant in self._grants}

    def role(self, caller: Caller) -> Role:
        """Return the caller's role."""
        return max((grant.role for grant in self._of(caller)), default=Role.NONE)

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Say why a caller may not change registrations of these API groups; None if it may.

        Args:
            caller: Who asks.
            api_groups: Names, empty for the core group. Without any, it is enough to publish.
        """
        grants = [grant for grant in self._of(caller) if grant.role >= Role.PUBLISHER]
        if not grants:
            return f"user {caller.user!r} is no publisher"
        if any(grant.role is Role.ADMIN for grant in grants):
            return None
        patterns = [self._patterns[id(grant)] for grant in grants]
        denied = sorted(
            group
            for group in set(api_groups)
            if not any(pattern.fullmatch(group) for pattern in patterns)
        )
        if not denied:
            return None
        names = ", ".join(map(repr, denied))
        return f"user {caller.user!r} may not change these API groups: {names}"

    def _of(self, caller: Caller) -> list[Grant]:
        return [
            grant
            for grant in self._grants
            if caller.user in grant.users or not grant.groups.isdisjoint(caller.groups)
        ]


def _pattern(api_groups: Iterable[str]) -> re.Pattern[str]:
    """Return what matches any of the patterns; only `*` is special, and it stands for any text."""
    alternatives = [
        ".*".join(re.escape(part) for part in pattern.split("*")) for pattern in api_groups
    ]
    # Without an alternative nothing must match, not the empty name of the core group.
    return re.compile("|".join(alternatives) if alternatives else r"(?!)", re.DOTALL)
