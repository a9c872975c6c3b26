r"""Escapes foreign text for terminals.

Characters that a terminal interprets are escaped: control characters, such as the escape that
begins a sequence; format characters, which change the direction of text or have no width
(Unicode's Cf, https://trojansource.codes); separators of lines and paragraphs; and surrogates.
"""

import re

_OBEYED = (
    r"\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_IN_A_LINE = re.compile(rf"[\x00-\x1f{_OBEYED}]")
_IN_LINES = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_OBEYED}]|\r(?!\n)")


def printable(text: str) -> str:
    r"""Return the text in one line, with escapes such as `\x1b`.

    >>> print(printable("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\x0ac\u202ed
    """
    return text if text.isprintable() else _IN_A_LINE.sub(_written, text)


def printable_lines(text: str) -> str:
    """Return text of several lines with escapes; tabs and line ends stay, CR LF among them."""
    return _IN_LINES.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    """Return an escape; JSON and YAML know the same where such a character may stand in them."""
    code = ord(found[0])
    if code < 0x20:  # noqa: PLR2004 - ASCII's controls
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four
