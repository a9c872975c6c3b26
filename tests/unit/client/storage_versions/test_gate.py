"""Which requests pass before what is written has been reported."""

import pytest
from apidiscovery_client.storage_versions import GroupResource, RequestAttributes, WriteGate
from hypothesis import given
from hypothesis import strategies as st

DEPLOYMENTS = GroupResource("apps", "deployments")
PODS = GroupResource("", "pods")
STORAGE_VERSIONS = GroupResource("internal.apiserver.k8s.io", "storageversions")
LEASES = GroupResource("coordination.k8s.io", "leases")
NAMESPACES = GroupResource("", "namespaces")
PENDING = frozenset({DEPLOYMENTS, PODS, STORAGE_VERSIONS, LEASES, NAMESPACES})
CLOSED = WriteGate(confirmed=False, pending=PENDING)


def asked(
    verb: str, gr: GroupResource, *, namespace: str = "", user: str = ""
) -> RequestAttributes:
    groups = ("system:masters",) if user == "system:apiserver" else ()
    return RequestAttributes(verb, gr.group, gr.resource, namespace, user=user, groups=groups)


@pytest.mark.parametrize(
    ("request_", "passes"),
    [
        (RequestAttributes("post", is_resource=False), True),
        *((asked(verb, DEPLOYMENTS), True) for verb in ("get", "list", "watch")),
        *(
            (asked(verb, DEPLOYMENTS), False)
            for verb in (
                "create",
                "update",
                "patch",
                "delete",
                "deletecollection",
                "proxy",
                "connect",
                "",
            )
        ),
        (asked("update", STORAGE_VERSIONS), True),
        (asked("update", GroupResource("apps", "storageversions")), True),  # not pending
        (asked("create", NAMESPACES), False),
        (asked("create", NAMESPACES, user="system:apiserver"), True),
        (asked("update", NAMESPACES, user="system:apiserver"), False),
        (asked("create", NAMESPACES, user="someone"), False),
        (RequestAttributes("create", "", "namespaces", user="system:apiserver"), False),
        (RequestAttributes("create", "", "namespaces", groups=("system:masters",)), False),
        (asked("create", PODS, user="system:apiserver"), False),
        (asked("update", LEASES, namespace="kube-system"), True),
        (asked("update", LEASES, namespace="default"), False),
        (asked("update", LEASES), False),
        (asked("create", PODS, namespace="kube-system"), False),
        (asked("create", GroupResource("stable.example.com", "crontabs")), True),
        (asked("create", GroupResource("apps", "pods")), True),
    ],
)
def test_only_writes_of_pending_kinds_are_refused(
    request_: RequestAttributes, *, passes: bool
) -> None:
    assert (CLOSED.refusal(request_) is None) is passes


def test_the_refusal_is_in_kubernetes_words() -> None:
    refusal = CLOSED.refusal(asked("create", DEPLOYMENTS))
    assert refusal is not None
    assert refusal.message == (
        "wait for storage version registration to complete for resource: deployments.apps,"
        " last seen error: <nil>"
    )
    assert refusal.retry_after_s == 1


def test_the_refusal_omits_the_core_group_and_has_the_last_error() -> None:
    gate = WriteGate(confirmed=False, pending=PENDING, last_error="UNAVAILABLE: no")
    refusal = gate.refusal(asked("patch", PODS))
    assert refusal is not None
    assert refusal.message.endswith("for resource: pods, last seen error: UNAVAILABLE: no")


VERBS = st.sampled_from(
    ["get", "list", "watch", "create", "update", "patch", "delete", "", "proxy"]
)
NAMES = st.sampled_from(["", "apps", "coordination.k8s.io", "example.com"])
PLURALS = st.sampled_from(["pods", "deployments", "leases", "namespaces", "widgets"])
REQUESTS = st.builds(
    RequestAttributes,
    VERBS,
    NAMES,
    PLURALS,
    st.sampled_from(["", "default", "kube-system"]),
    st.sampled_from(["", "status"]),
    st.booleans(),
    st.sampled_from(["", "system:apiserver"]),
    st.sampled_from([(), ("system:masters",)]),
)
GATES = st.frozensets(st.builds(GroupResource, NAMES, PLURALS))


@given(REQUESTS, GATES)
def test_an_open_gate_refuses_nothing(
    request: RequestAttributes, pending: frozenset[GroupResource]
) -> None:
    assert WriteGate(confirmed=True, pending=pending).refusal(request) is None


@given(REQUESTS, GATES)
def test_what_is_refused_is_a_write_to_something_pending(
    request: RequestAttributes, pending: frozenset[GroupResource]
) -> None:
    if WriteGate(confirmed=False, pending=pending).refusal(request):
        assert request.is_resource
        assert request.verb not in {"get", "list", "watch"}
        assert request.group_resource in pending


@given(REQUESTS, GATES, GATES)
def test_more_pending_never_lets_more_through(
    request: RequestAttributes, some: frozenset[GroupResource], more: frozenset[GroupResource]
) -> None:
    if WriteGate(confirmed=False, pending=some).refusal(request):
        assert WriteGate(confirmed=False, pending=some | more).refusal(request)
