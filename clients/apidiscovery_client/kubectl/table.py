"""Aligned columns, to the byte as kubectl writes them."""

from collections.abc import Sequence

_MIN_WIDTH = 6
_PADDING = 3
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return the rows as lines, every column but the last padded to its widest cell.

    The widths are those of cli-runtime printers/tabwriter.go `GetNewTabWriter`, counted in code
    points. Control characters are written as `\x1b`: names come from servers, and go to terminals.

    >>> print(table([("NAME", "KIND"), ("pods", "Pod")]), end="")
    NAME   KIND
    pods   Pod
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max(_MIN_WIDTH, *(len(cell) + _PADDING for cell in column))
        for column in zip(*cells, strict=True)
    ]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        + f"{row[-1]}\n"
        for row in cells
    )


def printable(text: str) -> str:
    r"""Return the text with each control character written out, such as `\x1b`."""
    return text.translate(_CONTROL)
