"""The state of each document: its recipe, and the hash of what the recipe made."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from apidiscovery_formats.openapi.keys import group_of

from apidiscovery_service.openapi.recipe import Recipe, Recipes

# Changed groups that are remembered beyond twice the number of served ones.
_MANY_CHANGED = 10_000


@dataclass(eq=False, slots=True)
class DocumentEntry:
    """One document as it is now; a document with another recipe gets another entry.

    Attributes:
        recipe: How it is made.
        hash: Empty while it is not known, and when no document could be made.
        former: The hash that the index states while `hash` is empty; empty for none.
        instead: The fingerprint of the fallback that has `hash`; None when it is not a fallback.
        note: Why it is not the document that its source should have; empty for no reason.
        failure: Why the fallback is served, or nothing; empty when nothing failed.
        reported: The failure that was logged.
        retry_at: The time of the next attempt, on the event loop's clock; None for never.
    """

    key: str
    recipe: Recipe = field(repr=False)
    hash: str
    note: str
    former: str = ""
    failure: str = ""
    reported: str = ""
    retry_at: float | None = None
    instead: Hashable = field(default=None, repr=False)


class Known:
    """The entries of all documents that have been looked at. For one thread.

    Attributes:
        entries: By key.
        unknown: Entries without a known hash, in the order in which they came.
        revision: Changes whenever an entry changes.
        noted: The number of calls of `changed`.
    """

    def __init__(self, recipes: Recipes) -> None:
        self._recipes = recipes
        self.entries: dict[str, DocumentEntry] = {}
        self.unknown: dict[DocumentEntry, None] = {}
        self.revision = 0
        self.noted = 0
        self._keys: dict[str | None, tuple[str, ...]] = {}
        # Groups whose entries may be outdated; None is for documents without group.
        self._changed: set[str | None] = set()
        self._retried: set[DocumentEntry] = set()
        self._listed = False

    def changed(self, groups: Iterable[str]) -> None:
        """Note that groups may have changed; they are updated by the next request."""
        self._changed.update(groups)
        self._changed.add(None)
        self.noted += 1
        if not self._listed or len(self._changed) > 2 * len(self._keys) + _MANY_CHANGED:
            # Without requests, groups come and go: the next request updates all of them.
            self._changed &= self._keys.keys()
            self._listed = False

    @property
    def is_settled(self) -> bool:
        """Whether every entry is up to date and has a known hash."""
        return self._listed and not self._changed and not self.unknown

    def unsettled(self) -> list[str | None]:
        """Return the groups to be looked at; all groups the first time."""
        if not self._listed:
            self._changed.update(self._recipes.groups(), self._keys, (None,))
            self._listed = True
        return list(self._changed)

    def settle(self, group: str | None) -> None:
        """Update the entries of a group; recipes of other groups are ignored."""
        found = self._recipes.common() if group is None else self._recipes.of_group(group)
        recipes = {key: recipe for key, recipe in found.items() if group_of(key) == group}
        self._changed.discard(group)
        for key in self._keys.pop(group, ()):
            if key not in recipes:
                self._forget(self.entries.pop(key))
                self.revision += 1
        if recipes:
            self._keys[group] = tuple(recipes)
        for key, recipe in recipes.items():
            self._note(key, recipe)

    def _note(self, key: str, recipe: Recipe) -> None:
        before = self.entries.get(key)
        if before and _is_same(before, recipe):
            before.recipe = recipe  # it makes the same bytes, perhaps from another source
            if before.note != recipe.note:
                before.note = recipe.note
                self.revision += 1
            return
        former = ""
        if before:
            former = before.hash or before.former
            self._forget(before)
        entry = DocumentEntry(key, recipe, recipe.hash, recipe.note, former)
        self.entries[key] = entry
        if not entry.hash:
            self.unknown[entry] = None
        self.revision += 1

    def _forget(self, entry: DocumentEntry) -> None:
        self.unknown.pop(entry, None)
        self._retried.discard(entry)

    def entry(self, key: str) -> DocumentEntry | None:
        """Return a document as it is now; None when there is none."""
        group = group_of(key)
        if group in self._changed or group not in self._keys:
            self.settle(group)
        return self.entries.get(key)

    def learn(
        self,
        entry: DocumentEntry,
        found: str,
        failure: str = "",
        retry_at: float | None = None,
        instead: Hashable = None,
    ) -> None:
        """Record the result of making a document, unless its entry was replaced meanwhile.

        Args:
            entry: The entry when making began.
            found: The hash of the document or its fallback; empty when there is neither.
            failure: Why the fallback is served, or nothing; empty when nothing failed.
            retry_at: The time of the next attempt, on the event loop's clock.
            instead: The fingerprint of the fallback; None for none.
        """
        if self.entries.get(entry.key) is not entry:
            return
        self.unknown.pop(entry, None)
        self._retried.discard(entry)
        if (entry.hash, entry.failure) != (found, failure):
            self.revision += 1
        if found or not failure:
            entry.former = ""  # otherwise the former document is expected back
        elif entry.hash:
            entry.former = entry.hash
        entry.hash, entry.failure, entry.retry_at, entry.instead = (
            found,
            failure,
            retry_at,
            instead,
        )
        if retry_at is not None:
            self._retried.add(entry)

    def due(self, now: float) -> list[DocumentEntry]:
        """Return failed entries that are due for another attempt, each once."""
        late = [e for e in self._retried if e.retry_at is not None and e.retry_at <= now]
        self._retried.difference_update(late)
        return [entry for entry in late if self.entry(entry.key) is entry]


def _is_same(entry: DocumentEntry, recipe: Recipe) -> bool:
    """Return whether a recipe makes the document that an entry serves."""
    if entry.recipe.fingerprint != recipe.fingerprint:
        return False
    if not entry.failure or not entry.hash or recipe.fallback is None:
        return True
    return recipe.fallback(entry.failure).fingerprint == entry.instead
