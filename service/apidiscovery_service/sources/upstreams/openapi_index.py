"""The list of an upstream's OpenAPI v3 documents: which there are, and where.

Source: k8s.io/kube-openapi pkg/handler3/handler.go:OpenAPIV3Discovery.
"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.legacy import GroupVersion, name_of

PATH = "/openapi/v3"

_MAX_URL = 2048
_MAX_ODD = 10
# Of documents that describe neither groups nor versions; a kube-apiserver has five.
_MAX_OTHERS = 32
_OTHER_KEY = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_SHOWN_OF_URL = 100
# One slash, then what may stand in a request line; a backslash is a slash to some.
_ORIGIN_FORM = re.compile(r"/(?![/\\])[!\"$-\[\]-~]*")


@dataclass(frozen=True, slots=True)
class Listed:
    """One document as the index lists it.

    Attributes:
        path: What to ask for, below the URL of the upstream, with the query.
        hash: What the index names its content by; empty for nothing.
    """

    path: str
    hash: str


@dataclass(frozen=True, slots=True)
class Index:
    """The documents that are of interest, by key: the path that each describes, as `apis/apps/v1`.

    Attributes:
        odd: What else should have been here, a line each; bounded.
    """

    documents: dict[str, Listed] = field(default_factory=dict[str, Listed])
    odd: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def warnings(self) -> tuple[str, ...]:
        lines = [f"{key}: {text}" for key, text in sorted(self.odd.items())]
        if len(lines) > _MAX_ODD:
            lines = [*lines[:_MAX_ODD], f"{len(lines) - _MAX_ODD} more of this kind"]
        return tuple(f"GET {PATH}: {line}" for line in lines)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents of an upstream are of interest.

    Attributes:
        offered: The group-versions that discovery offers.
        is_whole: Whether also what describes no group-version: `api`, `apis`, `apis/GROUP`,
            `version` and whatever else the upstream has.
    """

    offered: AbstractSet[GroupVersion]
    is_whole: bool = False

    def takes(self, key: str) -> bool:
        """Tell whether a document is of interest."""
        match key.split("/"):
            case ["api", version]:
                return ("", version) in self.offered
            case ["apis", group, version]:
                return (group, version) in self.offered
            case ["apis", group]:
                return self.is_whole and any(group == one for one, _ in self.offered)
            case ["apis" | "api", _, *_]:
                return False
            case _:
                return self.is_whole and bool(_OTHER_KEY.fullmatch(key))


def key_of(gv: GroupVersion) -> str:
    """Return the key of the document of a group-version."""
    return f"{'apis' if gv[0] else 'api'}/{name_of(*gv)}"


def read_index(body: Body, wanted: Wanted, prefix: str) -> Index:
    """Return which documents are listed.

    Args:
        body: JSON.
        wanted: Which are of interest; others are passed over.
        prefix: The path of the upstream's own URL.

    Raises:
        UpstreamFailed: It is no such list.
    """
    value = parsed(body)
    paths = cast("dict[str, object]", value).get("paths") if isinstance(value, dict) else None
    if not isinstance(paths, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object with paths, got none")
    index, others = Index(), 0
    for key, item in cast("dict[str, object]", paths).items():
        is_other = not key.startswith(("api/", "apis/"))
        if wanted.takes(key) and not (is_other and others >= _MAX_OTHERS):
            others += is_other
            _take(index, key, item, prefix)
    return index


def _take(index: Index, key: str, item: object, prefix: str) -> None:
    url = cast("dict[str, object]", item).get("serverRelativeURL") if isinstance(item, dict) else ""
    try:
        index.documents[key] = listed(url if isinstance(url, str) else "", prefix)
        index.odd.pop(key, None)
    except ValueError as error:
        index.documents.pop(key, None)
        index.odd[key] = f"serverRelativeURL {shown(repr(url), _SHOWN_OF_URL)}: {error}"


def listed(url: str, prefix: str) -> Listed:
    """Return where a document is.

    What is not below `/openapi/v3` may have the prefix in it already; source: k8s.io/client-go
    openapi/client.go:Paths and https://github.com/kubernetes/kubernetes/issues/117463.

    Raises:
        ValueError: It would not lead to this server, or out of the prefix.
    """
    if len(url) > _MAX_URL:
        raise ValueError(f"want at most {_MAX_URL} characters, got {len(url)}")
    if not _ORIGIN_FORM.fullmatch(url):
        raise ValueError("want a path that begins with one slash, and a query")
    parts = urlsplit(url)
    if {".", ".."} & set(re.split(r"[/\\]", unquote(parts.path))):
        raise ValueError("want a path without dot segments")
    is_below = parts.path == PATH or parts.path.startswith(f"{PATH}/")
    if prefix and not is_below:
        if not url.startswith(f"{prefix}/"):
            raise ValueError(f"want a path below {PATH} or {prefix}")
        url = url.removeprefix(prefix)
    return Listed(url, parse_qs(parts.query).get("hash", [""])[0])
