"""The pages and their paths."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from apidiscovery_service.web.pages import (
    diff,
    fleet,
    groups,
    history,
    home,
    kind_list,
    kinds,
    search,
    sources,
    storage_versions,
)
from apidiscovery_service.web.view import PageFunction

HOME = "/ui/"


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page.

    Attributes:
        pattern: Of the decoded path.
        make: Makes the page.
        endpoint: Its path in metrics.
    """

    pattern: re.Pattern[str]
    make: PageFunction
    endpoint: str


def _route(path: str, make: PageFunction) -> PageRoute:
    """Return a route; `{name}` in its path is any text without a slash."""
    parts = re.split(r"\{(\w+)\}", path)
    pattern = "".join(
        f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts)
    )
    return PageRoute(re.compile(pattern), make, path)


_ROUTES = (
    _route(HOME, home.page),
    _route("/ui/groups", groups.listing),
    _route("/ui/groups/{group}", groups.one),
    _route("/ui/kinds", kind_list.page),
    _route("/ui/kinds/{group}/{version}/{kind}", kinds.page),
    _route("/ui/search", search.page),
    _route("/ui/fleet", fleet.page),
    _route("/ui/diff", diff.page),
    _route("/ui/history", history.page),
    _route("/ui/sources", sources.page),
    _route("/ui/storage-versions", storage_versions.page),
)


def find(path: str) -> tuple[PageRoute, Mapping[str, str]] | None:
    """Return the route of a decoded path, and the parts that it captures; None without a page."""
    for route in _ROUTES:
        if found := route.pattern.fullmatch(path):
            return route, found.groupdict()
    return None
