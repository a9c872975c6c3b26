"""A bounded cache, which evicts the least recently used values."""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, ValuesView
from typing import Generic, TypeVar

from apidiscovery_service.once import Once

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps the values that were used last. For one thread.

    Args:
        most: The largest sum of weights. A value that is heavier by itself is not kept.
        weigh: Returns the weight of a value, which never changes; without it they are counted.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._making: Once[K, V] = Once()

    def __contains__(self, key: K) -> bool:
        """Return whether a value is kept, which does not use it."""
        return key in self._values

    def values(self) -> ValuesView[V]:
        """Return all values, the least recently used one first."""
        return self._values.values()

    def get(self, key: K) -> V | None:
        """Return a value, which becomes the most recently used one; None without one."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    async def get_or_make(self, key: K, make: Callable[[], Coroutine[None, None, V]]) -> V:
        """Return a value as `get`, or what `make` returns, which is kept.

        Concurrent callers share the making, as with `Once`.
        """

        async def made() -> V:
            value = await make()
            self.put(key, value)
            return value

        value = self.get(key)
        return await self._making.run(key, made) if value is None else value

    def put(self, key: K, value: V, *, first: bool = False) -> None:
        """Keep a value in place of the one with this key, and evict others to make room.

        Args:
            key: Its key.
            value: The value.
            first: Whether it is evicted before all others, until it is used.
        """
        self.drop(key)
        weight = self._weigh(value)
        if weight > self._most:
            return
        self._values[key] = value
        self._weight += weight
        if first:
            self._values.move_to_end(key, last=False)
        while self._weight > self._most:
            _, evicted = self._values.popitem(last=False)
            self._weight -= self._weigh(evicted)

    def drop(self, key: K) -> None:
        """Keep the value with this key no longer, if there is one."""
        value = self._values.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)
