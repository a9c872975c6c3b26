"""Only readers read objects, and only publishers of their group write them."""

import asyncio
import contextlib
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from apidiscovery_service.access import Grant, Role
from apidiscovery_service.access.authenticator import Access, Peer
from apidiscovery_service.access.credentials import Tokens, parse_tokens
from apidiscovery_service.access.limits import CallerLimits
from object_server import (
    JSON,
    NAMESPACED_LEASES,
    PATH,
    ObjectServer,
    object_server,
    storage_version,
)
from raw_http import RawResponse, parse

GROUP = "internal.apiserver.k8s.io"
READER = Grant(Role.READER, users=frozenset({"rita"}))
PUBLISHER = Grant(Role.PUBLISHER, users=frozenset({"paul"}), api_groups=("internal.*",))
OTHER = Grant(Role.PUBLISHER, users=frozenset({"otto"}), api_groups=("*.example.com",))
ADMIN = Grant(Role.ADMIN, users=frozenset({"ada"}))
GRANTS = (READER, PUBLISHER, OTHER, ADMIN)
USERS = ("rita", "paul", "otto", "ada", "nemo")


def tokens(*users: str) -> Tokens:
    lines = "".join(f"token-of-{user},{user},{user}\n" for user in users)
    return parse_tokens(lines.encode(), "tokens.csv")


@pytest.fixture
def access() -> Access:
    return Access(GRANTS, tokens(*USERS), limits=CallerLimits(watches=1))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose paths are short enough for Unix sockets."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
async def guarded(access: Access, folder: Path) -> AsyncIterator[ObjectServer]:
    async with object_server(access, path=folder / "http") as server:
        yield server


@contextlib.contextmanager
def connected(served: ObjectServer, access: Access) -> Generator[socket.socket]:
    """Connect as the front does."""
    assert served.path
    name = access.peers.add(Peer("192.0.2.1"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.bind(str(served.path.with_name(name)))
        connection.connect(str(served.path))
        try:
            yield connection
        finally:
            access.peers.remove(name)


def head(method: str, target: str, user: str, *more: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: a", *more]
    if user:
        lines.append(f"Authorization: Bearer token-of-{user}")
    return "\r\n".join([*lines, "", ""]).encode()


async def ask(
    served: ObjectServer, access: Access, user: str, said: str, body: bytes = b""
) -> RawResponse:
    """Send a request of a user; `said` is its method and target."""
    method, target = said.split(" ")

    def exchange() -> RawResponse:
        with connected(served, access) as connection:
            fields = ("Connection: close", f"Content-Length: {len(body)}")
            connection.sendall(head(method, target, user, *fields) + body)
            received = b""
            while some := connection.recv(1 << 16):
                received += some
        return parse(received)

    return await asyncio.to_thread(exchange)


def message(response: RawResponse) -> str:
    return str(response.json()["message"])


async def test_readers_read_and_publishers_of_the_group_write(
    guarded: ObjectServer, access: Access
) -> None:
    for number, (user, read, written) in enumerate(
        (
            ("", 401, 401),
            ("nemo", 403, 403),
            ("rita", 200, 403),
            ("otto", 200, 403),
            ("paul", 200, 201),
            ("ada", 200, 201),
        )
    ):
        body = json.dumps(storage_version(f"core.r{number}")).encode()
        answer = await ask(guarded, access, user, f"GET {PATH}")
        answered = await ask(guarded, access, user, f"POST {PATH}", body)
        assert (user, answer.status, answered.status) == (user, read, written)


async def test_refusals_have_the_text_of_kube_apiserver(
    guarded: ObjectServer, access: Access
) -> None:
    def told(user: str, verb: str, resource: str, name: str = "") -> str:
        return (
            f'storageversions.{GROUP}{name} is forbidden: User "{user}" cannot {verb} resource '
            f'"{resource}" in API group "{GROUP}" at the cluster scope'
        )

    of_a_lease = (
        'leases.coordination.k8s.io "a" is forbidden: User "nemo" cannot get resource "leases" '
        'in API group "coordination.k8s.io" in the namespace "kube-system"'
    )
    status = told("rita", "patch", "storageversions/status", ' "core.pods"')
    for user, said, wanted in (
        ("rita", f"POST {PATH}", told("rita", "create", "storageversions")),
        ("rita", f"PATCH {PATH}/core.pods/status", status),
        ("nemo", f"GET {PATH}?watch=1", told("nemo", "watch", "storageversions")),
        ("nemo", f"GET {NAMESPACED_LEASES}/a", of_a_lease),
    ):
        answer = await ask(guarded, access, user, said)
        assert (answer.status, message(answer)) == (403, wanted)
        assert answer.values("x-content-type-options") == ["nosniff"]
        assert answer.json()["reason"] == "Forbidden"


async def test_no_body_is_read_from_callers_that_may_not_write(
    guarded: ObjectServer, access: Access
) -> None:
    """The answer comes although the body is never sent."""

    def exchange() -> bytes:
        with connected(guarded, access) as connection:
            connection.sendall(head("POST", PATH, "rita", "Content-Length: 1000000"))
            return connection.recv(1 << 16)

    assert (await asyncio.to_thread(exchange)).startswith(b"HTTP/1.1 403 ")


class Watching:
    """A watch of one user, over the front's connection."""

    def __init__(self, connection: socket.socket, user: str) -> None:
        connection.sendall(head("GET", f"{PATH}?watch=1", user))
        self._file = connection.makefile("rb")

    async def line(self) -> bytes:
        return await asyncio.to_thread(self._file.readline)

    async def head(self) -> bytes:
        first = await self.line()
        while (await self.line()).strip():
            continue
        return first

    async def event(self) -> dict[str, Any]:
        await self.line()
        event = cast("dict[str, Any]", json.loads(await self.line()))
        await self.line()
        return event


@pytest.mark.parametrize("change", ["revoked", "taken"])
async def test_a_watch_ends_with_the_right_to_it(
    guarded: ObjectServer, access: Access, change: str
) -> None:
    """It ends when the token is revoked, or becomes that of a user who is no reader."""
    with connected(guarded, access) as connection:
        watch = Watching(connection, "rita")
        assert (await watch.head()).startswith(b"HTTP/1.1 200 ")
        await guarded.create_behind("core.pods")
        assert (await watch.event())["type"] == "ADDED"
        access.use_tokens(tokens("paul", "rita"))  # another file that still has her
        await guarded.create_behind("core.nodes")
        assert (await watch.event())["type"] == "ADDED"
        if change == "revoked":
            access.use_tokens(tokens("paul"))
        else:
            nobody = b"token-of-rita,nemo,nemo\n"
            access.use_tokens(parse_tokens(nobody, "tokens.csv"))
        assert await watch.line() == b"0\r\n"


async def test_the_watches_of_a_caller_are_limited(guarded: ObjectServer, access: Access) -> None:
    """Another one is allowed when one has ended."""
    with connected(guarded, access) as connection:
        assert (await Watching(connection, "rita").head()).startswith(b"HTTP/1.1 200 ")
        second = await ask(guarded, access, "rita", f"GET {PATH}?watch=1")
        assert second.status == 429
        assert second.values("retry-after") == ["5"]
        other = await ask(guarded, access, "ada", f"GET {PATH}?watch=1&timeoutSeconds=1")
        assert other.status == 200
    again = second
    for _ in range(100):  # until the server has noticed
        again = await ask(guarded, access, "rita", f"GET {PATH}?watch=1&timeoutSeconds=1")
        if again.status == 200:
            break
        await asyncio.sleep(0.02)
    assert again.status == 200
    assert again.content_type == [JSON]
