"""What is known of each document: what it is made from, and the hash of what was made."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from apidiscovery_service.openapi.recipe import Recipe, Recipes

# So many changed groups that are not served are noted, or twice as many as are.
_MANY_CHANGED = 10_000


@dataclass(eq=False, slots=True)
class Entry:
    """One document as it is now; another takes its place when it is made from something else.

    Attributes:
        recipe: How it is made; kept, for looking at a group takes longer the more versions it has.
        hash: Empty while it is not known, or when there is no document to be had.
        former: The hash that the index states while there is no other; empty for none.
        instead: The fingerprint of the document in its place that has `hash`; None for none.
        note: Why it is not the document that one would want; empty when there is nothing to say.
        failure: Why the document in its place is served, or none; empty when nothing failed.
        reported: The failure that was logged.
        retry_at: When what failed is tried again, on the clock of the event loop; None for never.
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


def group_of(key: str) -> str | None:
    """Return the group that a document belongs to; None when it belongs to none."""
    root, _, rest = key.partition("/")
    if root == "api" and rest:
        return ""
    return (rest.partition("/")[0] or None) if root == "apis" else None


class Known:
    """The documents by key, as far as they have been looked at. It belongs to one thread.

    Attributes:
        entries: By key.
        unknown: Those whose hash is to be found out, in the order in which they came.
        revision: Another number whenever anything about the entries is different.
        noted: How often groups were noted to be different perhaps.
    """

    def __init__(self, recipes: Recipes) -> None:
        self._recipes = recipes
        self.entries: dict[str, Entry] = {}
        self.unknown: dict[Entry, None] = {}
        self.revision = 0
        self.noted = 0
        self._keys: dict[str | None, tuple[str, ...]] = {}
        # Groups that may be different from what the entries say; None is for what is in no group.
        self._changed: set[str | None] = set()
        self._retried: set[Entry] = set()
        self._listed = False

    def changed(self, groups: Iterable[str]) -> None:
        """Note that groups may be different now; they are looked at when it matters."""
        self._changed.update(groups)
        self._changed.add(None)
        self.noted += 1
        if not self._listed or len(self._changed) > 2 * len(self._keys) + _MANY_CHANGED:
            # Groups come and go, and nobody asks: what is looked at anew needs no note.
            self._changed &= self._keys.keys()
            self._listed = False

    @property
    def is_settled(self) -> bool:
        """Whether every entry is what it must be and its hash is known."""
        return self._listed and not self._changed and not self.unknown

    def unsettled(self) -> list[str | None]:
        """Return the groups that are to be looked at; all of them at first."""
        if not self._listed:
            self._changed.update(self._recipes.groups(), self._keys, (None,))
            self._listed = True
        return list(self._changed)

    def settle(self, group: str | None) -> None:
        """Look at a group; recipes out of place are passed over."""
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
            before.recipe = recipe  # it makes the same, and maybe from another place
            if before.note != recipe.note:
                before.note = recipe.note
                self.revision += 1
            return
        former = ""
        if before:
            former = before.hash or before.former
            self._forget(before)
        entry = Entry(key, recipe, recipe.hash, recipe.note, former)
        self.entries[key] = entry
        if not entry.hash:
            self.unknown[entry] = None
        self.revision += 1

    def _forget(self, entry: Entry) -> None:
        self.unknown.pop(entry, None)
        self._retried.discard(entry)

    def entry(self, key: str) -> Entry | None:
        """Return a document as it is now; None when there is none."""
        group = group_of(key)
        if group in self._changed or group not in self._keys:
            self.settle(group)
        return self.entries.get(key)

    def learn(
        self,
        entry: Entry,
        found: str,
        failure: str = "",
        retry_at: float | None = None,
        instead: Hashable = None,
    ) -> None:
        """Take what came of making a document, unless it is made from something else by now.

        Args:
            entry: As it was when making began.
            found: Its hash; empty when there is no document, not even in place of it.
            failure: Why another one is in its place, or none; empty when nothing failed.
            retry_at: When to try again, on the clock of the event loop.
            instead: The fingerprint of the document in its place; None for none.
        """
        if self.entries.get(entry.key) is not entry:
            return
        self.unknown.pop(entry, None)
        self._retried.discard(entry)
        if (entry.hash, entry.failure) != (found, failure):
            self.revision += 1
        if found or not failure:
            entry.former = ""  # else it was there, and is expected back
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

    def due(self, now: float) -> list[Entry]:
        """Return what failed and may work by now, each once until it is learned again."""
        late = [e for e in self._retried if e.retry_at is not None and e.retry_at <= now]
        self._retried.difference_update(late)
        return [entry for entry in late if self.entry(entry.key) is entry]


def _is_same(entry: Entry, recipe: Recipe) -> bool:
    """Tell whether what is served for an entry is what a recipe comes to."""
    if entry.recipe.fingerprint != recipe.fingerprint:
        return False
    if not entry.failure or not entry.hash or recipe.fallback is None:
        return True
    return recipe.fallback(entry.failure).fingerprint == entry.instead
