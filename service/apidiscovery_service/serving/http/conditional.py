"""Conditional requests and ranges.

Sources: RFC 9110, sections 13 and 14; Go's net/http fs.go:serveContent, checkPreconditions,
parseRange.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from time import time

# The header fields that only `precondition_status` and `byte_range` read.
FIELDS = frozenset(
    (b"if-match", b"if-modified-since", b"if-range", b"if-unmodified-since", b"range")
)

# More representations than a server has; a client that sends more invents them.
_MAX_SEEN = 100_000

_TAG = re.compile(r'(W/)?("[^"\x00-\x20\x7f]*")')
_RANGE = re.compile(r"\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*")

_SAFE = ("GET", "HEAD")


def none_match(if_none_match: str, etag: str) -> bool:
    """Return whether the client does not have the document yet (RFC 9110, section 13.1.2).

    Args:
        if_none_match: The header, lists joined by commas; empty without one.
        etag: The current entity tag in its double quotes.

    Returns:
        False, so that 304 is the answer, for `*` and for a list with the current tag by weak
        comparison. Malformed tags, such as one without quotes, match nothing.
    """
    if if_none_match.strip() == "*":
        return False
    return all(tag != etag for _, tag in _TAG.findall(if_none_match))


@dataclass(slots=True)
class ModificationTimes:
    """The times at which this process first saw the current entity tag of each path.

    Args:
        clock: Unix time in seconds.
    """

    clock: Callable[[], float] = time
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def since(self, path: str, etag: str) -> int:
        """Return when a path got its entity tag, in whole seconds of Unix time."""
        known, at = self._seen.get(path, ("", 0))
        if known != etag:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            at = int(self.clock())
            self._seen[path] = (etag, at)
        return at


@dataclass(frozen=True, slots=True)
class Content:
    """The validators of a representation.

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
    """Return Unix time as an HTTP date.

    >>> http_date(0)
    'Thu, 01 Jan 1970 00:00:00 GMT'
    """
    return format_datetime(datetime.fromtimestamp(int(seconds), UTC), usegmt=True)


def precondition_status(
    method: str, if_none_match: str, fields: Mapping[str, str], content: Content
) -> int:
    """Return 200 if the preconditions of a request hold, else the status of the answer: 304 or 412.

    Args:
        method: As sent.
        if_none_match: That field, empty without one.
        fields: Those among `FIELDS` that the request has.
        content: The current representation.
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
        tags = (tag for weak, tag in _TAG.findall(wanted) if not weak)
        return wanted.strip() == "*" or content.etag in tags
    before = _seconds(fields.get("if-unmodified-since", ""))
    return before is None or content.modified <= before


def _seconds(date: str) -> float | None:
    """Return an HTTP date as Unix time; None without one, and for a malformed one."""
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


class RangeNotSatisfiable(Exception):
    """The range is malformed, or outside of the content."""


def byte_range(fields: Mapping[str, str], content: Content, size: int) -> tuple[int, int] | None:
    """Return the requested range as begin and end; None for the whole content.

    Several ranges are answered by the whole, as RFC 9110, section 14.2, allows.

    Raises:
        RangeNotSatisfiable: The range is malformed, or outside of the content.
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
    """Return whether If-Range holds: the client has another range of the current content."""
    if not if_range:
        return True
    if if_range.startswith(('"', "W/")):
        return if_range.strip() == content.etag
    at = _seconds(if_range)
    return at is not None and int(at) == content.modified
