"""Text as Go's fmt and strconv write it, for messages that must be Kubernetes' to the letter."""

from collections.abc import Mapping, Sequence

from apidiscovery_service.go_json import JSONValue

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_FIRST_SUPPLEMENTARY = 0x10000
_BYTES = range(0xDC80, 0xDD00)  # how `surrogateescape` keeps a byte that is not UTF-8


def quote(text: str) -> str:
    """Return text in double quotes as `%q` does. Source: strconv.Quote."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    if character.isprintable() and character not in _ESCAPES:
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if code < ord(" ") or code == 0x7F:  # noqa: PLR2004 - DEL
        return f"\\x{code:02x}"
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < _FIRST_SUPPLEMENTARY else f"\\U{code:08x}"


def plain(value: JSONValue) -> str:
    """Return a JSON value as `%v` prints what Go decodes it to: `map[a:1 b:[x y]]`.

    Keys are sorted and strings not quoted. Source: fmt's print.go, `printValue`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
    if isinstance(value, Sequence):
        return f"[{' '.join(map(plain, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower()
