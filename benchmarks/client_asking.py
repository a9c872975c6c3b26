"""Asks each client the same things, in processes that know nothing yet or what one has kept."""

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import client_groups
from client_groups import DEPLOYMENT, GADGET, GHOST, TYPO
from client_sessions import Done, HttpSide, Side, grpc_side, session

COLD, AGAIN, MISSPELT, NEW, DEAD = "cold", "again", "typo", "new", "dead"

OURS_HTTP = ("ours, asyncio", "ours, sync")
OURS_GRPC = ("ours, gRPC", "ours, gRPC betterproto")
OUR_COMMAND, KUBECTL = "ours, command line", "kubectl"
OTHERS = ("lightkube", "kubernetes", "kubernetes_asyncio", "kr8s")

# A definition is a second old when it is asked for; before that, a client may take for granted
# that what it has just been told is still so.
_SETTLE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All that was measured of a client.

    Attributes:
        elsewhere: In a second process, with what the first has kept on disk.
        checked: When it is told to make sure; None where it cannot.
        warm: The new kind, asked by a client that knew the others.
        fresh: The new kind, asked by one that knew nothing.
        other: A kind of a group that answers, while another does not.
        ghost: A kind of the one that does not.
    """

    client: str
    cold: Done
    again: Done
    elsewhere: Done
    checked: Done | None
    typo: Done
    typo_again: Done
    warm: Done
    fresh: Done
    other: Done
    ghost: Done

    def shown(self, scenario: str) -> Done:
        """Return what a picture shows of it."""
        shown = {COLD: self.cold, AGAIN: self.again, MISSPELT: self.typo, NEW: self.warm}
        return shown.get(scenario, self.other)


def over_http(client: str, side: HttpSide, folder: Path) -> Asked:
    """Return what came of asking a client that talks HTTP, or a command line.

    Raises:
        Failed: The client cannot be run.
    """

    @contextmanager
    def dead() -> Generator[Side]:
        side.serve("dead")
        yield side

    try:
        return _measured(client, side, dead, own_folder(client, folder))
    finally:
        side.serve("usual")


def over_grpc(client: str, folder: Path) -> Asked:
    """Return what came of asking a client that talks gRPC, with a server of its own.

    Raises:
        Failed: The client cannot be run.
    """
    own = own_folder(client, folder)
    with grpc_side(own, client_groups.usual()) as side:
        return _measured(client, side, partial(grpc_side, own, client_groups.with_dead()), own)


def own_folder(client: str, folder: Path) -> Path:
    """Return where a client has its files; it is there then."""
    own = folder / client.replace(", ", "-").replace(" ", "-")
    own.mkdir(exist_ok=True)
    return own


def _measured(
    client: str, side: Side, dead: Callable[[], AbstractContextManager[Side]], folder: Path
) -> Asked:
    """Ask everything, in processes that begin with nothing unless it is to be kept."""
    with session(client, side, folder / "kept") as first:
        cold, again = first.find(DEPLOYMENT), first.find(DEPLOYMENT)
    with session(client, side, folder / "kept") as second:
        elsewhere = second.find(DEPLOYMENT)
        checked = None if client in OTHERS else second.check()
        time.sleep(_SETTLE_S)
        typo, typo_again = second.find(TYPO), second.find(TYPO)
        side.add_gadget()
        time.sleep(_SETTLE_S)
        warm = second.find(GADGET)
    with session(client, side, folder / "fresh") as third:
        fresh = third.find(GADGET)
    with dead() as without, session(client, without, folder / "dead") as fourth:
        other, ghost = fourth.find(DEPLOYMENT), fourth.find(GHOST)
    return Asked(
        client=client,
        cold=cold,
        again=again,
        elsewhere=elsewhere,
        checked=checked,
        typo=typo,
        typo_again=typo_again,
        warm=warm,
        fresh=fresh,
        other=other,
        ghost=ghost,
    )
