"""JSON text into values that keep what the protobuf form has to repeat: the digits of numbers."""

import json
import re
from typing import TypeAlias

from apidiscovery_service.openapi.errors import InvalidOpenAPI

# Paths, then methods; components, then schemas, then each of them.
_LEVELS = 3

_SPACE = re.compile(r"[ \t\n\r]*")


class Number(str):
    """A number as the text writes it: `1.0` is not `1`."""

    __slots__ = ()


Value: TypeAlias = "dict[str, Value] | list[Value] | str | bool | None"


def parse(document: bytes) -> Value:
    """Return the value of JSON text; its numbers are of type `Number`.

    The JSON library holds the interpreter from the first byte of what it reads to the last, so
    the outer levels are walked here and it gets one operation or schema at a time. Of two equal
    keys the last counts.

    Raises:
        InvalidOpenAPI: It is not UTF-8, not JSON, or nests deeper than the interpreter recurses.
    """
    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        raise InvalidOpenAPI((), f"byte {error.start}: want UTF-8: {error.reason}") from None
    reader = _Reader(text)
    try:
        value = reader.value(_LEVELS)
        reader.end()
    except json.JSONDecodeError as error:
        raise InvalidOpenAPI((), f"character {error.pos}: want JSON: {error.msg}") from None
    except ValueError as error:
        raise InvalidOpenAPI((), f"want JSON: {error}") from None
    except RecursionError:
        raise InvalidOpenAPI((), "it is nested too deeply to be read") from None
    return value


def _refuse_constant(name: str) -> Value:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse_constant)


class _Reader:
    """Stands before a value of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._skip_space()

    def value(self, levels: int) -> Value:
        """Read a value; as many *levels* of objects are walked here."""
        if levels and self._take("{"):
            return self._object(levels - 1)
        value: Value
        value, self._place = _DECODER.raw_decode(self._text, self._place)
        self._skip_space()
        return value

    def _object(self, levels: int) -> Value:
        found: dict[str, Value] = {}
        if self._take("}"):
            return found
        while True:
            name = self._name()
            found[name] = self.value(levels)
            if self._take("}"):
                return found
            self._expect(",")

    def _name(self) -> str:
        if not self._text.startswith('"', self._place):
            raise json.JSONDecodeError("want the name of a field", self._text, self._place)
        name, self._place = _DECODER.raw_decode(self._text, self._place)
        self._skip_space()
        self._expect(":")
        return str(name)

    def end(self) -> None:
        """Check that nothing follows."""
        if self._place != len(self._text):
            raise json.JSONDecodeError("want the end", self._text, self._place)

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise json.JSONDecodeError(f"want {mark!r}", self._text, self._place)

    def _take(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._place):
            return False
        self._place += 1
        self._skip_space()
        return True

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._place)
        if space is not None:
            self._place = space.end()
