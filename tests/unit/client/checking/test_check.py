"""Findings in manifests for a server: versions, fields, values, and their lines."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from apidiscovery_client.checking import Checked, Finding, Rule, Severity, check
from apidiscovery_client.manifests import read_manifests
from apidiscovery_client.model import Snapshot
from apidiscovery_client.schemas import GivenSchemas, ReleasedSchemas, SchemaSource
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import group, resource
from checked_manifests import built_in
from client_snapshots import snapshot
from schema_samples import components, documents, files, text_of, widget

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
A_WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
WIDGETS = snapshot(group("example.com", v1=[resource("widgets", "Widget")]))


def checked(
    text: bytes | str, against: str = "1.36", source: SchemaSource | None = None
) -> Checked:
    content = text if isinstance(text, bytes) else text.encode()
    schemas = source or ReleasedSchemas(against)
    served = WIDGETS if source else release(against)
    return check(read_manifests(content, "a.yaml"), served, schemas)


def told(found: Checked) -> list[tuple[int, Rule, str, str]]:
    return [(one.line, one.rule, one.field, one.message) for one in found.findings]


def of_widget(
    spec: Mapping[str, object],
    value: object,
    *,
    status: object = None,
    **more: Any,  # noqa: ANN401 - of `widget`
) -> list[Finding]:
    """Return what is found in a Widget with this spec, by a definition with these fields."""
    manifest = {**A_WIDGET, "spec": value, **({} if status is None else {"status": status})}
    return list(checked(text_of(manifest), source=defined(widget(spec, **more))).findings)


def defined(definition: Mapping[str, object]) -> GivenSchemas:
    """Return the schemas of a server that has this definition."""
    return GivenSchemas("a", files(definition).definitions)


def short(found: Sequence[Finding]) -> list[tuple[Rule, str]]:
    return [(one.rule, one.field) for one in found]


# --------------------------------------------------------------------------------------------------
# Versions.


def test_a_version_that_is_gone_is_told_with_its_successor() -> None:
    found = checked("apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n")
    (one,) = found.findings
    assert (one.rule, one.severity, one.line) == (Rule.NOT_SERVED, Severity.ERROR, 1)
    assert one.message == "it is not served: Kubernetes 1.25 removed it; use policy/v1"
    assert (one.until, one.replaced_by) == ("1.24", "policy/v1")


@pytest.mark.parametrize(
    ("api_version", "kind", "replaced_by"),
    [
        ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1"),
        ("apps/v1beta1", "Deployment", "apps/v1"),
        ("policy/v1beta1", "PodSecurityPolicy", ""),
        ("example.com/v1", "Deployment", ""),  # equal names elsewhere mean nothing
    ],
)
def test_what_replaces_a_kind_may_be_in_another_group_of_kubernetes(
    api_version: str, kind: str, replaced_by: str
) -> None:
    found = checked(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert [(one.rule, one.replaced_by) for one in found.findings] == [
        (Rule.NOT_SERVED, replaced_by)
    ]


def test_a_version_that_a_later_release_drops_is_a_warning() -> None:
    text = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata: {name: a}"
    (one,) = checked(f"{text}\nspec: {{priorityLevelConfiguration: {{name: a}}}}", "1.31").findings
    assert (one.severity, one.until) == (Severity.WARNING, "1.31")
    assert one.message == "served until Kubernetes 1.31; use flowcontrol.apiserver.k8s.io/v1"


def test_a_version_that_is_not_yet_there_is_told_with_its_release() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {}"
    (one,) = checked(text, "1.31").findings
    assert one.message.startswith("it is not served: Kubernetes has it since 1.34")


def test_a_deprecated_version_of_a_definition_is_a_warning() -> None:
    found = of_widget({}, {}, deprecated=True, deprecationWarning="use v2")
    assert [(one.rule, one.message) for one in found] == [(Rule.DEPRECATED, "use v2")]


def test_kinds_defined_in_the_same_manifests_count_as_served() -> None:
    text = text_of(
        {
            "apiVersion": "more.com/v1",
            "kind": "Gadget",
            "metadata": {"name": "g"},
            "spec": {"b": 1},
        },
        widget({"a": TEXT}, kind="Gadget", group="more.com"),
    )
    found = checked(text)
    assert short(found.findings) == [(Rule.PRUNED_FIELD, "spec.b")]


def test_a_version_that_the_server_could_not_list_is_unchecked() -> None:
    stale = Snapshot(
        groups=(), server="a", checked_at=WIDGETS.checked_at, failures={"/apis": "it timed out"}
    )
    found = check(read_manifests(text_of(A_WIDGET), "a"), stale, documents("a"))
    assert found.findings == ()
    assert found.unchecked == {"example.com/v1": "it timed out"}


def test_an_object_without_kind_is_a_finding() -> None:
    (one,) = checked("apiVersion: v1\nmetadata: {name: a}\n").findings
    assert one.rule == Rule.NO_OBJECT


# --------------------------------------------------------------------------------------------------
# Built-in kinds.


@pytest.mark.parametrize("minor", [25, 31, 36])
def test_objects_that_servers_take_are_fine(minor: int) -> None:
    assert told(checked(text_of(*built_in()), f"1.{minor}")) == []


DEPLOYMENT = """\
# nothing
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {version: 1.0}
spec:
  replcas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        ports:
        - port: 80
        resources: {limits: {cpu: 1, memory: 64Megs}}
"""


def test_findings_have_the_lines_of_fields_in_their_order() -> None:
    missing = "it is missing"
    unknown = "it is in no schema: kubectl refuses it, other clients lose it"
    at = "spec.template.spec.containers[0]"
    assert told(checked(DEPLOYMENT)) == [
        (6, Rule.INVALID_VALUE, "metadata.labels.version", "it is the number 1.0; want a string"),
        (7, Rule.REQUIRED_FIELD, "spec.selector", missing),
        (8, Rule.UNKNOWN_FIELD, "spec.replcas", f"{unknown}; did you mean replicas?"),
        (15, Rule.UNKNOWN_FIELD, f"{at}.ports[0].port", unknown),
        (15, Rule.REQUIRED_FIELD, f"{at}.ports[0].containerPort", missing),
        (
            16,
            Rule.INVALID_VALUE,
            f"{at}.resources.limits.memory",
            "it is the string '64Megs'; want a quantity such as 100m, 1.5 or 64Mi",
        ),
    ]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("kind: Secret\ndata: {a: '?'}", "data.a", id="base64"),
        pytest.param("kind: Service\nspec: {type: Some}", "spec.type", id="enum"),
        pytest.param(
            "kind: Pod\nspec: {containers: [{name: a}], priority: 3000000000}",
            "spec.priority",
            id="int32",
        ),
        pytest.param("kind: ConfigMap\ndata: [a]", "data", id="array"),
        pytest.param("kind: ConfigMap\ndata: {a: true}", "data.a", id="boolean"),
    ],
)
def test_values_are_validated(text: str, field: str) -> None:
    found = checked(f"apiVersion: v1\nmetadata: {{name: a}}\n{text}\n")
    assert short(found.findings) == [(Rule.INVALID_VALUE, field)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("kind: ConfigMap\ndata: null", id="null"),
        pytest.param("kind: Service\nspec: {type: ''}", id="an empty enum"),
        pytest.param(
            "kind: Service\nspec: {ports: [{port: 1, targetPort: a}]}", id="int or string"
        ),
        pytest.param("kind: Pod\nspec: {containers: [{name: a}]}\nstatus: {x: y}", id="status"),
        pytest.param("kind: Pod\nspec: {containers: [{name: a}]}\nstatus: null", id="no status"),
    ],
)
def test_what_go_types_take_is_fine(text: str) -> None:
    assert told(checked(f"apiVersion: v1\nmetadata: {{name: a}}\n{text}\n")) == []


def test_any_object_may_be_in_a_raw_extension() -> None:
    text = (
        "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: a}\nrevision: 1\n"
        "data: {spec: {x: [1]}}\n"
    )
    assert told(checked(text)) == []


# --------------------------------------------------------------------------------------------------
# Custom resources.


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        pytest.param({"a": TEXT}, {"b": 1}, [(Rule.PRUNED_FIELD, "spec.b")], id="pruned"),
        pytest.param({"a": NUMBER}, {"a": "1"}, [(Rule.INVALID_VALUE, "spec.a")], id="type"),
        pytest.param(
            {"a": TEXT, "required": ["a"]}, {}, [(Rule.REQUIRED_FIELD, "spec.a")], id="required"
        ),
        pytest.param(
            {"a": TEXT, "required": ["a"]},
            {"a": None},
            [(Rule.REQUIRED_FIELD, "spec.a")],
            id="a null is dropped",
        ),
        pytest.param({"a": TEXT}, {"a": None}, [], id="an optional null is dropped"),
        pytest.param({"a": {**TEXT, "nullable": True}}, {"a": None}, [], id="nullable"),
        pytest.param(
            {"a": {**TEXT, "default": ""}, "required": ["a"]}, {}, [], id="a default of nothing"
        ),
        pytest.param(
            {"a": {**NUMBER, "minimum": 2}}, {"a": 1}, [(Rule.INVALID_VALUE, "spec.a")], id="bound"
        ),
        pytest.param(
            {"a": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}},
            {"a": ["x", "x"]},
            [(Rule.INVALID_VALUE, "spec.a")],
            id="set",
        ),
        pytest.param(
            {"a": {"type": "array", "items": TEXT}},
            {"a": ["x", 1]},
            [(Rule.INVALID_VALUE, "spec.a[1]")],
            id="item",
        ),
        pytest.param(
            {"a": {"type": "object", "additionalProperties": NUMBER}},
            {"a": {"b": "c"}},
            [(Rule.INVALID_VALUE, "spec.a.b")],
            id="map",
        ),
        pytest.param(
            {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            {"a": {"b": [1]}},
            [],
            id="preserved",
        ),
        pytest.param(
            {"a": {"x-kubernetes-int-or-string": True}}, {"a": "5%"}, [], id="int or string"
        ),
        pytest.param(
            {
                "a": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"data": TEXT},
                }
            },
            {"a": {"apiVersion": "v1", "metadata": {"name": "a", "nam": "b"}, "data": "c"}},
            [(Rule.PRUNED_FIELD, "spec.a.metadata.nam"), (Rule.REQUIRED_FIELD, "spec.a.kind")],
            id="embedded",
        ),
        pytest.param(
            {
                "a": {
                    **NUMBER,
                    "x-kubernetes-validations": [{"rule": "self > 5", "message": "more"}],
                }
            },
            {"a": 1},
            [(Rule.INVALID_VALUE, "spec.a")],
            id="CEL",
        ),
        pytest.param(
            {"a": {**TEXT, "x-kubernetes-validations": [{"rule": "self.split(',').size() == 1"}]}},
            {"a": "x"},
            [(Rule.UNDECIDED, "spec.a")],
            id="CEL that is not evaluated",
        ),
        pytest.param(
            {"a": {**TEXT, "format": "uri"}}, {"a": "x"}, [(Rule.UNDECIDED, "spec.a")], id="format"
        ),
    ],
)
def test_fields_are_checked_as_a_server_would(
    spec: Mapping[str, object], value: object, expected: list[tuple[Rule, str]]
) -> None:
    assert sorted(short(of_widget(spec, value))) == sorted(expected)


def test_rules_see_defaults() -> None:
    spec = {"a": {**NUMBER, "default": 6}}
    rule = {"x-kubernetes-validations": [{"rule": "self.a > 5"}]}
    definition = widget(spec)
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] |= rule
    source = defined(definition)
    assert told(checked(text_of({**A_WIDGET, "spec": {}}), source=source)) == []
    found = checked(text_of({**A_WIDGET, "spec": {"a": 1}}), source=source)
    assert [one.field for one in found.findings] == ["spec"]


def test_status_is_ignored_where_it_is_a_subresource() -> None:
    assert short(of_widget({}, {}, status={"x": 1})) == [(Rule.PRUNED_FIELD, "status.x")]
    assert of_widget({}, {}, status={"x": 1}, subresources={"status": {}}) == []


def test_metadata_is_checked_although_definitions_do_not_describe_it() -> None:
    text = (
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {labels: {a: 1}, naem: x}\nspec: {}\n"
    )
    assert short(checked(text, source=defined(widget({}))).findings) == [
        (Rule.REQUIRED_FIELD, "metadata.name"),
        (Rule.INVALID_VALUE, "metadata.labels.a"),
        (Rule.PRUNED_FIELD, "metadata.naem"),
    ]


def test_fields_of_documents_are_checked_where_definitions_may_not_be_read() -> None:
    source = documents("a", v1=components("example.com", "v1", Widget={"a": TEXT}))
    text = text_of({**A_WIDGET, "spec": {"b": 1}})
    assert short(checked(text, source=source).findings) == [(Rule.PRUNED_FIELD, "spec.b")]


def test_a_kind_without_schema_is_unchecked() -> None:
    text = text_of(A_WIDGET)
    failed = checked(text, source=documents("a", failures={"v1": "it is down"}))
    absent = checked(text, source=documents("a", v1=components("example.com", "v1")))
    assert failed.unchecked == {"example.com/v1 Widget": "it is down"}
    assert absent.unchecked == {"example.com/v1 Widget": "the server has no schema of it"}


def test_an_object_has_at_most_100_findings() -> None:
    fields = {f"f{number}": 1 for number in range(1000)}
    assert len(of_widget({}, fields)) == 100
