"""Plans of upgrades, from the answers of a cluster."""

import json
from collections.abc import Mapping
from contextlib import closing

import pytest
from apidiscovery_client import DiscoveryClient, InvalidConfiguration
from apidiscovery_client._connecting import open_blocking
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.upgrading import Plan, Rule, Urgency, plan, read_cluster
from apidiscovery_releases import Release
from fake_api_server import NOT_FOUND, Answer, FakeApiServer, Routes, document, status
from media_types import aggregated_type
from upgraded_cluster import (
    API_SERVICES,
    CRDS,
    FORBIDDEN,
    SERVICE,
    SLICES,
    STORAGE_VERSIONS,
    Json,
    cluster,
    crd,
    items,
    metrics,
    webhook,
    with_condition,
)

FLOWS = ("flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "1.32")
INTERNAL: Json = {
    "metadata": {"name": "internal.apiserver.k8s.io"},
    "versions": [{"version": "v1alpha1", "freshness": "Current", "resources": []}],
}
STALE: Json = {
    "metadata": {"name": "metrics.k8s.io"},
    "versions": [{"version": "v1beta1", "freshness": "Stale"}],
}
READY: Json = {"endpoints": [{"conditions": {}}]}
GOING = {"served": False}
CONVERTED = webhook(service={"namespace": "shop", "name": "converter"})


def planned(
    changed: Routes | None = None, *more: object, name: str = "1.31", target: str = "1.36"
) -> Plan:
    """Return the plan for a cluster with these answers, by path, and more groups."""
    with (
        FakeApiServer(cluster(name, changed, *more)) as server,
        closing(open_blocking(server.url).transport) as transport,
        DiscoveryClient(transport) as client,
    ):
        return plan(read_cluster("prod", client.refresh(), transport), target)


def told(found: Plan, rule: Rule) -> dict[str, str]:
    """Return the messages of the steps of a rule, by subject."""
    return {step.subject: step.message for step in found.steps if step.rule is rule}


def test_a_removed_api_is_a_step_with_its_replacement_and_its_calls() -> None:
    found = planned()
    assert (found.release, found.target, dict(found.unread)) == ("1.31", "1.36", {})
    assert told(found, Rule.REMOVED_API) == {
        f"flowcontrol.apiserver.k8s.io/v1beta3 {kind}": (
            "Kubernetes 1.32 does not serve it; no call of it was seen;"
            " use flowcontrol.apiserver.k8s.io/v1"
        )
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    }


def test_a_removed_api_that_is_called_is_the_first_step() -> None:
    found = planned({"/metrics": metrics(FLOWS)})
    first = found.steps[0]
    assert (first.rule, first.urgency) == (Rule.REMOVED_API_CALLED, Urgency.FIRST)
    assert first.message.startswith("Kubernetes 1.32 does not serve it, and it is called; use")
    assert first.command.startswith(
        "kubectl get flowschemas.v1.flowcontrol.apiserver.k8s.io --all-namespaces"
    ), "it asks for another version, as asking for this one is a call"


def test_a_called_api_that_a_later_release_removes_can_wait() -> None:
    found = planned({"/metrics": metrics(FLOWS, ("", "v1", "endpoints", ""))}, target="1.31")
    assert told(found, Rule.DEPRECATED_API_CALLED) == {
        "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema": (
            "Kubernetes 1.32 removes it, and it is called; use flowcontrol.apiserver.k8s.io/v1"
        ),
        "v1 Endpoints": "it is deprecated, and it is called",
    }
    assert [*told(found, Rule.DEPRECATED_API)] == [
        "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfiguration"
    ]
    assert {step.urgency for step in found.steps} == {Urgency.LATER}


def test_a_called_api_that_is_not_listed_is_a_step() -> None:
    gone = ("policy", "v1beta1", "podsecuritypolicies", "1.25")
    found = planned({"/metrics": metrics(gone)})
    (message,) = told(found, Rule.REMOVED_API_CALLED).values()
    assert message == "Kubernetes 1.25 does not serve it, and it is called; nothing replaces it"


def test_a_replacement_that_is_not_served_yet_is_told_so() -> None:
    apis = json.loads(Release("1.31").aggregated("/apis"))
    (flows,) = (group for group in apis["items"] if group["metadata"]["name"] == FLOWS[0])
    flows["versions"] = [each for each in flows["versions"] if each["version"] == FLOWS[1]]
    older = Answer(json.dumps(apis).encode(), aggregated_type())
    found = planned({"/apis": older, "/metrics": FORBIDDEN})
    message = told(found, Rule.REMOVED_API)["flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema"]
    assert message.endswith("/v1, which this cluster does not serve yet")
    assert "whether it is called is not known" in message


def test_an_api_that_is_off_by_default_in_the_release_says_how_it_is_switched_on() -> None:
    alpha = {"resource": "storageversions", "responseKind": {"kind": "StorageVersion"}}
    version = {"version": "v1alpha1", "freshness": "Current", "resources": [alpha]}
    group: Json = {**INTERNAL, "versions": [version]}
    found = planned({STORAGE_VERSIONS: items()}, group)
    (message,) = told(found, Rule.API_OFF).values()
    assert message.endswith("--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        pytest.param(crd(["v1", "v2"], v1=GOING, v2={}), "v1 (not served)", id="not-served"),
        pytest.param(
            crd(["v1", "v2"], v1={"deprecated": True}, v2={}), "v1 (deprecated)", id="old"
        ),
        pytest.param(crd(["v0", "v2"], v1={}, v2={}), "v0 (no longer defined)", id="gone"),
        pytest.param(crd(["v1", "v2"], v1={}, v2={}), "", id="served"),
        pytest.param(crd(["v2"], v1=GOING, v2=GOING), "", id="the-stored-one"),
    ],
)
def test_stored_versions_that_go_are_to_be_rewritten(
    definition: Mapping[str, object], why: str
) -> None:
    found = planned({CRDS: items(definition)})
    subject = "CustomResourceDefinition widgets.example.com"
    message = f"objects may be stored in {why}; rewrite them in v2"
    assert told(found, Rule.STORED_VERSION) == ({subject: message} if why else {})


def test_the_command_rewrites_objects_and_then_says_so() -> None:
    found = planned({CRDS: items(crd(["v1", "v2"], v1=GOING, v2={}))})
    (command,) = (step.command for step in found.steps if step.rule is Rule.STORED_VERSION)
    assert command == (
        "kubectl get widgets.example.com --all-namespaces -o json | kubectl replace -f -"
        " && kubectl patch customresourcedefinition widgets.example.com --subresource=status"
        """ --type=merge -p '{"status": {"storedVersions": ["v2"]}}'"""
    )


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param({SLICES: items(), SERVICE: NOT_FOUND}, "does not exist", id="no-service"),
        pytest.param(
            {
                SLICES: items({"endpoints": [{"conditions": {"ready": False}}]}),
                SERVICE: document({"spec": {"type": "ClusterIP"}}),
            },
            "has no ready endpoint",
            id="not-ready",
        ),
        pytest.param({SLICES: items(READY)}, "", id="ready"),
    ],
)
def test_a_conversion_webhook_without_a_ready_endpoint_is_told(
    answers: Mapping[str, Answer], why: str
) -> None:
    found = planned({CRDS: items(crd(["v2"], CONVERTED, v1={}, v2={})), **answers})
    wanted = f"the Service {why}: conversion of widgets.example.com between versions fails"
    assert told(found, Rule.WEBHOOK_DOWN) == ({"Service shop/converter": wanted} if why else {})
    assert dict(found.unread) == {}


@pytest.mark.parametrize(
    ("conversion", "answers", "what"),
    [
        (webhook(url="https://elsewhere:1/c"), {}, "conversion webhook of widgets.example.com"),
        (
            CONVERTED,
            {SLICES: items(), SERVICE: document({"spec": {"type": "ExternalName"}})},
            "conversion webhook of the Service shop/converter",
        ),
        (CONVERTED, {SLICES: FORBIDDEN}, "conversion webhook of the Service shop/converter"),
    ],
    ids=["a-url", "an-external-name", "forbidden"],
)
def test_webhooks_that_cannot_be_judged_are_told(
    conversion: Mapping[str, object], answers: Mapping[str, Answer], what: str
) -> None:
    found = planned({CRDS: items(crd(["v2"], conversion, v1={}, v2={})), **answers})
    assert told(found, Rule.WEBHOOK_DOWN) == {}
    assert [*found.unread] == [what]


def test_api_services_that_are_not_available_are_told_once() -> None:
    down = with_condition("v1beta1.metrics.k8s.io", "Available", "False", "Missing", "no\nservice")
    good = with_condition("v1.apps", "Available", "True")
    found = planned({API_SERVICES: items(down, good)}, STALE)
    assert told(found, Rule.API_SERVICE_DOWN) == {
        "APIService v1beta1.metrics.k8s.io": "not available: Missing: no service"
    }
    assert told(found, Rule.STALE_DISCOVERY) == {}


def test_stale_discovery_is_told_where_nothing_else_tells_of_it() -> None:
    assert [*told(planned(None, STALE), Rule.STALE_DISCOVERY)] == ["metrics.k8s.io/v1beta1"]


def test_storage_versions_without_agreement_are_told() -> None:
    kind = "AllEncodingVersionsEqual"
    lagging = with_condition("apps.deployments", kind, "False", "CommonEncodingVersionUnset", "no")
    new = {"metadata": {"name": "b"}, "status": {}}
    agreed = with_condition("a", kind, "True")
    found = planned({STORAGE_VERSIONS: items(lagging, agreed, new)}, INTERNAL)
    assert told(found, Rule.STORAGE_VERSION_LAGS) == {
        "StorageVersion apps.deployments": (
            "API servers write different versions: CommonEncodingVersionUnset: no"
        ),
        "StorageVersion b": (
            f"API servers write different versions: the condition {kind} has not been reported"
        ),
    }


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/metrics", ["/metrics"]),
        ("/version", ["/version", "changes of fields"]),
        (CRDS, ["customresourcedefinitions.apiextensions.k8s.io"]),
        (API_SERVICES, ["apiservices.apiregistration.k8s.io"]),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [FORBIDDEN, NOT_FOUND, status(500, "InternalError", "it broke"), Answer(b"{}")],
    ids=["403", "404", "500", "something-else"],
)
def test_a_path_that_cannot_be_read_is_reported_and_not_taken_for_empty(
    path: str, what: list[str], answer: Answer
) -> None:
    found = planned({path: answer})
    assert [*found.unread] == what
    if path == "/metrics":
        assert all("called is not known" in one for one in told(found, Rule.REMOVED_API).values())


def test_a_list_of_which_a_page_fails_is_not_read_at_all() -> None:
    down = with_condition("v1.a", "Available", "False")
    first = document({"kind": "List", "metadata": {"continue": "2"}, "items": [down]})
    found = planned({API_SERVICES: Answer(first.body, then=FORBIDDEN)})
    assert told(found, Rule.API_SERVICE_DOWN) == {}
    assert [*found.unread] == ["apiservices.apiregistration.k8s.io"]


def test_fields_that_change_are_counted_with_the_command_that_shows_all() -> None:
    found = planned()
    (step,) = (one for one in found.steps if one.rule is Rule.FIELDS_CHANGED)
    wanted = "apidiscovery diff kubernetes:1.31 kubernetes:1.36 --fields --breaking-only"
    assert step.command == wanted
    breaking = [one for one in found.fields if one.verdicts.breaks]
    assert step.message.startswith(f"{len(breaking)} breaking changes")
    assert found.fields[: len(breaking)] == tuple(breaking)
    assert "version-removed" not in {one.change for one in found.fields}


def test_fields_of_a_release_without_recorded_schemas_are_not_read() -> None:
    found = plan(read_cluster("old", release("1.24")), "1.25")
    assert "not recorded" in found.unread["changes of fields"]
    assert told(found, Rule.REMOVED_API)["policy/v1beta1 PodSecurityPolicy"].startswith(
        "Kubernetes 1.25 does not serve it;"
    )


def test_a_cluster_that_is_newer_than_the_release_is_an_error() -> None:
    with pytest.raises(InvalidConfiguration, match=r"it runs Kubernetes 1\.31, which is newer"):
        planned(target="1.30")


def test_steps_are_in_the_order_of_doing_them() -> None:
    answers = {
        "/metrics": metrics(FLOWS),
        CRDS: items(crd(["v1", "v2"], CONVERTED, v1=GOING, v2={})),
        SLICES: items(),
        API_SERVICES: items(with_condition("v1.a", "Available", "False")),
    }
    assert [step.rule for step in planned(answers, STALE).steps] == [
        Rule.WEBHOOK_DOWN,
        Rule.API_SERVICE_DOWN,
        Rule.REMOVED_API_CALLED,
        Rule.STORED_VERSION,
        Rule.STALE_DISCOVERY,
        Rule.REMOVED_API,
        Rule.FIELDS_CHANGED,
    ]


def test_names_of_the_server_are_quoted_in_commands() -> None:
    name = "v1.a; rm -rf $HOME"
    found = planned({API_SERVICES: items(with_condition(name, "Available", "False"))})
    assert found.steps[0].command == (
        f"kubectl describe 'apiservices.apiregistration.k8s.io/{name}'"
    )
