"""Faults of the store under real servers: members that hang, disks that are full."""

import time
from pathlib import Path

import grpc
from etcd import EtcdServer, etcd_members
from metrics_text import total
from published import groups, publish_to
from server import Serve, Server, eventually

NONE = ("--catalog", "none")

# Within this a replica is fresh again, whatever member of etcd hangs.
FRESH_S = 10.0


def url(*members: EtcdServer) -> str:
    return f"etcd://{','.join(member.endpoint for member in members)}/test"


def is_acknowledged(server: Server, name: str) -> bool:
    try:
        publish_to(server, name)
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
        publish_to(deaf, "before")
        first.pause()
        hung = time.monotonic()
        # Where the one that hangs led, another is elected first.
        eventually(lambda: is_acknowledged(well, "after"), FRESH_S, "it is written")
        assert not is_acknowledged(deaf, "own") or "own" in groups(deaf)
        eventually(lambda: "after" in groups(deaf), FRESH_S, "it is fresh")
        assert time.monotonic() - hung < FRESH_S
        assert total(deaf.http_port, "apidiscovery_store_news_age_seconds") < FRESH_S
        assert total(deaf.http_port, "apidiscovery_store_failures_total", operation="following")
        first.resume()
