"""The text of manifests: its documents, and those that are JSON into values.

Nothing here takes more than a window of a long text in one call, which would keep the event loop
waiting, whichever thread makes it.
"""

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

import orjson
from apidiscovery_formats import yaml_text
from apidiscovery_formats.yaml_text import Budget, Unparsable

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.stepwise_json import NotJSON, Reader, Widths

# What begins like JSON and is longer is JSON or nothing, and has no lines for its errors: read as
# YAML it would take a hundred times as long.
MAX_FLOW_CHARACTERS: Final = 256 * 1024

# What is looked at in one call, in characters or bytes; reading so much takes a millisecond.
_AT_ONCE: Final = 64 * 1024
# Of an object or a list from strangers. A larger one would be made in one long call.
_WIDTHS: Final = Widths(members=100_000, names=100_000, text_bytes=10**9)

# What follows on the line belongs to the document.
_SEPARATOR = re.compile(r"\n---(?=[ \t\r\n]|$)")
_FIRST_SEPARATOR = re.compile(r"---(?=[ \t\r\n]|$)")

_SPACE = re.compile(rf"\s{{0,{_AT_ONCE}}}")
# What str.splitlines takes for the end of a line.
_LINE = re.compile(rf"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{{0,{_AT_ONCE}}}")

_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a document.

    Attributes:
        number: Counted from 1.
        first_line: Line of the file where it begins, counted from 1.
    """

    number: int
    first_line: int
    text: str


def decoded(content: bytes) -> str:
    """Return the text of a manifest.

    Raises:
        UnicodeDecodeError: It is not UTF-8; the error is that of the whole text.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    texts: list[str] = []
    for begin in range(0, max(len(content), 1), _AT_ONCE):
        kept = len(decoder.getstate()[0])
        try:
            end = begin + _AT_ONCE
            texts.append(decoder.decode(content[begin:end], final=end >= len(content)))
        except UnicodeDecodeError as error:
            at = begin - kept
            raise UnicodeDecodeError(
                error.encoding, content, at + error.start, at + error.end, error.reason
            ) from None
    return "".join(texts)


def line_breaks(text: str | bytes, begin: int, end: int) -> int:
    """Return how many lines end between two places of a text."""
    windows = [(place, min(place + _AT_ONCE, end)) for place in range(begin, end, _AT_ONCE)]
    if isinstance(text, str):
        return sum(text.count("\n", *window) for window in windows)
    return sum(text.count(b"\n", *window) for window in windows)


def documents(text: str) -> Iterator[Text]:
    """Yield the documents that hold anything; empty ones count for the number all the same."""
    start, number, line = 0, 1, 1
    for end, after in _separators(text):
        part = text[start:end]
        if _holds_anything(part):
            yield Text(number, line, part)
            number += 1
        elif start:
            number += 1
        line += line_breaks(text, start, end)
        start = after


def _separators(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each document ends, and where what follows the line between begins."""
    if first := _FIRST_SEPARATOR.match(text):
        yield first.span()
    place = 0
    while place < len(text):
        # One that begins in this window may end behind it.
        found = text.find("\n---", place, place + _AT_ONCE + 3)
        if found < 0:
            place += _AT_ONCE
        elif match := _SEPARATOR.match(text, found):
            yield found + 1, match.end()
            place = match.end()
        else:
            place = found + 1
    yield len(text), 0


def _holds_anything(part: str) -> bool:
    """Tell whether there is more than empty lines and comments."""
    place = 0
    while place < len(part):
        place, before = _past(_SPACE, part, place), place
        if place == before:
            if part[place] != "#":
                return True
            place = _past(_LINE, part, place)
    return False


def _past(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return where there is no more of a pattern."""
    while (match := pattern.match(text, place)) and match.end() > place:
        place = match.end()
    return place


def is_like_json(text: str) -> bool:
    """Tell whether a text begins like JSON."""
    place = _past(_SPACE, text, 0)
    return text[place : place + 1] in ("{", "[")


def parse(text: str, budget: Budget | None) -> object:
    """Return the value of a document.

    Args:
        text: JSON or YAML.
        budget: How many values it may have; None for what is not from strangers.

    Raises:
        Unparsable: It is neither, has a key twice or more than it may.
    """
    if not is_like_json(text):
        return yaml_text.load(text, budget)
    if budget is not None:
        _count_json(text, budget)
    try:
        return _small(text) if len(text) <= _AT_ONCE else _large(text, is_bounded=bool(budget))
    except _NoJSON as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            with suppress(Unparsable):  # YAML in flow style begins like JSON
                return yaml_text.load(text)
        raise Unparsable(f"no JSON: {error}", error.line) from None
    except RecursionError:
        raise Unparsable("nested too deeply") from None
    except _KeyTwice as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            _raise_with_line(text)
        raise Unparsable(str(error)) from None


class _NoJSON(Exception):
    """A text is not JSON.

    Attributes:
        line: Where, counted from 0.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _KeyTwice(Exception):
    """An object has a key twice."""


def _small(text: str) -> object:
    try:
        value = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise _NoJSON(error.msg, error.lineno - 1) from None
    json.loads(text, object_pairs_hook=_see_that_none_is_twice)
    return value


def _large(text: str, *, is_bounded: bool) -> object:
    """Read a text in steps; orjson keeps the last of two equal keys, so json reads it as well."""
    data = b"".join(
        text[begin : begin + _AT_ONCE].encode("utf-8", "surrogatepass")
        for begin in range(0, len(text), _AT_ONCE)
    )
    widths = _WIDTHS if is_bounded else None
    try:
        return Reader(data, _DECODER, _object, widths, again=orjson.loads).document()
    except NotJSON as error:
        raise _NoJSON(error.message, line_breaks(data, 0, error.offset)) from None
    except orjson.JSONDecodeError as error:  # what json alone reads, such as half a surrogate pair
        raise _NoJSON(error.msg, 0) from None
    except InvalidOpenAPI as error:
        raise Unparsable(str(error)) from None


def _object(members: list[tuple[str, JSONValue]]) -> dict[str, JSONValue]:
    """Make an object that is larger than a window."""
    made: dict[str, JSONValue] = {}
    for begin in range(0, len(members), _AT_ONCE // 16):
        made.update(members[begin : begin + _AT_ONCE // 16])
    if len(made) < len(members):
        _see_that_none_is_twice(members)
    return made


def _see_that_none_is_twice(members: list[tuple[str, JSONValue]]) -> None:
    if len(dict(members)) == len(members):
        return
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise _KeyTwice(f"the key {name[:100]!r} is there twice")
        seen.add(name)


def _refuse_constant(name: str) -> object:
    raise _NoJSON(f"{name} is not JSON", 0)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_see_that_none_is_twice, parse_constant=_refuse_constant
)


def _raise_with_line(text: str) -> None:
    """Raise what is wrong with a JSON text as YAML, which it mostly is: that has lines."""
    try:
        yaml_text.load(text)
    except Unparsable as error:
        if error.line:
            raise


def _count_json(text: str, budget: Budget) -> None:
    """See that a JSON text has no more values than it may, before they are made.

    Each value but the first of an array or object comes after a comma, each key before a colon.
    Where there are too many such characters, those in strings are left out, which takes longer.
    """
    starts = range(0, len(text), _AT_ONCE)
    count = 1 + sum(_marks(text[start : start + _AT_ONCE]) for start in starts)
    budget.spend(count if count <= budget.left else 1 + _marks_outside_strings(text))


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))


def _marks_outside_strings(text: str) -> int:
    count = place = 0
    while place < len(text):
        outside = _JSON_STRING.sub("", text[place : place + _AT_ONCE])
        # A string that goes on behind the window is left over.
        cut = outside.find('"')
        if cut < 0:
            place += _AT_ONCE
        else:
            begin = min(place + _AT_ONCE, len(text)) - (len(outside) - cut)
            place = _string_end(text, begin)
            outside = outside[:cut]
        count += _marks(outside)
    return count


def _string_end(text: str, begin: int) -> int:
    """Return where a string ends: behind the first quote that is not escaped."""
    end = begin
    while (end := text.find('"', end + 1)) >= 0:
        before = end
        while text.startswith("\\", before - 1):
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
    return len(text)
