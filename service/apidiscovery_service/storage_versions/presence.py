"""Who is gone, as far as one operation wants to know."""

import asyncio
from collections.abc import Iterable

from apidiscovery_service.storage_versions.members import Members
from apidiscovery_service.store import Guard


class Presence:
    """Asks the store for the lease of each API server, once until told to `forget`.

    What it says may be overtaken; so whoever removes an entry passes the guards to the write.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._gone: dict[str, bool] = {}
        self._asking = asyncio.Lock()

    async def gone(self, api_server_ids: Iterable[str]) -> frozenset[str]:
        """Return those that are no members.

        Raises:
            StoreUnavailable: It is not known of all; none may be taken for gone.
        """
        wanted = frozenset(api_server_ids)
        async with self._asking:
            known = self._gone  # which another may be told to forget meanwhile
            unknown = wanted - known.keys()
            found = await self._members.gone(unknown)
            known |= {each: each in found for each in unknown}
            return frozenset(each for each in wanted if known[each])

    def forget(self) -> None:
        """Ask anew from now on."""
        self._gone = {}

    def guards(self, api_server_ids: Iterable[str]) -> tuple[Guard, ...]:
        """Return the conditions under which entries may be removed."""
        return tuple(self._members.absence(each) for each in sorted(api_server_ids))
