"""Aligned columns, to the byte as kubectl writes them."""

from collections.abc import Sequence

from apidiscovery_client._terminal import printable

_MIN_WIDTH = 6
_PADDING = 3


def table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return the rows as lines, every column but the last padded to its widest cell.

    The widths are those of cli-runtime printers/tabwriter.go `GetNewTabWriter`, counted in code
    points, of what is safe for a terminal: names come from servers.

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
