"""Cuts long lists into pages, which the URL names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """One page of a list.

    Attributes:
        items: Those of this page.
        number: Of this page, from 1.
        count: How many pages there are, at least 1.
        total: How many items there are on all pages.
    """

    items: Sequence[T]
    number: int
    count: int
    total: int


def paged(items: Sequence[T], size: int, wanted: str) -> Pages[T]:
    """Return a page of a list.

    Args:
        items: All of it.
        size: How many items a page has.
        wanted: The number of the page; no number is the first page, a greater one the last.
    """
    count = max(1, -(-len(items) // size))
    number = int(wanted) if wanted.isdecimal() and len(wanted) < 7 else 1  # noqa: PLR2004 - digits
    number = min(max(number, 1), count)
    return Pages(items[(number - 1) * size : number * size], number, count, len(items))
