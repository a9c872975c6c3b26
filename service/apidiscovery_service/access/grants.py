"""The roles that callers have by grants."""

import re
from collections.abc import Iterable, Sequence

from apidiscovery_service.access import ALL_CLUSTERS, Caller, Grant, Role


class Roles:
    """The roles of callers by a list of grants.

    A caller has the highest role of the grants that name the user or one of its groups. A publisher
    may change the API groups that match a pattern of any of its `publisher` grants.
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
            return f"user {caller.user!r} is not a publisher"
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
    # Without patterns no text matches, not even the empty name of the core group.
    return re.compile("|".join(alternatives) if alternatives else r"(?!)", re.DOTALL)
