"""The store in etcd: outages, compaction, failover, TLS, authentication."""

import asyncio
import contextlib
import shutil
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from apidiscovery_etcd.auth_pb2 import Permission
from apidiscovery_etcd.rpc_pb2 import (
    AuthEnableRequest,
    AuthRoleAddRequest,
    AuthRoleGrantPermissionRequest,
    AuthUserAddRequest,
    AuthUserGrantRoleRequest,
    CompactionRequest,
)
from apidiscovery_etcd.rpc_pb2_grpc import AuthStub, KVStub
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.store import (
    Batch,
    Change,
    Compacted,
    Fenced,
    StoreRefused,
    StoreUnavailable,
)
from apidiscovery_service.store.etcd import EtcdStore
from apidiscovery_service.store.etcd_connection import EtcdConnection
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.following import follow
from apidiscovery_service.waiting import Wakeup
from broken_calls import BrokenCall
from certificates import Authority, KeyPair
from etcd import EtcdServer, etcd_members
from programs import free_port
from proxies import TcpProxy
from waiting import WITHIN_S

USUAL = EtcdOptions()
QUICK = EtcdOptions(connect_timeout_s=1.0, request_timeout_s=2.0)

Connect = Callable[..., EtcdStore]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Return a function that opens stores; they are closed after the test."""
    stores: list[EtcdStore] = []

    def make(*endpoints: str, options: EtcdOptions = USUAL, prefix: str | None = None) -> EtcdStore:
        store = EtcdStore(endpoints, prefix or uuid.uuid4().hex, options)
        stores.append(store)
        return store

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """Return an etcd that this test may kill."""
    with EtcdServer(tmp_path / "etcd") as server:
        yield server


async def compact(endpoint: str, revision: int) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        await KVStub(channel).Compact(CompactionRequest(revision=revision))


async def next_changes(batches: AsyncGenerator[Batch]) -> tuple[Change, ...]:
    async with asyncio.timeout(WITHIN_S):
        while not (changes := (await anext(batches)).changes):
            pass  # such a batch comes every two seconds
    return changes


async def until_available(call: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(StoreUnavailable):
                await call()
                return


def refused_endpoint() -> str:
    """Return an address without a listener."""
    return f"127.0.0.1:{free_port()}"


async def test_keys_are_below_the_prefix_and_others_are_not_seen(
    etcd: EtcdServer, connect: Connect
) -> None:
    name = uuid.uuid4().hex
    store = connect(etcd.endpoint, prefix=name)
    neighbour = connect(etcd.endpoint, prefix=f"{name}2")
    parent = connect(etcd.endpoint, prefix=f"{name}/sub")
    await store.put("sub/a", b"1")
    await neighbour.put("a", b"2")
    assert [entry.key for entry in (await store.list("")).entries] == ["sub/a"]
    assert [entry.key for entry in (await parent.list("")).entries] == ["a"]


async def test_a_watch_after_a_compacted_revision_must_list_again(
    etcd: EtcdServer, connect: Connect
) -> None:
    store = connect(etcd.endpoint)
    first = await store.put("a", b"1")
    await store.put("a", b"2")
    last = await store.put("a", b"3")
    await compact(etcd.endpoint, last.revision)
    async with contextlib.aclosing(store.watch("", first.revision)) as batches:
        with pytest.raises(Compacted):
            await next_changes(batches)
    listing = await store.list("")
    async with contextlib.aclosing(store.watch("", listing.revision)) as batches:
        entry = await store.put("a", b"4")
        assert await next_changes(batches) == (Change("a", entry),)


async def test_a_listing_survives_a_compaction_between_its_pages(
    etcd: EtcdServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.etcd._PAGE", 2)
    store = connect(etcd.endpoint)
    for number in range(6):
        await store.put(str(number), b"")

    async def disturb() -> None:
        for _ in range(10):
            entry = await store.put("0", b"")
            await compact(etcd.endpoint, entry.revision)

    disturbing = asyncio.create_task(disturb())
    while not disturbing.done():
        assert [entry.key for entry in (await store.list("")).entries] == list("012345")
    await disturbing


async def test_calls_and_watches_fail_in_time_while_etcd_is_away_and_calls_work_afterwards(
    own_etcd: EtcdServer, connect: Connect
) -> None:
    store = connect(own_etcd.endpoint, options=QUICK)
    kept = await store.put("kept", b"1")
    lease = await store.lease(60)
    watch = store.watch("", kept.revision - 1)
    assert await next_changes(watch) == (Change("kept", kept),)
    own_etcd.kill()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.get("kept"),
        lambda: store.list(""),
        lambda: store.put("a", b""),
        lambda: store.delete("kept"),
        lambda: store.lease(5),
        lambda: next_changes(watch),
        lease.keep_alive,
        lease.revoke,
    ]
    for call in calls:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match=own_etcd.endpoint):
            await call()
        assert time.monotonic() - begun < QUICK.request_timeout_s + 10.0
    own_etcd.start()
    await until_available(lambda: store.get("kept"))
    assert await store.get("kept") == kept
    assert await lease.keep_alive() is True


class View:
    """The entries that a follower knows, by key."""

    def __init__(self, store: EtcdStore, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix
        self._news = Wakeup()
        self.known: dict[str, bytes] = {}

    async def _load(self) -> int:
        listing = await self._store.list(self._prefix)
        self.known = {entry.key: entry.value for entry in listing.entries}
        self._news.ring()
        return listing.revision

    async def _take(self, batch: Batch) -> None:
        for change in batch.changes:
            self.known.pop(change.key, None)
            if change.entry:
                self.known[change.key] = change.entry.value
        self._news.ring()

    async def follow(self) -> None:
        await follow(self._store, self._prefix, self._load, self._take, pause_s=0.1)

    async def until(self, known: dict[str, bytes]) -> float:
        """Return how many seconds it took until this is known."""
        begun = time.monotonic()
        async with asyncio.timeout(WITHIN_S):
            await self._news.until(lambda: self.known == known)
        return time.monotonic() - begun


@contextlib.asynccontextmanager
async def following(store: EtcdStore) -> AsyncGenerator[View]:
    view = View(store)
    task = asyncio.create_task(view.follow())
    try:
        yield view
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def put_until_done(store: EtcdStore, key: str, value: bytes) -> None:
    await until_available(lambda: store.put(key, value))


async def test_writes_around_a_kill_of_etcd_are_followed(
    own_etcd: EtcdServer, connect: Connect
) -> None:
    store, writer = (connect(own_etcd.endpoint, prefix="same") for _ in range(2))
    async with following(store) as view:
        for round_ in range(2):
            await put_until_done(writer, "a", str(round_).encode())
            await view.until({"a": str(round_).encode()})
            own_etcd.kill()
            await asyncio.to_thread(own_etcd.start)


async def put_back(etcd: EtcdServer, folder: Path, backup: Path) -> None:
    etcd.kill()
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    await asyncio.to_thread(etcd.start)


@pytest.mark.parametrize("later", [0, 30], ids=["behind", "passed"])
async def test_a_follower_agrees_with_an_etcd_that_was_restored(
    own_etcd: EtcdServer, connect: Connect, tmp_path: Path, later: int
) -> None:
    """Also if its revision has passed the last one of the follower meanwhile."""
    folder, backup = tmp_path / "etcd" / "data", tmp_path / "backup"
    store, writer = (connect(own_etcd.endpoint, prefix="same") for _ in range(2))
    await store.put("kept", b"1")
    own_etcd.kill()
    shutil.copytree(folder, backup)
    own_etcd.start()
    await until_available(lambda: store.put("not-in-the-backup", b""))
    for _ in range(5):
        await store.put("kept", b"2")
    async with (
        TcpProxy(own_etcd.endpoint) as proxy,
        following(connect(proxy.address, prefix="same")) as view,
    ):
        await view.until({"kept": b"2", "not-in-the-backup": b""})
        proxy.cut()
        await put_back(own_etcd, folder, backup)
        # Other writes get the revisions that the follower knows.
        expected = {"kept": b"1"}
        for number in range(later):
            await put_until_done(writer, f"other-{number % 3}", str(number).encode())
            expected[f"other-{number % 3}"] = str(number).encode()
        proxy.mend()
        await view.until(expected)


async def test_a_follower_moves_with_its_calls_when_a_member_hangs(
    tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tested with each of three members, so with the leader too."""
    monkeypatch.setattr("apidiscovery_service.store.etcd.NEWS_EVERY_S", 0.4)
    monkeypatch.setattr("apidiscovery_service.store.etcd._SILENCE_S", 1.0)
    with etcd_members(tmp_path) as members:
        store = connect(*(member.endpoint for member in members), prefix="same")
        async with following(store) as view:
            expected: dict[str, bytes] = {}
            for number, member in enumerate(members):
                others = [other.endpoint for other in members if other is not member]
                writer = connect(*others, prefix="same", options=QUICK)
                # A busy machine may have a member elected anew.
                await put_until_done(store, f"before-{number}", b"")
                expected[f"before-{number}"] = b""
                await view.until(expected)
                member.pause()
                await put_until_done(writer, f"after-{number}", b"")
                expected[f"after-{number}"] = b""
                await view.until(expected)
                begun = time.monotonic()
                assert await store.get(f"after-{number}") is not None
                assert time.monotonic() - begun < 20
                member.resume()


async def test_a_lease_that_expires_while_etcd_is_unreachable_is_lost(
    own_etcd: EtcdServer, connect: Connect
) -> None:
    store = connect(own_etcd.endpoint, options=QUICK)
    lease = await store.lease(3)
    await store.put("leased", b"", lease=lease)
    own_etcd.pause()
    with pytest.raises(StoreUnavailable):
        await lease.keep_alive()
    await asyncio.sleep(lease.ttl_s)
    own_etcd.resume()
    await until_available(lease.keep_alive)
    assert await lease.keep_alive() is False
    assert await store.get("leased") is None
    with pytest.raises(Fenced):
        await store.put("leased", b"", lease=lease)


async def test_the_next_endpoint_takes_over(etcd: EtcdServer, connect: Connect) -> None:
    store = connect(refused_endpoint(), etcd.endpoint)
    entry = await store.put("a", b"1")
    assert await store.get("a") == entry


async def test_an_endpoint_that_hangs_is_left_in_time(
    own_etcd: EtcdServer, etcd: EtcdServer, connect: Connect
) -> None:
    patient = EtcdOptions(connect_timeout_s=60, request_timeout_s=2)
    store = connect(own_etcd.endpoint, etcd.endpoint, options=patient)
    await store.get("a")
    own_etcd.pause()
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match=rf"{own_etcd.endpoint}.* no answer within 2 s"):
        await store.get("a")
    assert time.monotonic() - begun < 30
    assert await store.get("a") is None
    own_etcd.resume()


async def test_a_store_may_be_opened_before_its_etcd_is_there(
    tmp_path: Path, connect: Connect
) -> None:
    server = EtcdServer(tmp_path / "etcd")
    store = connect(server.endpoint, options=QUICK)
    with pytest.raises(StoreUnavailable, match="cannot be connected to"):
        await store.get("a")
    with server:
        await until_available(lambda: store.put("a", b""))


class Pki:
    """The files of an etcd with TLS, and of its clients; `renew` exchanges all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ca, self.cert, self.key = (folder / name for name in ("ca", "cert", "key"))
        self.client_cert, self.client_key = folder / "client-cert", folder / "client-key"
        self.renew()

    @property
    def flags(self) -> list[str]:
        return [
            f"--cert-file={self.cert}",
            f"--key-file={self.key}",
            f"--trusted-ca-file={self.ca}",
            "--client-cert-auth",
        ]

    def options(self, *, with_client: bool = True) -> EtcdOptions:
        return EtcdOptions(
            ca_file=self.ca,
            cert_file=self.client_cert if with_client else None,
            key_file=self.client_key if with_client else None,
            connect_timeout_s=3.0,
        )

    def renew(self) -> None:
        authority = Authority(self._folder / uuid.uuid4().hex)
        shutil.copy(authority.ca_file, self.ca)
        self._copy(authority.server(["127.0.0.1"]), self.cert, self.key)
        self._copy(authority.client("apidiscovery", []), self.client_cert, self.client_key)

    def _copy(self, pair: KeyPair, cert: Path, key: Path) -> None:
        shutil.copy(pair.cert_file, cert)
        shutil.copy(pair.key_file, key)


async def test_tls_with_a_client_certificate_works_and_certificates_can_be_renewed(
    tmp_path: Path, connect: Connect
) -> None:
    pki = Pki(tmp_path)
    with EtcdServer(tmp_path / "etcd", pki.flags, scheme="https") as server:
        store = connect(server.endpoint, options=pki.options())
        entry = await store.put("a", b"1")
        stranger = Authority(tmp_path / "stranger")
        for options in (
            pki.options(with_client=False),
            EtcdOptions(ca_file=stranger.ca_file, connect_timeout_s=0.3),
            QUICK,
        ):
            with pytest.raises(StoreUnavailable):
                await connect(server.endpoint, options=options).get("a")
        server.kill()
        pki.renew()
        server.start()
        await until_available(lambda: store.get("a"))
        assert await store.get("a") == entry


async def switch_authentication_on(endpoint: str, password: str) -> None:
    """Create root and a user of the prefix `mine`, and enable authentication."""
    mine = Permission(permType=Permission.READWRITE, key=b"mine/", range_end=b"mine0")
    async with grpc.aio.insecure_channel(endpoint) as channel:
        auth = AuthStub(channel)
        await auth.UserAdd(AuthUserAddRequest(name="root", password="root"))  # noqa: S106 - of this test
        await auth.RoleAdd(AuthRoleAddRequest(name="root"))
        await auth.UserGrantRole(AuthUserGrantRoleRequest(user="root", role="root"))
        await auth.UserAdd(AuthUserAddRequest(name="server", password=password))
        await auth.RoleAdd(AuthRoleAddRequest(name="servers"))
        await auth.RoleGrantPermission(AuthRoleGrantPermissionRequest(name="servers", perm=mine))
        await auth.UserGrantRole(AuthUserGrantRoleRequest(user="server", role="servers"))
        await auth.AuthEnable(AuthEnableRequest())


async def test_users_with_passwords_have_their_prefix_alone(
    own_etcd: EtcdServer, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n", encoding="utf-8")
    options = EtcdOptions(user="server", password_file=file)
    store = connect(own_etcd.endpoint, options=options, prefix="mine")
    await store.put("before", b"authentication is enabled")
    await switch_authentication_on(own_etcd.endpoint, "s3cret")

    # Its token is renewed by itself, also when etcd has forgotten it.
    await store.put("a", b"1", lease=await store.lease(60))
    before = b"authentication is enabled"
    async with following(store) as view:
        await view.until({"a": b"1", "before": before})
        own_etcd.kill()
        await asyncio.to_thread(own_etcd.start)
        await put_until_done(store, "a", b"2")
        await view.until({"a": b"2", "before": before})

    elsewhere = connect(own_etcd.endpoint, options=options, prefix="others")
    with pytest.raises(StoreRefused, match="permission denied"):
        await elsewhere.put("a", b"")
    async with contextlib.aclosing(elsewhere.watch("", 1)) as batches:
        with pytest.raises(StoreRefused, match="permission denied"):
            await next_changes(batches)
    with pytest.raises(StoreRefused, match="user name is empty"):
        await connect(own_etcd.endpoint, prefix="mine").get("a")
    file.write_text("wr0ng", encoding="utf-8")
    with pytest.raises(StoreRefused, match="authentication failed") as caught:
        await connect(own_etcd.endpoint, options=options, prefix="mine").get("a")
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"cert_file": "a"}, "a client certificate needs its key", id="no key"),
        pytest.param({"user": "me"}, "a user needs a password file", id="no password"),
        pytest.param({"ca_file": "absent"}, "absent: cannot be read: No such file", id="absent"),
        pytest.param({"ca_file": "text"}, "text: not a usable certificate", id="not PEM"),
    ],
)
def test_wrong_options_are_refused(
    fields: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("no certificate", encoding="utf-8")
    values: dict[str, Any] = {
        name: value if name == "user" else Path(value) for name, value in fields.items()
    }
    with pytest.raises(InvalidConfiguration, match=message):
        EtcdOptions(**values).check()


def test_checking_options_does_not_read_the_system_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        pytest.fail("it takes long")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", read)
    EtcdOptions().check()


async def test_a_cancellation_ends_a_call_whose_connection_breaks_at_that_moment(
    etcd: EtcdServer,
) -> None:
    connection = EtcdConnection([etcd.endpoint], USUAL)
    call = BrokenCall()
    calling = asyncio.create_task(connection.call(call, again=True))
    await call.begun.wait()
    calling.cancel()
    await asyncio.wait([calling], timeout=WITHIN_S)
    assert calling.cancelled()
    await connection.close()
