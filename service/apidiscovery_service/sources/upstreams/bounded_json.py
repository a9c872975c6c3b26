"""JSON of strangers, read piece by piece.

A JSON library holds the interpreter from the first byte to the last, for a third of a second with
the largest document that is allowed, and the event loop with it. So the outer layers are walked
here, and only values of a bounded size are given to the library. Depth is bounded by it: it refuses
what nests deeper than the interpreter recurses.
"""

import codecs
import json
import re
import time
from collections.abc import Iterator
from typing import TypeAlias

from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed

# A large one is not copied only to be of another type.
Body: TypeAlias = bytes | bytearray

# A resource takes 300 bytes; the small window saves copying the large one for each.
_WINDOWS = (4 * 1024, 1024 * 1024)

# In pieces, as everything here: a stranger may send nothing else.
_SPACE = re.compile(r"[ \t\n\r]{0,65536}")
_DECODED_AT_ONCE = 1 << 20
_TEXT_DECODER = codecs.getincrementaldecoder("utf-8")

# How many values are read before the event loop gets the interpreter; that takes about 2 ms, less
# than a time slice. It has to be a real sleep: after an empty one this thread would be first again.
_VALUES_AT_ONCE = 256
_BREATH_S = 0.0001


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _text(body: Body) -> str:
    """Return the text of a body; what is not UTF-8 is replaced, as by Go."""
    decoder = _TEXT_DECODER("replace")
    starts = range(0, len(body), _DECODED_AT_ONCE)
    pieces = [decoder.decode(body[start : start + _DECODED_AT_ONCE]) for start in starts]
    return "".join([*pieces, decoder.decode(b"", final=True)])


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class BoundedJSON:
    """A reader that stands before a value, and goes on as it is asked.

    Args:
        body: What is read, UTF-8.
        within_s: How long reading may take.
        windows: How much is looked at for one value, in characters, the smallest first; what
            exceeds the last is refused.
    """

    def __init__(self, body: Body, within_s: float, windows: tuple[int, ...] = _WINDOWS) -> None:
        self._windows = windows
        self._text = _text(body)
        self._place = 0
        self._values = 0
        self._deadline = time.monotonic() + within_s
        self._skip_space()

    def fields(self) -> Iterator[str]:
        """Yield the name of each field of an object; its value must be read before the next."""
        self._expect("{", "an object")
        if self._take("}"):
            return
        while True:
            if not self._text.startswith('"', self._place):
                raise self.wrong("want the name of a field")
            name = self.value()
            self._expect(":", "a colon")
            yield str(name)
            if self._take("}"):
                return
            self._expect(",", "a comma")

    def elements(self) -> Iterator[int]:
        """Yield the number of each element of a list, read as `fields`; null has none."""
        if self._take("null"):
            return
        self._expect("[", "a list")
        if self._take("]"):
            return
        number = 0
        while True:
            yield number
            number += 1
            if self._take("]"):
                return
            self._expect(",", "a comma")

    def value(self) -> object:
        """Return a whole value, which must be of a bounded size."""
        self._values += 1
        if not self._values % _VALUES_AT_ONCE:
            self._breathe()
        for window in self._windows:
            piece = self._text[self._place : self._place + window]
            try:
                value, length = _DECODER.raw_decode(piece)
            except (ValueError, RecursionError) as error:
                if len(piece) == window and window != self._windows[-1]:
                    continue
                raise self._unreadable(error, len(piece) == window) from None
            self._place += length
            self._skip_space()
            return value
        raise AssertionError("a window is the last")

    def end(self) -> None:
        """Check that nothing follows."""
        if self._place != len(self._text):
            raise self.wrong("want the end")

    def wrong(self, message: str) -> UpstreamFailed:
        """Return the error that something here is not as it must be."""
        seen = self._text[self._place : self._place + 20]
        text = (
            f"character {self._place}: {message}, got {seen!r}" if seen else f"{message}, it ends"
        )
        return UpstreamFailed(Reason.MALFORMED, text)

    def _unreadable(self, error: ValueError | RecursionError, cut: bool) -> UpstreamFailed:  # noqa: FBT001
        if isinstance(error, RecursionError):
            return UpstreamFailed(
                Reason.MALFORMED, f"character {self._place}: a value nests too deeply"
            )
        if cut:
            return UpstreamFailed(
                Reason.TOO_LARGE,
                f"character {self._place}: a value exceeds {self._windows[-1]} bytes",
            )
        return self.wrong("want a JSON value")

    def _breathe(self) -> None:
        if time.monotonic() > self._deadline:
            raise UpstreamFailed(Reason.TOO_LARGE, "reading the answer takes too long")
        time.sleep(_BREATH_S)

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._place):
            return False
        self._place += len(token)
        self._skip_space()
        return True

    def _expect(self, token: str, wanted: str) -> None:
        if not self._take(token):
            raise self.wrong(f"want {wanted}")

    def _skip_space(self) -> None:
        while (match := _SPACE.match(self._text, self._place)) and match.end() > self._place:
            self._place = match.end()
