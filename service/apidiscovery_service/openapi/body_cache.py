"""Bytes that took time to make, as many as fit."""

from collections import OrderedDict
from collections.abc import Hashable

# What an entry takes beside its bytes, about.
_ENTRY_BYTES = 500


class BodyCache:
    """Keeps what was used last, up to a number of bytes. It belongs to one thread."""

    def __init__(self, capacity: int) -> None:
        """Take the number of bytes that are kept at most; none when it is zero."""
        self._capacity = capacity
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes that are kept, with what keeping them takes."""
        return self._size

    def get(self, key: Hashable) -> bytes | None:
        """Return what is kept under a key, which makes it the last to go."""
        data = self._kept.get(key)
        if data is not None:
            self._kept.move_to_end(key)
        return data

    def put(self, key: Hashable, data: bytes, *, first_to_go: bool = False) -> None:
        """Keep bytes; what was not used for longest goes for it.

        Args:
            key: Stands for these very bytes: what is under it already is taken to be equal.
            data: More than the capacity is not kept at all.
            first_to_go: Whether it goes before all others, being of use only while there is room.
        """
        if key in self._kept or _weight(data) > self._capacity:
            return
        self._kept[key] = data
        self._size += _weight(data)
        if first_to_go:
            self._kept.move_to_end(key, last=False)
        while self._size > self._capacity:
            _, dropped = self._kept.popitem(last=False)
            self._size -= _weight(dropped)

    def drop(self, key: Hashable) -> None:
        """Keep nothing under a key any more."""
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= _weight(dropped)


def _weight(data: bytes) -> int:
    return len(data) + _ENTRY_BYTES
