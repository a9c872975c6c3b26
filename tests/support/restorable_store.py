"""A store that can be restored from a backup, as an etcd can, while others follow it."""

from apidiscovery_service.store.memory import MemoryStore
from store_wrapper import InterruptedStore


class _LosingStore(MemoryStore):
    def lose(self, key: str) -> None:
        """Remove a key without a write, which watches would report."""
        del self._entries[key]


class RestorableStore(InterruptedStore):
    """Stands before a store in memory.

    Attributes:
        behind: The store that is in use now.
    """

    def __init__(self) -> None:
        self._first = _LosingStore()
        self.behind: MemoryStore = self._first
        super().__init__(self._first)

    async def restore(self, backup: MemoryStore) -> None:
        """Put the backup in place of the store; watches, once there are some, break."""
        await self.watched.wait()
        self.store = self.behind = backup
        self.break_watches()

    async def lose(self, key: str) -> None:
        """Restore a backup that lacks just this key."""
        self._first.lose(key)
        await self.restore(self._first)
