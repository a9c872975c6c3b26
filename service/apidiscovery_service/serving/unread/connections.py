"""Connections of this process, found by their other end: servers do not hand theirs out."""

import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path

_UNSENT_BYTES = 256 * 1024
_STALLED_MS = 30_000  # as long as `UnreadLimits.stalled_s`

_DESCRIPTORS = Path("/proc/self/fd")

# What the host of an IPv4 connection to an IPv6 socket begins with (RFC 4291, 2.5.5.2).
_MAPPED = "::ffff:"


def end_name(peer: object) -> str:
    """Return what a connection goes by here, from its other end; empty if that has no name.

    Args:
        peer: An address as sockets have it, or host and port as ASGI has them: the port may be
            text there.
    """
    if isinstance(peer, bytes):
        return os.fsdecode(peer)
    if isinstance(peer, str):
        return peer
    if isinstance(peer, (tuple, list)):
        host, port = peer[:2]  # pyright: ignore[reportUnknownVariableType]
        return f"{str(host).removeprefix(_MAPPED)} {port}"  # pyright: ignore[reportUnknownArgumentType]
    return ""


def cut(names: Collection[str]) -> None:
    """Shut down the connections whose other ends have these names; look at every descriptor once.

    Without Linux's /proc nothing is cut.
    """
    cut_where(lambda connection: end_name(connection.getpeername()) in names)


def cut_where(is_meant: Callable[[socket.socket], bool]) -> None:
    """Shut down this process's connections of which something is true.

    Args:
        is_meant: May raise OSError for a socket that is not connected.
    """
    if not _DESCRIPTORS.is_dir():
        return
    for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - thousands: names are enough
        try:
            with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                if is_meant(connection):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # no socket, or gone by now


def bound_unsent(listening: socket.socket) -> None:
    """Bound what the system keeps of what clients do not read, where it can do that.

    Otherwise it takes 2.5 MB for each connection, without end.
    """
    for name, most in (("TCP_NOTSENT_LOWAT", _UNSENT_BYTES), ("TCP_USER_TIMEOUT", _STALLED_MS)):
        option = getattr(socket, name, None)
        if option is not None:
            listening.setsockopt(socket.IPPROTO_TCP, option, most)
