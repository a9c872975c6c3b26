"""Preconditions and ranges as Go's http.ServeContent treats them.

Source: net/http fs.go:serveContent, checkPreconditions, parseRange; RFC 9110, sections 13 and 14.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from time import time

from apidiscovery_service.serving.http.conditional import none_match

# What a request says in these fields counts here and nowhere else.
FIELDS = frozenset(
    (b"if-match", b"if-modified-since", b"if-range", b"if-unmodified-since", b"range")
)

# More representations than a server has; who asks for more makes them up.
_MAX_SEEN = 100_000

_STRONG_TAG = re.compile(r'(W/)?("[^"\x00-\x20\x7f]*")')
_RANGE = re.compile(r"\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*")

_SAFE = ("GET", "HEAD")


@dataclass(slots=True)
class ModificationTimes:
    """Since when each path has had its present entity tag, as far as this process has seen.

    Args:
        clock: Unix time in seconds.
    """

    clock: Callable[[], float] = time
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def since(self, path: str, etag: str) -> int:
        """Return Unix time in whole seconds."""
        known, at = self._seen.get(path, ("", 0))
        if known != etag:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            at = int(self.clock())
            self._seen[path] = (etag, at)
        return at


@dataclass(frozen=True, slots=True)
class Content:
    """What is served, apart from its bytes.

    Attributes:
        etag: In its double quotes.
        modified: Unix time in whole seconds.
    """

    etag: str
    modified: int

    @property
    def last_modified(self) -> str:
        """The value of Last-Modified."""
        return http_date(self.modified)


def http_date(seconds: float) -> str:
    """Return Unix time as HTTP has it.

    >>> http_date(0)
    'Thu, 01 Jan 1970 00:00:00 GMT'
    """
    return format_datetime(datetime.fromtimestamp(int(seconds), UTC), usegmt=True)


def precondition_status(
    method: str, if_none_match: str, fields: Mapping[str, str], content: Content
) -> int:
    """Return 200 if a request may go on, else what it is answered with: 304 or 412.

    Args:
        method: As sent.
        if_none_match: That field, empty when there is none.
        fields: Those among `FIELDS` that the request has.
        content: What would be served.
    """
    if not _may_match(fields, content):
        return HTTPStatus.PRECONDITION_FAILED
    if if_none_match:
        if none_match(if_none_match, content.etag):
            return HTTPStatus.OK
        return HTTPStatus.NOT_MODIFIED if method in _SAFE else HTTPStatus.PRECONDITION_FAILED
    since = _seconds(fields.get("if-modified-since", ""))
    if method in _SAFE and since is not None and content.modified <= since:
        return HTTPStatus.NOT_MODIFIED
    return HTTPStatus.OK


def _may_match(fields: Mapping[str, str], content: Content) -> bool:
    wanted = fields.get("if-match", "")
    if wanted:
        tags = (tag for weak, tag in _STRONG_TAG.findall(wanted) if not weak)
        return wanted.strip() == "*" or content.etag in tags
    before = _seconds(fields.get("if-unmodified-since", ""))
    return before is None or content.modified <= before


def _seconds(date: str) -> float | None:
    """Return a date of HTTP as Unix time; None for none, and for what cannot be read."""
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


class RangeNotSatisfiable(Exception):
    """No part of the content is within the range, or it is malformed."""


def byte_range(fields: Mapping[str, str], content: Content, size: int) -> tuple[int, int] | None:
    """Return the one part of the content that is asked for, as begin and end; None for the whole.

    Several parts at once are answered by the whole, as RFC 9110, section 14.2, allows.

    Raises:
        RangeNotSatisfiable: There is no such part.
    """
    wanted = fields.get("range", "")
    if not wanted or not _is_in_force(fields.get("if-range", ""), content):
        return None
    unit, _, text = wanted.partition("=")
    if unit != "bytes":
        raise RangeNotSatisfiable("invalid range")
    if "," in text:
        return None
    found = _RANGE.fullmatch(text)
    if found is None or found[1] == found[2] == "":
        raise RangeNotSatisfiable("invalid range")
    if not found[1]:
        return max(size - int(found[2]), 0), size
    begin, end = int(found[1]), int(found[2] or size) + 1
    if begin >= end and found[2]:
        raise RangeNotSatisfiable("invalid range")
    if begin >= size:
        raise RangeNotSatisfiable("invalid range: failed to overlap")
    return begin, min(end, size)


def _is_in_force(if_range: str, content: Content) -> bool:
    """Tell whether the client has the content of which it wants a part."""
    if not if_range:
        return True
    if if_range.startswith(('"', "W/")):
        return if_range.strip() == content.etag
    at = _seconds(if_range)
    return at is not None and int(at) == content.modified
