"""Reading JSON in steps, none of which holds the interpreter for long.

A JSON library holds it from the first byte of what it reads to the last: 12 ms for the largest
CustomResourceDefinition, and with it the event loop. So what is larger than a window is walked
here, and only what fits into one is given to the library. What has been read is taken apart in
steps as well: dropping a tree holds the interpreter until the last of its leaves is gone.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import orjson

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

_Object: TypeAlias = dict[str, JSONValue]
_Step: TypeAlias = str | int

# Members of an object, items of an array. The widest of real definitions has some hundred, the
# widest of Kubernetes' own documents 700.
MAX_MEMBERS: Final = 10_000
# Paths of a document, and components of a kind: what is in the outer objects is looked at apart.
MAX_NAMES: Final = 100_000
# Levels of objects that hold them: the document, `components`, `schemas`.
NAMED_LEVELS: Final = 3
# Characters of one text in a schema. The longest description of a real one has 20 KB.
MAX_TEXT: Final = 128 * 1024
# In documents: what is made of such schemas passes, with three properties more, and with six bytes
# for a `<`.
MAX_DOCUMENT_MEMBERS: Final = MAX_MEMBERS + 10
MAX_TEXT_BYTES: Final = 6 * MAX_TEXT

# In bytes. The small one saves copying the large one for each value; that takes 2 ms at most.
_WINDOWS = (4 * 1024, 64 * 1024)
# What is read at once without looking further, which takes 1 ms.
_SMALL_BYTES = 64 * 1024

_OBJECT, _ARRAY, _TEXT = b'{["'
_SPACE = re.compile(rb"[ \t\n\r]{0,65536}")
_DECODE = codecs.utf_8_decode
_MAX_STEP = 200
_PAUSE_EVERY = 256


class NotJSON(DiscoveryError):
    """A text is not JSON, or not UTF-8.

    Attributes:
        offset: Bytes before what is wrong.
        message: What is wrong there.
    """

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"byte {offset}: {message}")
        self.offset = offset
        self.message = message


class NotUTF8(NotJSON):
    """A text is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Widths:
    """How wide a document may be.

    Attributes:
        members: Of an object, and items of an array.
        names: The same of the document itself, and of objects in it down to `components.schemas`.
        text_bytes: Of a text, as it is written.
        value_bytes: Of a value that is read at once, as it is written.
    """

    members: int = MAX_DOCUMENT_MEMBERS
    names: int = MAX_NAMES
    text_bytes: int = MAX_TEXT_BYTES
    value_bytes: int = 10**9


# Of documents that were written here, of what has been looked at.
_WRITTEN = Widths(10**9, 10**9)


def loads(document: bytes) -> JSONValue:
    """Return the value of JSON text that may be of any width, as orjson has it.

    Raises:
        ValueError: It is no JSON.
        InvalidOpenAPI: A text in it is far too long.
    """
    if len(document) <= _SMALL_BYTES:
        return cast("JSONValue", orjson.loads(document))
    try:
        return Reader(document, json.JSONDecoder(), dict, _WRITTEN, again=orjson.loads).document()
    except (NotJSON, RecursionError) as error:
        raise ValueError(str(error)) from None


class Reader:
    """Reads one JSON text.

    Args:
        document: UTF-8.
        decoder: What reads values that fit into a window.
        make: From the members of an object that does not to what stands for it.
        widths: What objects, arrays and texts that are larger than a window may have; None for
            what was written here.
        again: What reads values whose end is known, in place of the decoder.

    Attributes:
        pause: Called at every 256th value.
    """

    def __init__(
        self,
        document: bytes | bytearray,
        decoder: json.JSONDecoder,
        make: Callable[[list[tuple[str, JSONValue]]], _Object],
        widths: Widths | None = None,
        *,
        again: Callable[[bytes | bytearray], JSONValue] | None = None,
    ) -> None:
        self._bytes = document
        self._decode = decoder.raw_decode
        self._make = make
        self._widths = widths or _WRITTEN
        self._again = again
        self.pause: Callable[[], None] = lambda: None
        self._place = self._began = self._count = 0
        self._steps: list[_Step] = []
        # What may be looked at in vain; with layers that all just exceed a window it has an end.
        self._spare = 2 * len(document) + 4 * _WINDOWS[-1]

    def document(self) -> JSONValue:
        """Return the value of the whole text.

        Raises:
            NotJSON: It is none.
            InvalidOpenAPI: An object or an array has too many members, or a text is too long.
            RecursionError: It nests deeper than the interpreter recurses.
            ValueError: The decoder's hooks do not take something.
        """
        self._skip_space()
        value = self._value()
        self.end()
        return value

    def fields(self) -> Iterator[str]:
        """Yield the names of an object here; `value` or `fields` must read each before the next.

        Raises:
            NotJSON: There is no object.
            InvalidOpenAPI: It has too many members.
        """
        self._skip_space()
        if not self._take(b"{"):
            raise NotJSON(self._place, "want an object")
        number = 0
        while not self._take(b"}"):
            if number:
                self._comma()
            name = self._name()
            number += 1
            self._see_that_few(number, "members")
            self._steps.append(name)
            yield name
            self._steps.pop()

    def value(self) -> JSONValue:
        """Return the value here; raises what `document` does."""
        self._began = self._place
        value = self._value()
        self._see_that_small()
        return value

    def end(self) -> None:
        """See that nothing follows.

        Raises:
            NotJSON: Something does.
        """
        if self._place != len(self._bytes):
            raise NotJSON(self._place, "Extra data")

    def _value(self) -> JSONValue:
        self._count += 1
        if not self._count % _PAUSE_EVERY:
            self.pause()
        begin = self._bytes[self._place : self._place + 1]
        kind = begin[0] if begin else 0
        for window in _WINDOWS:
            if kind in (_OBJECT, _ARRAY) and self._spare < 0:
                break
            if self._fits(window):
                return self._found
            self._spare -= window
        if kind == _OBJECT:
            return self._object()
        if kind == _ARRAY:
            return self._array()
        if kind == _TEXT and self._fits(self._text_bytes()):
            return self._found
        raise NotJSON(self._place, "Expecting value")

    _found: JSONValue = None

    def _fits(self, window: int) -> bool:
        """Read a value if all of it is within a window.

        Raises:
            NotJSON: There is none, and no more of the text that could be looked at.
        """
        piece = self._bytes[self._place : self._place + window]
        is_last = self._place + window >= len(self._bytes)
        try:
            text, _ = _DECODE(piece, "strict", is_last)
        except UnicodeDecodeError as error:
            raise NotUTF8(self._place + error.start, error.reason) from None
        try:
            self._found, length = self._decode(text)
        except json.JSONDecodeError as error:
            if not is_last:
                return False
            raise NotJSON(self._place + _size(text, error.pos, piece), error.msg) from None
        if length == len(text) and not is_last:  # of a number there may be more
            return False
        size = _size(text, length, piece)
        if self._again is not None:
            self._found = self._again(piece[:size])
        self._place += size
        self._skip_space()
        return True

    def _text_bytes(self) -> int:
        """Return how many bytes the text here has, with its quotes and what comes next."""
        end = self._place
        while (end := self._bytes.find(b'"', end + 1)) >= 0:
            before = end
            while self._bytes.startswith(b"\\", before - 1):
                before -= 1
            if (end - before) % 2 == 0:
                break
        if end < 0:
            raise NotJSON(self._place, "Unterminated string starting at")
        size, most = end - self._place - 1, self._widths.text_bytes
        if size > most:
            raise self._exceeds(f"want a text of at most {most} bytes, got {size}")
        return end - self._place + 2

    def _object(self) -> _Object:
        found: list[tuple[str, JSONValue]] = []
        self._take(b"{")
        if self._take(b"}"):
            return self._make(found)
        while True:
            name = self._name()
            self._see_that_few(len(found) + 1, "members")
            found.append((name, self._below(name)))
            if self._take(b"}"):
                return self._make(found)
            self._comma()

    def _name(self) -> str:
        if not self._bytes.startswith(b'"', self._place):
            raise NotJSON(self._place, "Expecting property name enclosed in double quotes")
        name = cast("str", self._value())
        if not self._take(b":"):
            raise NotJSON(self._place, "Expecting ':' delimiter")
        return name

    def _array(self) -> list[JSONValue]:
        found: list[JSONValue] = []
        self._take(b"[")
        if self._take(b"]"):
            return found
        while True:
            self._see_that_few(len(found) + 1, "items")
            found.append(self._below(len(found)))
            if self._take(b"]"):
                return found
            self._comma()

    def _below(self, step: _Step) -> JSONValue:
        self._steps.append(step)
        value = self._value()
        self._steps.pop()
        return value

    def _see_that_few(self, number: int, what: str) -> None:
        is_outer = len(self._steps) < NAMED_LEVELS
        most = self._widths.names if is_outer else self._widths.members
        if number > most:
            raise self._exceeds(f"want at most {most} {what}, got more")
        if not is_outer:
            self._see_that_small()

    def _see_that_small(self) -> None:
        if self._place - self._began > self._widths.value_bytes:
            raise self._exceeds(f"is in a value of more than {self._widths.value_bytes} bytes")

    def _exceeds(self, message: str) -> InvalidOpenAPI:
        return InvalidOpenAPI(tuple(map(_shown, self._steps)), message)

    def _comma(self) -> None:
        if not self._take(b","):
            raise NotJSON(self._place, "Expecting ',' delimiter")

    def _take(self, token: bytes) -> bool:
        if not self._bytes.startswith(token, self._place):
            return False
        self._place += 1
        self._skip_space()
        return True

    def _skip_space(self) -> None:
        while (match := _SPACE.match(self._bytes, self._place)) and match.end() > self._place:
            self._place = match.end()


def as_utf8(body: bytes | bytearray) -> bytearray:
    """Return a text in which what is not UTF-8 is replaced, as by Go."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = bytearray()
    for begin in range(0, len(body), _SMALL_BYTES):
        text += decoder.decode(body[begin : begin + _SMALL_BYTES]).encode()
    text += decoder.decode(b"", final=True).encode()
    return text


def _size(text: str, length: int, piece: bytes | bytearray) -> int:
    """Return how many bytes the first characters of a text have."""
    return length if len(text) == len(piece) else len(text[:length].encode())


def _shown(step: _Step) -> _Step:
    if isinstance(step, str) and len(step) > _MAX_STEP:
        return f"{step[:_MAX_STEP]}..."
    return step


def dismantle(value: object) -> None:
    """Empty all objects and arrays of a value that nobody needs any more, one by one."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            members = cast("dict[str, object]", one)
            pending += [inner for inner in members.values() if isinstance(inner, dict | list)]
            members.clear()
        elif isinstance(one, list):
            items = cast("list[object]", one)
            pending += [inner for inner in items if isinstance(inner, dict | list)]
            items.clear()


def check_widths(value: object, path: Path = ()) -> None:
    """See that no object or array has too many members, and no text in it is too long.

    Raises:
        InvalidOpenAPI: One has; the path is its own, with how many there are.
    """
    pending: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while pending:
        one, place = pending.pop()
        if isinstance(one, str):
            _check(len(one), MAX_TEXT, "characters", path, place)
            continue
        if isinstance(one, dict):
            members = cast("dict[str, object]", one)
            _check(len(members), MAX_MEMBERS, "members", path, place)
            pending += [
                (inner, (place, name))
                for name, inner in members.items()
                if isinstance(inner, dict | list) or _is_long(inner)
            ]
        elif isinstance(one, list):
            items = cast("list[object]", one)
            _check(len(items), MAX_MEMBERS, "items", path, place)
            pending += [
                (inner, (place, index))
                for index, inner in enumerate(items)
                if isinstance(inner, dict | list) or _is_long(inner)
            ]


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > MAX_TEXT


def _check(seen: int, wanted: int, what: str, path: Path, place: tuple[object, ...]) -> None:
    if seen > wanted:
        steps: list[_Step] = []
        while place:
            outer, step = place
            steps.append(_shown(cast("_Step", step)))
            place = cast("tuple[object, ...]", outer)
        raise InvalidOpenAPI((*path, *reversed(steps)), f"want at most {wanted} {what}, got {seen}")
