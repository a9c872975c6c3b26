"""Applications whose requests and answers are changed on the way."""

import gzip
import json
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from apidiscovery_service.serving.http.messages import Application, Receive, Scope, Send

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request. Names of header fields are in lower case, as are those of answers."""

    method: str
    path: str
    query: str
    headers: Headers

    def value(self, name: str) -> str:
        return next((value for other, value in self.headers if other == name), "")

    @property
    def accept(self) -> str:
        return self.value("accept")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def value(self, name: str) -> str:
        return next((value for other, value in self.headers if other == name), "")

    def having(self, name: str, value: str | None) -> "Answered":
        """Return the answer with another value of a field, None for no such field."""
        kept = tuple(pair for pair in self.headers if pair[0] != name)
        return replace(self, headers=kept if value is None else (*kept, (name, value)))

    def saying(self, body: bytes) -> "Answered":
        """Return the answer with another body."""
        return replace(self.having("content-length", str(len(body))), body=body)

    def edited(self, edit: Callable[[Any], object]) -> "Answered":
        """Return the answer with its JSON changed by a function, not compressed."""
        is_gzip = self.value("content-encoding") == "gzip"
        value = cast("object", json.loads(gzip.decompress(self.body) if is_gzip else self.body))
        edit(value)
        return self.having("content-encoding", None).saying(json.dumps(value).encode())


Tamper: TypeAlias = Callable[[Seen, Answered], Answered]
# Returns the request that the application gets instead.
Disguise: TypeAlias = Callable[[Seen], Seen]


def untouched(_: Seen, answer: Answered) -> Answered:
    return answer


def undisguised(seen: Seen) -> Seen:
    return seen


@dataclass
class Tampered:
    """An application whose answers are changed.

    Attributes:
        requests: The requests in order, before they are changed.
    """

    app: Application
    tamper: Tamper = untouched
    disguise: Disguise = undisguised
    requests: list[Seen] = field(default_factory=list[Seen])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen = Seen(
            scope["method"], scope["path"], scope["query_string"].decode(), _text(scope["headers"])
        )
        self.requests.append(seen)
        asked = self.disguise(seen)
        inner = {**scope, "query_string": asked.query.encode(), "headers": _raw(asked.headers)}
        inner |= {"path": asked.path, "raw_path": asked.path.encode(), "method": asked.method}
        answer = self.tamper(seen, await _answer(self.app, inner, receive))
        headers = _raw(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


async def _answer(app: Application, scope: Scope, receive: Receive) -> Answered:
    sent: list[MutableMapping[str, Any]] = []

    async def keep(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    start, *bodies = sent
    body = b"".join(bytes(message.get("body", b"")) for message in bodies)
    return Answered(start["status"], _text(start["headers"]), body)


def _text(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode().lower(), value.decode("latin-1")) for name, value in headers)


def _raw(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]
