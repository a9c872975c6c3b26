"""When a lease has ended: it has been seen unchanged for as long as its holder may be silent.

Time is counted here, on one monotonic clock, from the moment of seeing. `renewTime` is never
compared with a clock: it was written by another machine, whose clock may be minutes away.
"""

import math
from dataclasses import dataclass

# So often a lease is looked at while it does not change. A look that fails begins the time anew,
# for who cannot be seen could not renew either.
_LOOKS = 3


@dataclass(slots=True)
class _Sighting:
    """A lease that has not changed since a moment."""

    revision: int
    duration_s: float
    since: float
    looks: int = 0

    @property
    def next_look(self) -> float:
        return self.since + self.duration_s * (self.looks + 1) / _LOOKS


class Sightings:
    """Leases by name, and since when each has not changed. Moments are seconds of any one clock."""

    def __init__(self) -> None:
        self._seen: dict[str, _Sighting] = {}

    def see(self, name: str, revision: int, duration_s: float, now: float) -> None:
        """Take note of a lease; the time of one that has not changed goes on."""
        before = self._seen.get(name)
        if before is None or before.revision != revision:
            self._seen[name] = _Sighting(revision, duration_s, now)

    def looked(self, name: str, revision: int) -> bool:
        """Take note that a lease, looked at when that was due, has not changed.

        Returns:
            Whether it has ended. False when it has been seen at another revision meanwhile.
        """
        seen = self._seen.get(name)
        if seen is None or seen.revision != revision:
            return False
        seen.looks += 1
        return seen.looks >= _LOOKS

    def forget(self, name: str, revision: int | None) -> None:
        """Take note that a lease, as it was at a revision or at any, is not there any more."""
        seen = self._seen.get(name)
        if seen is not None and revision in (None, seen.revision):
            del self._seen[name]

    def restart(self, now: float) -> None:
        """Count anew for all."""
        for seen in self._seen.values():
            seen.since, seen.looks = now, 0

    def due(self, now: float) -> list[tuple[str, int]]:
        """Return names and revisions of the leases to look at, what has been due longest first."""
        due = [(seen, name) for name, seen in self._seen.items() if seen.next_look <= now]
        due.sort(key=lambda pair: pair[0].next_look)
        return [(name, seen.revision) for seen, name in due]

    @property
    def next_look(self) -> float:
        """When the next one is due; infinite when there is no lease."""
        return min((seen.next_look for seen in self._seen.values()), default=math.inf)
