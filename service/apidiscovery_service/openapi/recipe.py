"""Recipes: how sources say that the document of a path is made."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one document is made.

    Attributes:
        fingerprint: Equal for recipes that make the same bytes, so that only documents with another
            fingerprint are made again.
        make: Returns the document as canonical JSON (compact, as Go writes it). It may be called
            more than once, and always returns the same bytes. Work that may take more than 20 ms
            runs in a worker process.
        hash: Upper-case hex SHA-512 of those bytes where it is known beforehand, else empty.
        note: Why it is not the document that its source should have, such as that it is generated
            from discovery because the source's own is invalid; empty for no reason.
        fallback: Given why the document cannot be made, returns the recipe of its replacement; None
            when there is none.
    """

    fingerprint: Hashable
    make: Callable[[], Awaitable[bytes]]
    hash: str = ""
    note: str = ""
    fallback: "Callable[[str], Recipe] | None" = None


class Recipes(Protocol):
    """The recipes of what is served now."""

    def groups(self) -> Iterable[str]:
        """Return the names of all groups that have documents; empty text is the core group."""
        ...

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        """Return the recipes of a group by path without leading slash, such as `apis/apps/v1`.

        It is quick: it makes nothing. Empty when the group is not served.
        """
        ...

    def common(self) -> Mapping[str, Recipe]:
        """Return the recipes of paths that belong to no group: `api`, `apis`, `version`."""
        ...
