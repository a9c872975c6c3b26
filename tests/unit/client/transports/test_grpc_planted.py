"""Groups that do not match their hashes do not survive the next answer over gRPC."""

from dataclasses import replace
from pathlib import Path

from apidiscovery.service.v1 import discovery_pb2 as pb
from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.cache import DiskCache, key
from apidiscovery_client.cache.proofs import scope_etag
from apidiscovery_client.model import Group, Stale, groups_by_path
from grpc_transports import opened
from scripted_discovery import changed, group, scripted, whole
from server import Server

PODS, APPS = group("", "pods"), group("apps", "deployments")


def etag_of_all(groups: tuple[Group, ...]) -> str:
    by_path = groups_by_path(groups)
    return scope_etag(
        {path: Document("", write_aggregated(part)) for path, part in by_path.items()}
    )


def planted(held: FetchedSnapshot) -> FetchedSnapshot:
    """Return a snapshot without the resources of one group, under the hashes of the server."""
    groups = tuple(
        replace(found, versions=tuple(replace(v, resources=()) for v in found.versions))
        if found.name == "apps"
        else found
        for found in held.snapshot.groups
    )
    assert groups != held.snapshot.groups
    snapshot = replace(held.snapshot, groups=groups)
    return replace(held, snapshot=snapshot, etags={"": etag_of_all(groups)})


async def test_other_content_in_a_file_is_not_kept_by_a_fetch(
    family: str, server: Server, tmp_path: Path
) -> None:
    async with opened(family, server.grpc) as client:
        genuine = await client.fetch()
        assert genuine.etags[""] == etag_of_all(genuine.snapshot.groups)
        DiskCache(tmp_path).put(key("a"), planted(genuine))
        read = DiskCache(tmp_path).get(key("a"))
        assert read is not None
        assert read.hashes
        found = await client.fetch(read)
    assert found.snapshot.groups == genuine.snapshot.groups
    assert (found.etags, found.hashes) == (genuine.etags, genuine.hashes)


async def test_other_content_is_not_kept_by_a_watch(family: str, server: Server) -> None:
    async with opened(family, server.grpc) as client:
        genuine = await client.fetch()
        async with client.listening(planted(genuine)) as listener:
            first = await listener.next()
    assert first.snapshot.groups == genuine.snapshot.groups
    assert first.etags == genuine.etags


async def test_a_delta_to_genuine_groups_needs_no_further_request(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS))
        first = await client.fetch()
        first = replace(first, etags={"": etag_of_all(first.snapshot.groups)})
        script.gets.append(whole(PODS, APPS))
        etag = etag_of_all((await client.fetch()).snapshot.groups)
        told = pb.DiscoveryDelta(changed=[changed(APPS, 0)])
        hashes = [pb.GroupHash(name="", hash="1"), pb.GroupHash(name="apps", hash="2")]
        script.gets.append(pb.GetDiscoveryResponse(etag=etag, group_hashes=hashes, delta=told))
        found = await client.fetch(first)
        assert len(script.requests("GetDiscovery")) == 3
    assert [item.name for item in found.snapshot.groups] == ["", "apps"]


async def test_etags_by_another_rule_are_not_checked(family: str) -> None:
    """An ETag that did not follow from the groups before need not afterwards."""
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, etag="A" * 128))
        first = await client.fetch()
        told = pb.DiscoveryDelta(changed=[changed(APPS, 0)])
        hashes = [pb.GroupHash(name="", hash="1"), pb.GroupHash(name="apps", hash="2")]
        script.gets.append(pb.GetDiscoveryResponse(etag="B" * 128, group_hashes=hashes, delta=told))
        found = await client.fetch(first)
        assert len(script.requests("GetDiscovery")) == 2
    assert found.etags == {"": "B" * 128}


async def test_a_planted_freshness_does_not_survive_an_answer(family: str, server: Server) -> None:
    """A file may claim it of any version beside a genuine document."""
    async with opened(family, server.grpc) as client:
        genuine = await client.fetch()
        stale = Stale(genuine.snapshot.checked_at, "so it is said")
        groups = tuple(
            replace(found, versions=tuple(replace(v, freshness=stale) for v in found.versions))
            for found in genuine.snapshot.groups
        )
        noted = replace(genuine, snapshot=replace(genuine.snapshot, groups=groups))
        assert (await client.fetch(noted)).snapshot.groups == genuine.snapshot.groups
        async with client.listening(noted) as listener:
            assert (await listener.next()).snapshot.groups == genuine.snapshot.groups
