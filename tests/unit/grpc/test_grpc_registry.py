"""RegistryService with grpcio's stubs: messages, statuses with their details, and who may call."""

import json
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import grpc
import pytest
from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc
from apidiscovery.v2 import discovery_pb2 as v2_pb2
from apidiscovery_service.access import Caller, Role
from apidiscovery_service.access.authenticator import Access, Admission, Unauthenticated
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.store import StoreRefused, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.observed import ObservedStore
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpc_errors import details_of, refusal, violations_of
from metrics_text import sample_sum
from registry_server import Served, serving
from store_wrapper import DisturbedStore
from waiting import until

GROUPS = registry_pb2.REGISTRATION_KIND_GROUPS
CRD = registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION
API_SERVICE = registry_pb2.REGISTRATION_KIND_API_SERVICE

MANIFEST = b"""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""


def group(name: str, *versions: str) -> v2_pb2.APIGroupDiscovery:
    message = v2_pb2.APIGroupDiscovery()
    message.metadata.name = name
    for version in versions or ("v1",):
        listed = message.versions.add(version=version, freshness="Current")
        widgets = listed.resources.add(
            resource="widgets", scope="Namespaced", singular_resource="widget", verbs=["get"]
        )
        widgets.response_kind.kind = "Widget"
    return message


def groups(*names: str) -> registry_pb2.PublishedGroups:
    listed = [registry_pb2.PublishedGroup(group=group(name)) for name in names]
    return registry_pb2.PublishedGroups(groups=listed)


def publish(name: str = "east", **others: Any) -> registry_pb2.PublishRequest:  # noqa: ANN401
    others.setdefault("groups", groups(f"{name}.example.com"))
    return registry_pb2.PublishRequest(name=name, **others)


def apply(*contents: bytes, **others: Any) -> registry_pb2.ApplyRequest:  # noqa: ANN401
    manifests = [registry_pb2.ApplyRequest.Manifest(content=content) for content in contents]
    return registry_pb2.ApplyRequest(manifests=manifests, **others)


def seconds(count: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(int(count * 1000))
    return duration


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(
    served: Served,
) -> AsyncGenerator["registry_pb2_grpc.RegistryServiceAsyncStub"]:
    async with served.stub() as stub:
        yield stub


Stub: TypeAlias = "registry_pb2_grpc.RegistryServiceAsyncStub"


async def test_published_groups_are_returned_as_they_were_sent(served: Served, stub: Stub) -> None:
    sent = registry_pb2.PublishedGroups(
        groups=[
            registry_pb2.PublishedGroup(
                group=group("a.example.com", "v2", "v1"),
                group_priority_minimum=15_000,
                version_priorities=[100, 50],
            ),
            registry_pb2.PublishedGroup(group=group("b.example.com")),
        ]
    )
    answer = await stub.Publish(publish(groups=sent, owner="me", expected_revision=0))
    assert answer.changed
    registration = answer.registration
    assert (registration.kind, registration.name, registration.owner) == (GROUPS, "east", "me")
    assert registration.state == registry_pb2.REGISTRATION_STATE_CURRENT
    assert registration.revision > 0
    assert registration.created.seconds > 0
    assert not registration.HasField("stale_since")
    assert registration.groups == sent
    assert [*served.replica.served()] == ["a.example.com", "b.example.com"]
    listed = await stub.ListRegistrations(registry_pb2.ListRegistrationsRequest())
    assert list(listed.registrations) == [registration]
    again = await stub.Publish(publish(groups=sent, owner="me", expected_revision=0))
    assert (again.changed, again.registration) == (False, registration)


async def test_a_mismatch_names_the_registration_and_its_revision(stub: Stub) -> None:
    answer = await stub.Publish(publish())
    error = await refusal(
        stub.Publish(publish(groups=groups("b.example.com"), expected_revision=12345))
    )
    assert error.code() is grpc.StatusCode.ABORTED
    (info,) = details_of(error)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("REVISION_MISMATCH", "apidiscovery")
    assert dict(info.metadata) == {
        "kind": "REGISTRATION_KIND_GROUPS",
        "name": "east",
        "current_revision": str(answer.registration.revision),
    }


async def test_fields_that_are_wrong_have_the_names_of_the_protos(stub: Stub) -> None:
    wrong = registry_pb2.PublishedGroup(
        group=group("b.example.com", "v1", "v1"), version_priorities=[1, 1001]
    )
    wrong.group.versions[0].resources[0].scope = "Everywhere"
    sent = registry_pb2.PublishedGroups(groups=[*groups("a.example.com").groups, wrong])
    error = await refusal(stub.Publish(publish(groups=sent)))
    violations = violations_of(error)
    assert [*violations] == [
        "groups.groups[1].version_priorities[1]",
        "groups.groups[1].group.versions[0].resources[0].scope",
        "groups.groups[1].group.versions[1].version",
    ]
    assert "got 'Everywhere'" in [*violations.values()][1]


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        pytest.param(publish("Not a name"), ["name", "groups.groups[0].group.metadata.name"]),
        pytest.param(publish(groups=groups()), ["groups"]),
        pytest.param(publish(lease=registry_pb2.OwnerLease()), ["lease.duration"]),
        pytest.param(
            publish(
                owner="me",
                lease=registry_pb2.OwnerLease(duration=Duration(seconds=9, nanos=-500_000_000)),
            ),
            ["lease.duration"],
        ),
        pytest.param(
            publish(
                owner="me",
                lease=registry_pb2.OwnerLease(
                    duration=seconds(9), removal_after=Duration(seconds=9, nanos=1_000_000_000)
                ),
            ),
            ["lease.removal_after"],
        ),
        pytest.param(
            publish(lease=registry_pb2.OwnerLease(duration=seconds(0.1))),
            ["owner", "lease.duration"],
        ),
    ],
)
async def test_a_publication_is_checked(
    stub: Stub, request_: registry_pb2.PublishRequest, fields: list[str]
) -> None:
    error = await refusal(stub.Publish(request_))
    assert [*violations_of(error)] == fields


async def test_kinds_sizes_and_tokens_are_checked(stub: Stub) -> None:
    reference = registry_pb2.RegistrationReference(name="x")
    error = await refusal(stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[reference])))
    assert [*violations_of(error)] == ["registrations[0].kind"]
    error = await refusal(stub.Withdraw(registry_pb2.WithdrawRequest()))
    assert [*violations_of(error)] == ["registrations"]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("kinds[0]", {"kinds": [0]}),
        ("page_size", {"page_size": -1}),
        ("page_token", {"page_token": "!"}),
        ("page_token", {"page_token": "bm9uZQ=="}),
    ]
    for field, request in wrong:
        error = await refusal(
            stub.ListRegistrations(registry_pb2.ListRegistrationsRequest(**request))
        )
        assert [*violations_of(error)] == [field]


async def test_too_many_parts_are_refused_before_they_are_looked_at(stub: Stub) -> None:
    """A request of 8 MB has room for millions of empty ones, which took the loop's thread 10 s."""
    many = [registry_pb2.RegistrationReference()] * 10_001
    kinds = [registry_pb2.REGISTRATION_KIND_UNSPECIFIED] * 10_001
    calls: dict[str, Callable[[], Awaitable[Message]]] = {
        "registrations": lambda: stub.Withdraw(registry_pb2.WithdrawRequest(registrations=many)),
        "expected": lambda: stub.Apply(apply(MANIFEST, expected=many)),
        "manifests": lambda: stub.Apply(apply(*[b""] * 10_001)),
        "kinds": lambda: stub.ListRegistrations(registry_pb2.ListRegistrationsRequest(kinds=kinds)),
        "names": lambda: stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(names=[""] * 10_001)
        ),
    }
    for field, call in calls.items():
        error = await refusal(call())
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = f"{field}: a request may have 10000 at most, got 10001"
        assert error.details() == details


async def test_groups_are_counted_before_they_are_looked_at(stub: Stub) -> None:
    empty, version = registry_pb2.PublishedGroup(), v2_pb2.APIVersionDiscovery()
    resources = [v2_pb2.APIResourceDiscovery()] * 50_001
    in_one = v2_pb2.APIGroupDiscovery(versions=[version] * 20_001)
    crowded = v2_pb2.APIGroupDiscovery(versions=[v2_pb2.APIVersionDiscovery(resources=resources)])
    sent = {
        "groups.groups: a request may have 20000 at most, got 20001": [empty] * 20_001,
        "groups.groups[].group.versions: a request may have 20000 at most, got 20001": [
            registry_pb2.PublishedGroup(group=in_one)
        ],
        "groups.groups[].version_priorities: a request may have 20000 at most, got 20001": [
            registry_pb2.PublishedGroup(version_priorities=[1] * 20_001)
        ],
        "groups.groups[].group.versions[].resources: a request may have 50000 at most, got 50001": [
            registry_pb2.PublishedGroup(group=crowded)
        ],
    }
    for details, listed in sent.items():
        error = await refusal(
            stub.Publish(publish(groups=registry_pb2.PublishedGroups(groups=listed)))
        )
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.details() == details


async def test_values_are_counted_before_they_are_made(stub: Stub) -> None:
    """8 MB of the shortest values took 21 s and 1.3 GB."""
    begun = time.monotonic()
    content = b"[" + b"1," * 4_000_000 + b"1]"
    error = await refusal(stub.Apply(apply(content)))
    (message,) = violations_of(error).values()
    assert message.endswith("more than 1000000 values")
    assert time.monotonic() - begun < 10


async def test_manifests_are_applied_and_answered_as_json(stub: Stub) -> None:
    answer = await stub.Apply(apply(MANIFEST))
    (document,) = answer.documents
    assert document.outcome == registry_pb2.AppliedDocument.OUTCOME_CREATED
    assert (document.registration.kind, document.registration.name) == (CRD, "widgets.example.com")
    manifest = json.loads(document.registration.manifest)
    assert manifest["metadata"]["resourceVersion"] == str(document.registration.revision)
    assert {c["type"]: c["status"] for c in manifest["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    # What was given back can be applied again as it is.
    (again,) = (await stub.Apply(apply(document.registration.manifest))).documents
    assert again.outcome == registry_pb2.AppliedDocument.OUTCOME_UNCHANGED
    assert again.registration == document.registration


async def test_wrong_documents_are_named_by_field_file_and_line(stub: Stub) -> None:
    wrong = MANIFEST.replace(b"Namespaced", b"Everywhere")
    request = apply(MANIFEST + b"---\n" + wrong.replace(b"widgets", b"gadgets"))
    request.manifests[0].file = "crds.yaml"
    error = await refusal(stub.Apply(request))
    violations = violations_of(error)
    assert [*violations] == ["manifests[0].documents[1].spec.scope"]
    assert violations["manifests[0].documents[1].spec.scope"].startswith("crds.yaml:15: ")
    assert not (await stub.ListRegistrations(registry_pb2.ListRegistrationsRequest())).registrations


async def test_very_many_wrong_fields_still_make_a_readable_answer(stub: Stub) -> None:
    many = [registry_pb2.PublishedGroup(group=group(f"Wrong-{n}" * 40)) for n in range(200)]
    error = await refusal(stub.Publish(publish(groups=registry_pb2.PublishedGroups(groups=many))))
    assert 0 < len(violations_of(error)) < 200


async def test_pages_follow_each_other(stub: Stub) -> None:
    for n in range(5):
        await stub.Publish(publish(f"n{n}"))
    names: list[str] = []
    token = ""
    while True:
        request = registry_pb2.ListRegistrationsRequest(page_size=2, page_token=token)
        page = await stub.ListRegistrations(request)
        names += [one.name for one in page.registrations]
        token = page.next_page_token
        if not token:
            break
    assert names == ["n0", "n1", "n2", "n3", "n4"]


async def test_withdraw_returns_the_revisions(stub: Stub) -> None:
    answer = await stub.Publish(publish())
    reference = registry_pb2.RegistrationReference(kind=GROUPS, name="east", expected_revision=99)
    error = await refusal(stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[reference])))
    assert error.code() is grpc.StatusCode.ABORTED
    reference.expected_revision = answer.registration.revision
    withdrawn = await stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[reference]))
    assert list(withdrawn.withdrawn) == [reference]
    withdrawn = await stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[reference]))
    assert list(withdrawn.withdrawn) == []


async def test_owners_renew_until_they_are_gone(stub: Stub) -> None:
    lease = registry_pb2.OwnerLease(duration=seconds(30))
    await stub.Publish(publish(owner="me", lease=lease))
    await stub.Publish(publish("west", owner="you"))
    renewed = await stub.Renew(registry_pb2.RenewRequest(owner="me"))
    assert renewed.renew_within == seconds(10)
    other = await stub.Renew(registry_pb2.RenewRequest(owner="you"))
    assert not other.HasField("renew_within")
    withdrawn = await stub.Withdraw(registry_pb2.WithdrawRequest(owner="me"))
    assert [one.name for one in withdrawn.withdrawn] == ["east"]
    error = await refusal(stub.Renew(registry_pb2.RenewRequest(owner="me")))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    (info,) = details_of(error)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert info.reason == "NO_SUCH_OWNER"


async def test_until_the_sources_are_read_every_method_is_unavailable(
    served: Served, stub: Stub
) -> None:
    served.ready = False
    for code in await codes_of(stub):
        assert code is grpc.StatusCode.UNAVAILABLE


async def codes_of(stub: Stub) -> list[grpc.StatusCode]:
    calls: Iterable[Any] = (
        stub.Publish(publish()),
        stub.Withdraw(registry_pb2.WithdrawRequest(owner="me")),
        stub.ListRegistrations(registry_pb2.ListRegistrationsRequest()),
        stub.Apply(apply(MANIFEST)),
        stub.Renew(registry_pb2.RenewRequest(owner="me")),
    )
    return [await call.code() for call in calls]


async def test_calls_are_counted_with_the_code_they_end_with(served: Served, stub: Stub) -> None:
    await codes_of(stub)
    codes: dict[str, str] = dict.fromkeys(
        ("Publish", "Withdraw", "ListRegistrations", "Apply"), "OK"
    )
    codes["Renew"] = "NOT_FOUND"

    def counted() -> bool:
        text = served.metrics.text().decode()
        name = "apidiscovery_grpc_requests_total"
        return sample_sum(text, name) == len(codes) and all(
            sample_sum(text, name, method=method, code=code) for method, code in codes.items()
        )

    # A caller hears of a refusal before the call is over here, and counted.
    await until(counted)


def failing_at(error: Exception, *operations: str) -> DisturbedStore:
    """Return a store of which some operations fail."""

    async def fail(operation: str, _: str) -> None:
        if operation in operations:
            raise error

    store = DisturbedStore(MemoryStore())
    store.before = fail
    return store


async def test_without_its_store_nothing_is_acknowledged() -> None:
    metrics = Metrics()
    gone = failing_at(StoreUnavailable("registrations/ cannot be reached"), "get")
    store = ObservedStore(gone, metrics.store)
    async with serving(store) as served, served.stub() as stub:
        publishing, withdrawing, listing, applying, renewing = await codes_of(stub)
        (warning,) = store.warnings()
    assert {publishing, withdrawing, applying, renewing} == {grpc.StatusCode.UNAVAILABLE}
    assert listing is grpc.StatusCode.OK
    assert re.match(r"store: reading fails, \d+ times since \S+: registrations/", warning)
    failing = 'apidiscovery_store_failing{operation="reading",reason="unavailable"} 1.0'
    assert failing in metrics.text().decode()


async def test_errors_do_not_show_the_path_of_the_store() -> None:
    refusing = failing_at(StoreRefused("/var/lib/secret-place/store.sqlite: removed"), "get")
    async with serving(refusing) as served, served.stub() as stub:
        error = await refusal(stub.Publish(publish()))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "the store of the server refuses" in (error.details() or "")
    assert "secret-place" not in (error.details() or "")


class Publishers(Access):
    """Knows callers by their authorization; each may change the group of their name."""

    def admit(self, connection: str, authorization: bytes | None) -> Admission:  # noqa: ARG002 - as Access
        if authorization is None:
            raise Unauthenticated("no user was named")
        user = authorization.decode()
        role = Role.ADMIN if user == "admin" else Role.PUBLISHER
        return Admission(Caller(user), role, "", math.inf, None)

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        if caller.user == "reader":
            return "user 'reader' is not a publisher"
        if caller.user == "admin":
            return None
        denied = set(api_groups) - {f"{caller.user}.example.com"}
        return f"not yours: {', '.join(sorted(denied))}" if denied else None


async def test_callers_may_change_only_their_own_groups() -> None:
    async with serving(access=Publishers()) as served, served.stub() as stub:
        assert set(await codes_of(stub)) == {grpc.StatusCode.UNAUTHENTICATED}
        east, west = (("authorization", "east"),), (("authorization", "west"),)
        await stub.Publish(publish(owner="me"), metadata=east)
        taking = publish(groups=groups("west.example.com"))
        listing = registry_pb2.RegistrationReference(kind=GROUPS, name="east")
        calls: list[Any] = [
            stub.Publish(taking, metadata=west),
            stub.Publish(publish("other"), metadata=west),
            stub.Apply(apply(MANIFEST), metadata=west),
            stub.Apply(apply(MANIFEST, dry_run=True), metadata=west),
            stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[listing]), metadata=west),
            stub.Withdraw(registry_pb2.WithdrawRequest(owner="me"), metadata=west),
            stub.Renew(registry_pb2.RenewRequest(owner="me"), metadata=west),
            stub.Publish(publish("west", owner="me"), metadata=west),
            stub.Renew(
                registry_pb2.RenewRequest(owner="me"), metadata=(("authorization", "reader"),)
            ),
        ]
        for call in calls:
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
        assert [*served.replica.served()] == ["east.example.com"]
        await stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(), metadata=(("authorization", "reader"),)
        )


async def test_an_admin_may_do_what_an_owner_may() -> None:
    async with serving(access=Publishers()) as served, served.stub() as stub:
        east, admin = (("authorization", "east"),), (("authorization", "admin"),)
        lease = registry_pb2.OwnerLease(duration=seconds(30))
        await stub.Publish(publish(owner="me", lease=lease), metadata=east)
        renewed = await stub.Renew(registry_pb2.RenewRequest(owner="me"), metadata=admin)
        assert renewed.renew_within == seconds(10)
        # It stays whose it is.
        await stub.Renew(registry_pb2.RenewRequest(owner="me"), metadata=east)
        withdrawing = registry_pb2.WithdrawRequest(owner="me")
        withdrawn = await stub.Withdraw(withdrawing, metadata=admin)
        assert [one.name for one in withdrawn.withdrawn] == ["east"]
        assert served.replica.served() == {}


async def test_an_unreadable_registration_hides_no_other_and_an_admin_removes_it() -> None:
    async with serving(access=Publishers()) as served, served.stub() as stub:
        east, admin = (("authorization", "east"),), (("authorization", "admin"),)
        await stub.Publish(publish(), metadata=east)
        await served.replica.store.put("registrations/groups/north", b"nonsense")
        await stub.Publish(publish("west"), metadata=(("authorization", "west"),))
        listed = await stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(), metadata=east
        )
        assert [one.name for one in listed.registrations] == ["east", "west"]
        reference = registry_pb2.RegistrationReference(kind=GROUPS, name="north")
        request = registry_pb2.WithdrawRequest(registrations=[reference])
        error = await refusal(stub.Withdraw(request, metadata=east))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "registrations/groups/north" in (error.details() or "")
        withdrawn = await stub.Withdraw(request, metadata=admin)
        assert [one.name for one in withdrawn.withdrawn] == ["north"]
        assert await served.replica.store.get("registrations/groups/north") is None
