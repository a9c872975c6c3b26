"""Finds the names nearest to one that is not served."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from apidiscovery_client.model import Resource
from apidiscovery_client.resolving.index import Index
from apidiscovery_client.resolving.reading import Reading

AT_MOST = 3


@dataclass(frozen=True, slots=True, order=True)
class _Near:
    """A resource whose name is near; the least is the nearest."""

    edits: int
    is_elsewhere: bool
    rank: int
    name: str
    group: str


class Vocabulary:
    """The names of an index: plural, singular and short names, and kinds in lower case."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._by_length: defaultdict[int, list[str]] = defaultdict(list)
        for word in {**index.words, **index.short_names, **index.odd_kinds}:
            self._by_length[len(word)].append(word)

    def suggestions(self, readings: Sequence[Reading]) -> tuple[str, ...]:
        """Return up to 3 texts that do resolve, the nearest to what was read first.

        Fewer edits come first, then the group that was asked for, then the order of preference.
        A text names a group where one was asked for, or where the name alone means another one.
        """
        near = sorted({found for reading in readings for found in self._near(reading)})
        if near and near[0].edits == 0:  # the name is right, the group was not
            near = [found for found in near if found.edits == 0]
        with_group = any(reading.group for reading in readings)
        names = (self._text(found, with_group=with_group) for found in near)
        return tuple(dict.fromkeys(names))[:AT_MOST]

    def _near(self, reading: Reading) -> Iterator[_Near]:
        word = reading.name.lower()
        for near in near_words(word, self._by_length):
            edits = edits_between(word, near)
            for resource in self._meant(near):
                is_elsewhere = not reading.admits(resource.gv)
                rank = self._index.rank(resource)
                yield _Near(edits, is_elsewhere, rank, resource.name, resource.gv.group)

    def _meant(self, word: str) -> Iterator[Resource]:
        for names in (self._index.words, self._index.short_names, self._index.odd_kinds):
            yield from names.get(word, ())

    def _text(self, near: _Near, *, with_group: bool) -> str:
        first = self._index.in_order(self._index.words[near.name])[0]
        if not near.group or not (with_group or first.gv.group != near.group):
            return near.name
        return f"{near.name}.{near.group}"


def allowed_edits(word: str) -> int:
    """Return how many edits away a word may be to be suggested."""
    return 1 if len(word) < 5 else 2 if len(word) < 12 else 3  # noqa: PLR2004 - lengths of words


def near_words(word: str, by_length: Mapping[int, Sequence[str]]) -> list[str]:
    """Return the words that few edits lead to, in no order; `by_length` has all words."""
    most = allowed_edits(word)
    lengths = range(len(word) - most, len(word) + most + 1)
    others = [by_length[length] for length in lengths if length in by_length]
    return [other for other in _likely(word, most, others) if edits_between(word, other) <= most]


def _likely(word: str, most: int, others: Sequence[Sequence[str]]) -> set[str]:
    """Return the words that may be near, without counting their edits, which is slow.

    One edit leaves the first or the last letter unchanged. Of a word in more pieces than edits, at
    least one piece is unchanged, and has moved by no more letters than there are edits. Only two
    swapped letters can belong to two pieces, so some words that are near through a swap are missed.
    """
    if most == 1:
        ends = word[:1], word[-1:]
        return {
            other for some in others for other in some if other[:1] in ends or other[-1:] in ends
        }
    return {
        other
        for start, end in _cuts(word, most + 1)
        for piece in (word[start:end],)
        for some in others
        for other in some
        if piece in other and piece in other[max(start - most, 0) : end + most]
    }


def _cuts(word: str, count: int) -> list[tuple[int, int]]:
    """Return the starts and ends of pieces of a word that are about equally long."""
    cuts = [len(word) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))


def edits_between(one: str, other: str) -> int:
    """Return how many letters must be added, removed, replaced or swapped with the next one.

    That is the optimal string alignment distance: no letter is edited twice.
    """
    one, other = _without_common_ends(one, other)
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, last, row = row, before, [place]
        for at, against in enumerate(other, 1):
            edits = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (letter != against))
            if last and at > 1 and letter == other[at - 2] and one[place - 2] == against:
                edits = min(edits, last[at - 2] + 1)
            row.append(edits)
    return row[-1]


def _without_common_ends(one: str, other: str) -> tuple[str, str]:
    start, shorter = 0, min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]


def nearest(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to 3 of a few names, the nearest first, in their order otherwise."""
    most = allowed_edits(word)
    counted = [(edits_between(word, name), name) for name in names]
    near = sorted((found for found in counted if found[0] <= most), key=lambda found: found[0])
    return tuple(dict.fromkeys(name for _, name in near))[:AT_MOST]
