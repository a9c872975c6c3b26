"""Breaks lines as kubectl does, to the byte."""

import re

# What Go's unicode.IsSpace says, without the line feed and the no-break space (`nbsp` in wordwrap).
_SPACES = r"\t\v\f\r \x85\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_TOKEN = re.compile(rf"(\n)|([{_SPACES}]+)|[^\n{_SPACES}]+")


def wrap(text: str, width: int) -> str:
    r"""Return the text with lines of at most `width` characters, but for words that are longer.

    A word that begins behind the first column is moved to a line of its own only if that much of
    it as would overflow is shorter than `width`; the space before it is then dropped.
    Source: mitchellh/go-wordwrap v1.0.1 wordwrap.go `WrapString`, through kubectl
    pkg/util/term/term_writer.go `NewWordWrapWriter`.

    >>> wrap("one two three", 8)
    'one two\nthree'
    """
    pieces: list[str] = []
    column = 0
    space = ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token[1]:
            pieces += _fitting(space, column, width), word
            space, column = "", 0
        elif token[2]:
            space = word
        else:
            if _breaks_before(len(word), column + len(space), width):
                pieces.append("\n")
                space, column = "", 0
            pieces += space, word
            column += len(space) + len(word)
            space = ""
    return "".join([*pieces, _fitting(space, column, width)])


def _fitting(space: str, column: int, width: int) -> str:
    """Return the space at the end of a line, or nothing where it reaches over the edge."""
    return space if column + len(space) <= width else ""


def _breaks_before(length: int, column: int, width: int) -> bool:
    overflowing = max(1, width - column + 1)  # the character of the word that is over the edge
    return overflowing <= length and overflowing < width


def indent(text: str, amount: int) -> str:
    """Return the text with every line, also an empty one, moved to the right."""
    pad = " " * amount
    return pad + text.replace("\n", f"\n{pad}")
