"""Faults of the store under real servers: members that hang, disks that are full."""

import asyncio
import signal
import time
from pathlib import Path
from typing import cast

import grpc
from apidiscovery_service.store.sqlite import SqliteStore
from etcd import EtcdServer, etcd_members
from metrics_text import total
from openapi_process import groups, publish
from programs import beginning, free_port
from raw_http import get
from server import START_S, STOP_S, Serve, Server
from small_disk import small_disk
from waiting import eventually

NONE = ("--catalog", "none")

# Within this a replica is fresh again, whatever member of etcd hangs.
FRESH_S = 10.0


def url(*members: EtcdServer) -> str:
    return f"etcd://{','.join(member.endpoint for member in members)}/test"


def is_acknowledged(server: Server, name: str) -> bool:
    try:
        publish(server, f"{name}.example.com")
    except grpc.RpcError:
        return False
    return True


def test_a_replica_whose_member_of_etcd_hangs_is_fresh_within_ten_seconds(
    serve: Serve, tmp_path: Path
) -> None:
    """And nothing is acknowledged meanwhile that it does not serve."""
    with etcd_members(tmp_path / "etcd") as (first, *others):
        deaf = serve(*NONE, "--store", url(first, *others))
        well = serve(*NONE, "--store", url(*others))
        # Members that were not heard for half a second elect another leader, also now.
        eventually(lambda: is_acknowledged(deaf, "before"), "there is a leader", FRESH_S)
        first.pause()
        hung = time.monotonic()
        # Where the one that hangs led, another is elected first.
        eventually(lambda: is_acknowledged(well, "after"), "it is written", FRESH_S)
        assert not is_acknowledged(deaf, "own") or "own" in groups(deaf)
        eventually(lambda: "after" in groups(deaf), "it is fresh", FRESH_S)
        assert time.monotonic() - hung < FRESH_S
        assert total(deaf.http_port, "apidiscovery_store_news_age_seconds") < FRESH_S
        assert total(deaf.http_port, "apidiscovery_store_failures_total", operation="following")
        first.resume()


def is_refused_for_space(server: Server, name: str) -> str:
    """Publish; return what the caller is told when there is no space, empty when there is."""
    try:
        publish(server, f"{name}.example.com")
    except grpc.RpcError as error:
        return cast("grpc.Call", error).details() or ""
    return ""


def test_on_a_full_disk_a_server_serves_starts_and_says_why_it_takes_no_writes(
    serve: Serve, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = f"sqlite:{disk.folder / 'store.sqlite'}"
        server = serve(*NONE, "--store", store)
        publish(server, "kept.example.com")
        disk.fill()
        names = (f"more-{number}" for number in range(1000))
        told = eventually(lambda: is_refused_for_space(server, next(names)), "it is full")
        assert told.startswith("no space left on device: the store of the server takes no writes")
        assert "kept" in groups(server)
        failing = {"operation": "writing", "reason": "full"}
        assert total(server.http_port, "apidiscovery_store_failing", **failing) == 1
        ready = get(server.http_port, "/readyz?verbose")
        assert ready.status == 200
        text = ready.body.decode()
        assert f"no space left on device: {disk.folder}" in text
        server.stop()

        disk.fill()  # what lay beside the file is gone
        again = serve(*NONE, "--store", store)
        assert "kept" in groups(again)
        assert is_refused_for_space(again, "later") == told
        disk.free()
        eventually(lambda: is_acknowledged(again, "later"), "there is room")
        assert total(again.http_port, "apidiscovery_store_failing", **failing) == 0
        again.stop()


async def put(path: Path, key: str, value: bytes) -> None:
    store = await SqliteStore.open(path)
    await store.put(key, value)
    await store.close()


async def remove(path: Path, key: str) -> None:
    store = await SqliteStore.open(path)
    await store.delete(key)
    await store.close()


def test_a_registration_that_cannot_be_read_holds_readiness(tmp_path: Path) -> None:
    path, key = tmp_path / "store.sqlite", "registrations/groups/east"
    asyncio.run(put(path, key, b'{"format":1,"content":[{"meta'))
    http = free_port()
    flags = ("--http", f"127.0.0.1:{http}", "--grpc", "127.0.0.1:0", *NONE)
    with beginning(tmp_path, *flags, "--store", f"sqlite:{path}") as (process, log):
        eventually(lambda: key in log.read_text(), "the log names the key", START_S)
        assert get(http, "/apis").status == 503
        ready = get(http, "/readyz?verbose")
        assert ready.status == 500
        assert "[-]store failed" in ready.body.decode()
        assert f"warn: store: {key}: no JSON" in ready.body.decode()
        asyncio.run(remove(path, key))
        eventually(lambda: get(http, "/readyz").status == 200, "it is ready", START_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
