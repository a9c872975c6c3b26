"""GetDiscovery: documents, ETags, hashes, versions and errors, as grpcio's stub sees them."""

import hashlib
from collections.abc import AsyncGenerator
from functools import cache
from typing import NamedTuple, cast

import grpc
import grpc.aio
import pytest
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.service.v1 import discovery_pb2
from apidiscovery.v2 import discovery_pb2 as v2_pb2
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1_pb2
from apidiscovery_service.core.model import Contribution, Precedence
from apidiscovery_service.sources.manifests.file import read_manifest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)
from grpc_contributions import APPS, CORE, EXAMPLES
from grpc_errors import details_of, refusal, status_of, violations_of
from grpc_holding import Holding, document_of
from grpc_server import (
    Served,
    next_bytes,
    next_message,
    raw_get,
    raw_watch,
    serving,
)
from repository import GOLDEN
from waiting import WITHIN_S

RECORDED = GOLDEN / "builtin"
V2 = discovery_pb2.DISCOVERY_VERSION_V2
V2BETA1 = discovery_pb2.DISCOVERY_VERSION_V2BETA1
UNSPECIFIED = discovery_pb2.DISCOVERY_VERSION_UNSPECIFIED
UNKNOWN = cast("discovery_pb2.DiscoveryVersion.ValueType", 99)
UNKNOWN_SCOPE = cast("discovery_pb2.DiscoveryScope.ValueType", 99)


class Parts(NamedTuple):
    """What a scope covers."""

    core: bool
    named: bool


SCOPES = {
    discovery_pb2.DISCOVERY_SCOPE_UNSPECIFIED: Parts(core=True, named=True),
    discovery_pb2.DISCOVERY_SCOPE_CORE: Parts(core=True, named=False),
    discovery_pb2.DISCOVERY_SCOPE_GROUPS: Parts(core=False, named=True),
    discovery_pb2.DISCOVERY_SCOPE_ALL: Parts(core=True, named=True),
}
each_scope = pytest.mark.parametrize(
    "scope", SCOPES, ids=map(discovery_pb2.DiscoveryScope.Name, SCOPES)
)
each_version = pytest.mark.parametrize("name", ["v2", "v2beta1"])


@cache
def recorded() -> Contribution:
    """Return the groups of the golden answers."""
    offers = [
        offer
        for name in ("api", "apis")
        for offer in read_manifest(RECORDED / f"{name}.v2.json").offers
    ]
    return Contribution("builtin", Precedence.BUILTIN, tuple(offers))


@pytest.fixture(name="builtin")
async def fixture_builtin() -> AsyncGenerator[Served]:
    async with serving(recorded()) as served:
        yield served


def golden_message(document: str, version: str) -> bytes:
    """Return the message of a golden answer, without its envelope."""
    body = (RECORDED / f"{document}.{version}.pb").read_bytes()
    return runtime_pb2.Unknown.FromString(body.removeprefix(b"k8s\0")).raw


def golden_etag(document: str) -> str:
    return (RECORDED / f"{document}.etag").read_text(encoding="utf-8").strip().strip('"')


def expected_etag(scope: discovery_pb2.DiscoveryScope.ValueType) -> str:
    core, named = golden_etag("api"), golden_etag("apis")
    both = hashlib.sha512(f"{core}\n{named}\n".encode()).hexdigest().upper()
    return {Parts(True, False): core, Parts(False, True): named}.get(SCOPES[scope], both)  # noqa: FBT003


def offered_versions(error: grpc.aio.AioRpcError) -> list[str]:
    """Return the versions that a PreconditionFailure names."""
    (details,) = details_of(error)
    assert isinstance(details, error_details_pb2.PreconditionFailure)
    assert all(v.subject == "accept_versions" for v in details.violations)
    return [violation.description.split()[0] for violation in details.violations]


async def get(
    served: Served, request: discovery_pb2.GetDiscoveryRequest
) -> discovery_pb2.GetDiscoveryResponse:
    async with served.stub() as stub:
        return await stub.GetDiscovery(request, timeout=WITHIN_S)


async def failure_of(
    served: Served, request: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest
) -> grpc.aio.AioRpcError:
    """Return the error that a call ends with."""
    async with served.stub() as stub:
        if isinstance(request, discovery_pb2.GetDiscoveryRequest):
            return await refusal(stub.GetDiscovery(request))
        return await refusal(next_message(stub.WatchDiscovery(request)))


async def result_of(served: Served, request: discovery_pb2.GetDiscoveryRequest) -> str | None:
    return (await get(served, request)).WhichOneof("result")


@pytest.mark.parametrize("form", ["{}", '"{}"'], ids=["unquoted", "quoted"])
async def test_etag_is_current_until_a_change_and_again_when_that_is_undone(form: str) -> None:
    async with serving(CORE, APPS) as served:
        first = await get(served, discovery_pb2.GetDiscoveryRequest())
        again = discovery_pb2.GetDiscoveryRequest(if_none_match=form.format(first.etag))
        assert await result_of(served, again) == "not_modified"
        served.registry.publish(EXAMPLES[0])
        assert await result_of(served, again) == "v2"
        served.registry.withdraw(EXAMPLES[0].source)
        assert await result_of(served, again) == "not_modified"


async def test_current_etag_wins_over_known_groups() -> None:
    async with serving(CORE, APPS) as served:
        request = discovery_pb2.GetDiscoveryRequest(known_groups=discovery_pb2.KnownGroups())
        request.if_none_match = (await get(served, request)).etag
        assert await result_of(served, request) == "not_modified"


async def test_etag_of_another_scope_is_not_current() -> None:
    request = discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
    async with serving(CORE, APPS) as served:
        request.if_none_match = (await get(served, request)).etag
        for scope in (discovery_pb2.DISCOVERY_SCOPE_CORE, discovery_pb2.DISCOVERY_SCOPE_ALL):
            request.scope = scope
            assert await result_of(served, request) == "v2"


async def test_hashes_stand_in_document_order_and_tell_groups_apart(builtin: Served) -> None:
    response = await get(builtin, discovery_pb2.GetDiscoveryRequest())
    document = document_of(response)
    names = [item.metadata.name for item in (*document.core.items, *document.groups.items)]
    assert [told.name for told in response.group_hashes] == names
    hashes = [told.hash for told in response.group_hashes]
    assert all(hashes)
    assert len(set(hashes)) == len(hashes)


async def test_an_empty_server_serves_empty_documents() -> None:
    async with serving() as served:
        response = await get(served, discovery_pb2.GetDiscoveryRequest())
    assert not response.group_hashes
    assert response.v2.HasField("core")
    assert response.v2.HasField("groups")
    assert not response.v2.core.items
    assert not response.v2.groups.items
    assert Holding().etag(discovery_pb2.DISCOVERY_SCOPE_ALL) == response.etag


@pytest.mark.parametrize(
    ("accepted", "result"),
    [
        pytest.param([], "v2", id="none-is-v2"),
        pytest.param([V2], "v2", id="v2"),
        pytest.param([V2BETA1], "v2beta1", id="v2beta1"),
        pytest.param([V2, V2BETA1], "v2", id="v2-first"),
        pytest.param([V2BETA1, V2], "v2beta1", id="v2beta1-first"),
        pytest.param([UNKNOWN, V2BETA1, V2], "v2beta1", id="unknown-passed-over"),
        pytest.param([V2, V2], "v2", id="twice"),
    ],
)
async def test_first_accepted_version_that_is_served_is_sent(
    accepted: list[discovery_pb2.DiscoveryVersion.ValueType], result: str
) -> None:
    async with serving(CORE, APPS) as served:
        request = discovery_pb2.GetDiscoveryRequest(accept_versions=accepted)
        assert await result_of(served, request) == result
        request.known_groups.SetInParent()
        delta = (await get(served, request)).delta
        assert {changed.WhichOneof("group") for changed in delta.changed} == {result}


async def test_a_version_that_is_switched_off_is_passed_over() -> None:
    async with serving(CORE, gates="AggregatedDiscoveryRemoveBetaType=true") as served:
        request = discovery_pb2.GetDiscoveryRequest(accept_versions=[V2BETA1, V2])
        assert await result_of(served, request) == "v2"


@pytest.mark.parametrize(
    ("gates", "accepted", "offered"),
    [
        pytest.param("", [UNKNOWN], ["v2", "v2beta1"], id="unknown-version"),
        pytest.param("AggregatedDiscoveryRemoveBetaType=true", [V2BETA1], ["v2"], id="beta-off"),
        pytest.param("AggregatedDiscoveryEndpoint=false", [], [], id="all-off"),
        pytest.param("AggregatedDiscoveryEndpoint=false", [V2BETA1, V2], [], id="all-off-explicit"),
    ],
)
@pytest.mark.parametrize(
    "method", [discovery_pb2.GetDiscoveryRequest, discovery_pb2.WatchDiscoveryRequest]
)
async def test_no_common_version_fails_and_names_those_offered(
    gates: str,
    accepted: list[discovery_pb2.DiscoveryVersion.ValueType],
    offered: list[str],
    method: type[discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest],
) -> None:
    async with serving(CORE, gates=gates) as served:
        error = await failure_of(served, method(accept_versions=accepted))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert status_of(error).code == code_pb2.FAILED_PRECONDITION
    assert offered_versions(error) == offered


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        pytest.param(
            discovery_pb2.GetDiscoveryRequest(scope=UNKNOWN_SCOPE), ["scope"], id="get-scope"
        ),
        pytest.param(
            discovery_pb2.WatchDiscoveryRequest(scope=UNKNOWN_SCOPE), ["scope"], id="watch-scope"
        ),
        pytest.param(
            discovery_pb2.GetDiscoveryRequest(accept_versions=[V2, UNSPECIFIED]),
            ["accept_versions[1]"],
            id="get-version",
        ),
        pytest.param(
            discovery_pb2.WatchDiscoveryRequest(accept_versions=[UNSPECIFIED, V2]),
            ["accept_versions[0]"],
            id="watch-version",
        ),
        *(
            pytest.param(
                discovery_pb2.WatchDiscoveryRequest(heartbeat_interval=interval),
                ["heartbeat_interval"],
                id=f"heartbeat-{interval.seconds}-{interval.nanos}",
            )
            for interval in (
                Duration(),
                Duration(seconds=-1),
                Duration(nanos=999_999_999),
                Duration(seconds=3600, nanos=1),
                Duration(seconds=315_576_000_000),
            )
        ),
    ],
)
async def test_a_bad_field_is_named(
    request_: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest,
    fields: list[str],
) -> None:
    async with serving(CORE) as served:
        error = await failure_of(served, request_)
    assert [*violations_of(error)] == fields


@pytest.mark.parametrize("seconds", [1, 3600])
async def test_heartbeat_bounds_are_themselves_allowed(seconds: int) -> None:
    request = discovery_pb2.WatchDiscoveryRequest(heartbeat_interval=Duration(seconds=seconds))
    async with serving(CORE) as served, served.channel() as channel:
        assert await next_bytes(raw_watch(channel, request))


@pytest.mark.parametrize(
    "request_", [discovery_pb2.GetDiscoveryRequest(), discovery_pb2.WatchDiscoveryRequest()]
)
async def test_calls_are_unavailable_until_ready(
    request_: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest,
) -> None:
    async with serving(CORE, ready=False) as served:
        error = await failure_of(served, request_)
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        served.ready = True
        assert (await get(served, discovery_pb2.GetDiscoveryRequest())).etag


# What follows: the answers are spliced together from cached bytes; they are to be the same bytes as
# those of messages built field by field.


def built_head(served: Served, parts: Parts, tag: str) -> discovery_pb2.GetDiscoveryResponse:
    snapshot = served.registry.snapshot
    groups = (snapshot.core.groups if parts.core else ()) + (
        snapshot.named.groups if parts.named else ()
    )
    hashes = [discovery_pb2.GroupHash(name=g.name, hash=g.hash) for g in groups]
    return discovery_pb2.GetDiscoveryResponse(etag=tag, group_hashes=hashes)


def lists(parts: Parts, name: str) -> tuple[Message | None, Message | None]:
    kind = (v2_pb2 if name == "v2" else v2beta1_pb2).APIGroupDiscoveryList
    return (
        kind.FromString(golden_message("api", name)) if parts.core else None,
        kind.FromString(golden_message("apis", name)) if parts.named else None,
    )


def set_document(response: discovery_pb2.GetDiscoveryResponse, parts: Parts, name: str) -> None:
    document = response.v2 if name == "v2" else response.v2beta1
    core, named = lists(parts, name)
    if core is not None:
        document.core.MergeFromString(core.SerializeToString())
    if named is not None:
        document.groups.MergeFromString(named.SerializeToString())


def built_delta(
    served: Served, parts: Parts, name: str, removed: list[str]
) -> discovery_pb2.DiscoveryDelta:
    """Build the delta from nothing to everything."""
    delta = discovery_pb2.DiscoveryDelta(removed=removed)
    documents = lists(parts, name)
    snapshot = served.registry.snapshot
    for message, document in zip(documents, (snapshot.core, snapshot.named), strict=True):
        if not isinstance(
            message, v2_pb2.APIGroupDiscoveryList | v2beta1_pb2.APIGroupDiscoveryList
        ):
            continue
        for place, (group, item) in enumerate(zip(document.groups, message.items, strict=True)):
            changed = delta.changed.add(name=group.name, hash=group.hash, position=place)
            (changed.v2 if name == "v2" else changed.v2beta1).MergeFromString(
                item.SerializeToString()
            )
    return delta


@each_scope
@each_version
async def test_spliced_answers_are_the_bytes_of_built_messages(
    builtin: Served, scope: discovery_pb2.DiscoveryScope.ValueType, name: str
) -> None:
    version = V2 if name == "v2" else V2BETA1
    request = discovery_pb2.GetDiscoveryRequest(scope=scope, accept_versions=[version])
    tag, parts = expected_etag(scope), SCOPES[scope]
    async with builtin.channel() as channel:
        whole = built_head(builtin, parts, tag)
        set_document(whole, parts, name)
        assert await raw_get(channel, request) == whole.SerializeToString(deterministic=True)

        request.if_none_match = tag
        nothing = built_head(builtin, parts, tag)
        nothing.not_modified.SetInParent()
        assert await raw_get(channel, request) == nothing.SerializeToString(deterministic=True)

        request.if_none_match = ""
        request.known_groups.hashes["zz.example.com"] = "gone"
        request.known_groups.hashes["aa.example.com"] = "gone too"
        removed = ["aa.example.com", "zz.example.com"] if parts.named else []
        delta = built_head(builtin, parts, tag)
        delta.delta.CopyFrom(built_delta(builtin, parts, name, removed))
        assert await raw_get(channel, request) == delta.SerializeToString(deterministic=True)


@each_scope
@each_version
async def test_spliced_watch_messages_are_the_bytes_of_built_messages(
    builtin: Served, scope: discovery_pb2.DiscoveryScope.ValueType, name: str
) -> None:
    version = V2 if name == "v2" else V2BETA1
    request = discovery_pb2.WatchDiscoveryRequest(scope=scope, accept_versions=[version])
    expected = discovery_pb2.WatchDiscoveryResponse()
    expected.changes.etag = expected_etag(scope)
    expected.changes.delta.CopyFrom(built_delta(builtin, SCOPES[scope], name, []))
    async with builtin.channel() as channel:
        message = await next_bytes(raw_watch(channel, request))
    assert message == expected.SerializeToString(deterministic=True)


async def test_an_empty_delta_is_sent() -> None:
    """It is what distinguishes a delta from no result, although nothing is in it."""
    request = discovery_pb2.GetDiscoveryRequest()
    async with serving(CORE, APPS) as served, served.channel() as channel:
        response = await get(served, request)
        request.known_groups.hashes.update({g.name: g.hash for g in response.group_hashes})
        again = await get(served, request)
        assert again.WhichOneof("result") == "delta"
        assert again.delta.ByteSize() == 0
        assert again.etag == response.etag
        assert await raw_get(channel, request) == again.SerializeToString(deterministic=True)
