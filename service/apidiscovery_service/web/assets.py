"""Style sheet and scripts, each at a path with its hash, so that browsers keep them for ever."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

PREFIX: Final = "/ui/static/"

_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent; `path` has its hash."""

    path: str
    content_type: bytes
    body: bytes


def load() -> Mapping[str, Asset]:
    """Return all assets by file name."""
    found: dict[str, Asset] = {}
    for file in files("apidiscovery_service.web").joinpath("static").iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]
            found[file.name] = Asset(f"{PREFIX}{digest}/{file.name}", content_type, body)
    return found
