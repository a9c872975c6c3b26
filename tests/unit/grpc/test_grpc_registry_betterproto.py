"""RegistryService through betterproto's stubs, over grpclib: another codec and another HTTP/2."""

import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import cast

import betterproto
import grpclib
import pytest
from apidiscovery.service.v1 import registry_pb2
from apidiscovery_betterproto.apidiscovery.meta import v1 as meta
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_betterproto.apidiscovery.v2 import (
    ApiGroupDiscovery,
    ApiResourceDiscovery,
    ApiVersionDiscovery,
)
from crd_manifests import simple
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpclib.exceptions import GRPCError
from registry_server import serving

Status = grpclib.const.Status

CRD = json.dumps(simple("widgets", "example.com")).encode()


@pytest.fixture(name="stub")
async def fixture_stub() -> AsyncGenerator[v1.RegistryServiceStub]:
    async with serving() as served, served.grpclib_channel() as channel:
        yield v1.RegistryServiceStub(channel)


def groups(name: str, scope: str = "Namespaced") -> v1.PublishedGroups:
    resource = ApiResourceDiscovery(
        resource="widgets", scope=scope, singular_resource="widget", verbs=["get"]
    )
    group = ApiGroupDiscovery(
        metadata=meta.ObjectMeta(name=name),
        versions=[ApiVersionDiscovery(version="v1", resources=[resource], freshness="Current")],
    )
    placed = v1.PublishedGroup(group=group, group_priority_minimum=2000, version_priorities=[7])
    return v1.PublishedGroups(groups=[placed])


async def test_publish_list_renew_and_withdraw(stub: v1.RegistryServiceStub) -> None:
    sent = groups("east.example.com")
    request = v1.PublishRequest(
        name="east",
        groups=sent,
        owner="me",
        lease=v1.OwnerLease(duration=timedelta(seconds=30)),
        expected_revision=0,
    )
    answer = await stub.publish(request)
    assert answer.changed
    assert betterproto.which_one_of(answer.registration, "content") == ("groups", sent)
    listed = await stub.list_registrations(v1.ListRegistrationsRequest(owner="me"))
    assert listed.registrations == [answer.registration]
    assert registry_pb2.Registration.FromString(bytes(answer.registration)).owner == "me"
    renewed = await stub.renew(v1.RenewRequest(owner="me"))
    assert renewed.renew_within == timedelta(seconds=10)
    withdrawn = await stub.withdraw(v1.WithdrawRequest(owner="me"))
    assert [(one.name, one.expected_revision) for one in withdrawn.withdrawn] == [
        ("east", answer.registration.revision)
    ]
    with pytest.raises(GRPCError) as caught:
        await stub.renew(v1.RenewRequest(owner="me"))
    assert caught.value.status == Status.NOT_FOUND


async def test_apply_returns_outcome_and_object(stub: v1.RegistryServiceStub) -> None:
    request = v1.ApplyRequest(manifests=[v1.ApplyRequestManifest(content=CRD)])
    for outcome in (
        v1.AppliedDocumentOutcome.OUTCOME_CREATED,
        v1.AppliedDocumentOutcome.OUTCOME_UNCHANGED,
    ):
        (document,) = (await stub.apply(request)).documents
        assert document.outcome == outcome
        _, manifest = betterproto.which_one_of(document.registration, "content")
        assert isinstance(manifest, bytes)
        assert json.loads(manifest)["status"]["acceptedNames"]["plural"] == "widgets"


async def test_a_bad_field_is_named(stub: v1.RegistryServiceStub) -> None:
    request = v1.PublishRequest(name="east", groups=groups("east.example.com", "Everywhere"))
    with pytest.raises(GRPCError) as caught:
        await stub.publish(request)
    assert caught.value.status == Status.INVALID_ARGUMENT
    (details,) = cast("list[object]", caught.value.details)
    assert isinstance(details, error_details_pb2.BadRequest)
    assert [violation.field for violation in details.field_violations] == [
        "groups.groups[0].group.versions[0].resources[0].scope"
    ]
