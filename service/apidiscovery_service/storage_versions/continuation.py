"""Where a list that was read in part goes on: the value of `continue`.

It is upstream's form, k8s.io/apiserver pkg/storage/continue.go, with a digest of all objects
beside: the next page is of the same state when nothing has changed since, whatever else has been
written to the store.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.storage_versions.stored import Stored

_VERSION = "meta.k8s.io/v1"
_INVALID = "continue key is not valid"


@dataclass(frozen=True, slots=True)
class Continuation:
    """The rest of a list.

    Attributes:
        revision: Of the store when the list began; negative for whatever is there now.
        start: Names from here on.
        state: Digest of all objects then, as `state_of` makes it.
    """

    revision: int
    start: str
    state: str = ""

    def encode(self) -> str:
        """Return it as an opaque text that needs no escaping in a URL."""
        said = {"v": _VERSION, "rv": self.revision, "start": self.start, "state": self.state}
        return base64.urlsafe_b64encode(orjson.dumps(said)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, token: str) -> "Continuation":
        """Return what a text stands for.

        Raises:
            ValueError: Nothing; the text is Kubernetes'.
        """
        if "=" in token:
            raise ValueError(f"{_INVALID}: it is padded")
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            said: JSONValue = orjson.loads(text)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"{_INVALID}: {error}") from None
        match said:
            case {"v": version} if version != _VERSION:
                raise ValueError(
                    f"{_INVALID}: server does not recognize this encoded version {version}"
                )
            case {"v": _, "rv": bool()}:
                raise ValueError(f"{_INVALID}: rv is no number")
            case {"v": _, "rv": int(revision), "start": str(start), **rest} if revision:
                if not start:
                    raise ValueError(f"{_INVALID}: encoded start key empty (version {_VERSION})")
                if "/" in start or start in (".", ".."):
                    raise ValueError(f"{_INVALID}: {start}")
                return cls(revision, start, str(rest.get("state", "")))
            case _:
                raise ValueError(
                    f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})"
                )


def state_of(every: Iterable[Stored]) -> str:
    """Return a digest that is the same as long as no object is written or removed."""
    digest = hashlib.blake2b(digest_size=16)
    for stored in every:
        digest.update(f"{stored.name}\0{stored.revision}\0".encode())
    return digest.hexdigest()
