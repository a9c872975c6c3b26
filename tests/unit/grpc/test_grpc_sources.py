"""ListSources, and provenance beside a document."""

from dataclasses import replace
from datetime import UTC, datetime

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2
from apidiscovery_service.core.model import Contribution, Offer, Precedence, Version
from apidiscovery_service.core.source import SourceState, SourceStatus
from grpc_contributions import APPS, CORE
from grpc_errors import refusal
from grpc_server import serving

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

CRDS = Contribution(
    "tail of apps",
    Precedence.CRD,
    (Offer("apps", Version("v1"), 1, 1), Offer("apps", Version("v1alpha1"), 1, 1)),
)
UPSTREAM = SourceStatus(
    "upstream:east", SourceState.STALE, SINCE, "connection refused", "https://east.example"
)


async def test_every_source_is_listed_with_its_offers_and_shadows() -> None:
    async with serving(CORE, APPS, CRDS) as served, served.stub() as stub:
        answer = await stub.ListSources(discovery_pb2.ListSourcesRequest())
    assert [source.name for source in answer.sources] == sorted(
        [CORE.source, APPS.source, CRDS.source]
    )
    crds = next(source for source in answer.sources if source.name == CRDS.source)
    assert crds.state == discovery_pb2.SOURCE_STATE_CURRENT
    assert not crds.HasField("since")
    assert [(gv.version, gv.freshness, gv.shadowed_by) for gv in crds.group_versions] == [
        ("v1", "Current", APPS.source),
        ("v1alpha1", "Current", ""),
    ]


async def test_a_source_without_offers_is_listed() -> None:
    async with serving(CORE) as served, served.stub() as stub:
        served.statuses = (UPSTREAM,)
        answer = await stub.ListSources(discovery_pb2.ListSourcesRequest())
    told = answer.sources[-1]
    assert (told.name, told.error, told.address) == (
        "upstream:east",
        "connection refused",
        "https://east.example",
    )
    assert told.state == discovery_pb2.SOURCE_STATE_STALE
    assert told.since.ToDatetime(UTC) == SINCE
    assert not told.group_versions


async def test_sources_are_not_listed_before_they_have_been_read() -> None:
    async with serving(CORE, ready=False) as served, served.stub() as stub:
        error = await refusal(stub.ListSources(discovery_pb2.ListSourcesRequest()))
    assert error.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("form", ["document", "delta", "not-modified"])
async def test_provenance_follows_any_answer_and_only_when_asked_for(form: str) -> None:
    async with serving(CORE, APPS, CRDS) as served, served.stub() as stub:
        plain = await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest())
        request = discovery_pb2.GetDiscoveryRequest(with_provenance=True)
        if form == "delta":
            request.known_groups.SetInParent()
        if form == "not-modified":
            request.if_none_match = plain.etag
        answer = await stub.GetDiscovery(request)
    assert not plain.provenance
    assert answer.etag == plain.etag
    assert [(told.group, told.version, told.source) for told in answer.provenance] == [
        ("", "v1", CORE.source),
        ("apps", "v1", APPS.source),
        ("apps", "v1alpha1", CRDS.source),
    ]


async def test_provenance_moves_to_the_next_source_though_the_document_stays() -> None:
    twin = replace(APPS, source="zz-twin")
    async with serving(APPS, twin) as served, served.stub() as stub:
        request = discovery_pb2.GetDiscoveryRequest(with_provenance=True)
        before = await stub.GetDiscovery(request)
        served.registry.withdraw(APPS.source)
        after = await stub.GetDiscovery(request)
    assert after.etag == before.etag
    assert {told.source for told in before.provenance} == {APPS.source}
    assert {told.source for told in after.provenance} == {"zz-twin"}
