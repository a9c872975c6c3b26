"""URLs of stores, and opening the store of a URL."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.store import Store
from apidiscovery_service.store.etcd_options import EtcdOptions

_FORMS = "memory, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT...]/PREFIX"

# A name or an IPv4 address, or an IPv6 address in brackets.
_ENDPOINT = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_GREATEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """The URL of a store.

    Attributes:
        kind: The kind of store.
        path: The file; only for `sqlite`.
        endpoints: HOST:PORT in the order given; only for `etcd`.
        prefix: Prefix of all keys, without slashes at the ends; only for `etcd`.
    """

    kind: Literal["memory", "sqlite", "etcd"]
    path: Path | None = None
    endpoints: tuple[str, ...] = ()
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `memory`, `sqlite:PATH` or `etcd://HOST:PORT[,HOST:PORT...]/PREFIX`.

        A leading `~` of PATH is the user's home.

        Raises:
            InvalidConfiguration: It is none of these.
        """
        if text == "memory":
            return cls("memory")
        kind, _, rest = text.partition(":")
        if kind == "sqlite" and rest:
            return cls("sqlite", path=_path(rest))
        if kind == "etcd" and rest.startswith("//"):
            return cls("etcd", *_etcd(rest.removeprefix("//")))
        # The text is cut, as it may be a password in the wrong place.
        raise InvalidConfiguration(f"store: wanted {_FORMS}, but it begins with {kind[:16]!r}")

    @property
    def is_remote(self) -> bool:
        """Whether another server has the data: then no file is kept beside the store."""
        return self.kind == "etcd"

    def __str__(self) -> str:
        if self.kind == "memory":
            return "memory"
        if self.kind == "sqlite":
            return f"sqlite:{self.path}"
        return f"etcd://{','.join(self.endpoints)}/{self.prefix}"


def default_store_url() -> str:
    """Return the URL of the file in the user's state folder.

    By the XDG Base Directory specification; it says to ignore a relative XDG_STATE_HOME.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    folder = given if given.is_absolute() else Path("~/.local/state")
    return f"sqlite:{_path(str(folder / 'apidiscovery' / 'store.sqlite'))}"


async def open_store(url: StoreUrl, options: EtcdOptions) -> Store:
    """Open the store of a URL.

    This does not connect to etcd; the first call does.

    Raises:
        InvalidConfiguration: The options are wrong.
        StoreRefused: The file is damaged, newer, or cannot be written; it is left as it was.
        StoreUnavailable: The disk fails.
    """
    # Imported when needed: etcd needs grpc.
    if url.kind == "sqlite" and url.path is not None:
        from apidiscovery_service.store.sqlite import SqliteStore  # noqa: PLC0415

        return await SqliteStore.open(url.path)
    if url.kind == "etcd":
        from apidiscovery_service.store.etcd import EtcdStore  # noqa: PLC0415

        return EtcdStore(url.endpoints, url.prefix, options)
    from apidiscovery_service.store.memory import MemoryStore  # noqa: PLC0415

    return MemoryStore()


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise InvalidConfiguration(
            "store: the user has no home folder; set HOME, or give sqlite:PATH with a whole path"
        ) from error


def _etcd(rest: str) -> tuple[None, tuple[str, ...], str]:
    hosts, _, path = rest.partition("/")
    if "@" in hosts:
        # The text is not repeated, as it may be a password.
        raise InvalidConfiguration(
            "store: the URL of etcd must not contain credentials;"
            " give the user and a password file by their own options"
        )
    prefix = path.strip("/")
    if not prefix:
        raise InvalidConfiguration(f"store: the PREFIX is missing, wanted {_FORMS}")
    return None, tuple(_checked(endpoint) for endpoint in hosts.split(",")), prefix


def _checked(endpoint: str) -> str:
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or not 0 < int(found["port"]) <= _GREATEST_PORT:
        raise InvalidConfiguration(f"store: {endpoint!r} is not HOST:PORT, wanted {_FORMS}")
    return endpoint
