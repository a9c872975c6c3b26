"""Reading and validation of CustomResourceDefinitions."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from apidiscovery_service.sources.crds.model import (
    Condition,
    CrdVersion,
    CustomResourceDefinition,
    Names,
    StatedStatus,
)
from apidiscovery_service.sources.crds.reading import read_crd
from apidiscovery_service.sources.fields import InvalidField, Node
from crd_manifests import CRONTABS, crd, edited, simple, told

LABEL = "a DNS-1035 label must consist of"
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/c", "port": 8443}},
        "conversionReviewVersions": ["v2", "v1"],
    },
}


def test_the_fields_of_discovery_are_read_with_their_defaults() -> None:
    read = crd(CRONTABS)
    assert (read.name, read.group) == ("crontabs.stable.example.com", "stable.example.com")
    assert read.scope == "Namespaced"
    assert read.names == Names("crontabs", "crontab", "CronTab", "CronTabList", ("ct",), ("all",))
    assert tuple(replace(version, packed=b"") for version in read.versions) == (
        CrdVersion("v1", served=True, storage=True, status=True, scale=True),
        CrdVersion("v1beta1", served=True, storage=False),
        CrdVersion("v2alpha1", served=False, storage=False),
    )
    assert (read.created, read.terminating, read.finalizers, read.stated) == ("", False, (), None)


def test_names_that_are_given_are_not_filled_in() -> None:
    read = crd(simple("geese", kind="Goose", singular="bird", listKind="Flock"))
    assert read.names == Names("geese", "bird", "Goose", "Flock")


def test_creation_and_deletion_times_are_read() -> None:
    document = edited(CRONTABS, "metadata.creationTimestamp", "2026-01-02T03:04:05Z")
    document["metadata"] |= {"deletionTimestamp": "2026-02-02T03:04:05Z", "finalizers": ["a/b"]}
    read = crd(document)
    assert (read.created, read.terminating) == ("2026-01-02T03:04:05Z", True)
    assert read.finalizers == ("a/b",)


def version_text(read: CustomResourceDefinition) -> str:
    return zstandard.decompress(read.versions[0].packed).decode()


def test_a_version_keeps_the_order_of_keys_and_the_numbers_of_its_document() -> None:
    schema = {"z": {"maximum": 1.5, "minimum": 2**63, "x": None, "a": [True, "é<"]}, "b": 1}
    document = edited(CRONTABS, "spec.versions[0].schema.openAPIV3Schema", schema)
    version = document["spec"]["versions"][0]
    assert version_text(crd(document)) == json.dumps(
        version, ensure_ascii=False, separators=(",", ":")
    )


def test_definitions_are_equal_if_their_schemas_are() -> None:
    columns = {
        name: {"type": "string", "description": "What it is."} for name in map(str, range(500))
    }
    schema = {"type": "object", "properties": columns}
    document = edited(CRONTABS, "spec.versions[0].schema.openAPIV3Schema", schema)
    read = crd(document)
    assert len(read.versions[0].packed) < read.size / 10
    assert read == crd(document)
    columns["0"]["type"] = "number"
    assert read != crd(document)


MEMORY_OF_MANY = """
import json, sys
from pathlib import Path
from apidiscovery_service.sources.crds.reading import read_crd
from apidiscovery_service.sources.discovery_list import Node

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

text = sys.stdin.read()
kept = [read_crd(Node(json.loads(text)))]
before = resident_bytes()
for number in range(200):
    kept.append(read_crd(Node(json.loads(text.replace("NUMBER", str(number))))))
print(resident_bytes() - before)
"""


def test_memory_of_many_definitions_is_that_of_their_schemas() -> None:
    """Small pieces that are cut from large buffers would fragment the heap."""
    words = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(100)]
    columns = {f"{word}NUMBER": {"type": "string", "description": word * 15} for word in words}
    schema = {"type": "object", "properties": columns}
    text = json.dumps(edited(CRONTABS, "spec.versions[0].schema.openAPIV3Schema", schema))
    assert len(text) > 100_000
    command = [sys.executable, "-c", MEMORY_OF_MANY]
    ended = subprocess.run(command, input=text.encode(), capture_output=True, check=True)  # noqa: S603
    assert int(ended.stdout) < 5 * 1024 * 1024


def test_field_names_in_schemas_may_be_anything_that_yaml_has() -> None:
    document = edited(CRONTABS, "spec.versions[0].schema.openAPIV3Schema", {"enum": {1: 2}})
    assert '{"enum":{"1":2}}' in version_text(crd(document))


def test_a_status_is_read() -> None:
    condition = {"type": "Established", "status": "True", "lastTransitionTime": "t"}
    names = {"plural": "crontabs", "kind": "CronTab", "shortNames": ["c"]}
    status = {"conditions": [condition], "acceptedNames": names, "storedVersions": ["v1"]}
    assert crd({**CRONTABS, "status": status}).stated == StatedStatus(
        Names("crontabs", "", "CronTab", "", ("c",)),
        (Condition("Established", "True", since="t"),),
        ("v1",),
    )


def test_the_empty_status_of_generated_manifests_is_none() -> None:
    names = {"kind": "", "plural": ""}
    status: dict[str, Any] = {"acceptedNames": names, "conditions": [], "storedVersions": []}
    assert crd({**CRONTABS, "status": status}).stated is None


def test_a_webhook_that_converts_is_understood() -> None:
    assert crd(edited(CRONTABS, "spec.conversion", WEBHOOK)).name


WRONG: list[tuple[str, object, str]] = [
    ("spec", ..., "spec: Required value"),
    ("spec", [], "spec: want an object, got a list"),
    ("metadata.name", ..., "metadata.name: Required value: name or generateName is required"),
    (
        "metadata.name",
        "crons.stable.example.com",
        ('metadata.name: Invalid value: "crons.stable.example.com": '
        'must be spec.names.plural+"."+spec.group'),
    ),
    ("spec.group", ..., "spec.group: Required value"),
    ("spec.group", "A.example", 'spec.group: Invalid value: "A.example": a lowercase RFC 1123'),
    ("spec.group", "a", 'spec.group: Invalid value: "a": should be a domain with at least one dot'),
    ("spec.group", 1, "spec.group: want a string, got int 1"),
    ("spec.scope", ..., "spec.scope: Required value"),
    (
        "spec.scope",
        "x",
        'spec.scope: Unsupported value: "x": supported values: "Cluster", "Namespaced"',
    ),
    ("spec.names", ..., "spec.names: Required value"),
    ("spec.names.plural", ..., "spec.names.plural: Required value"),
    ("spec.names.kind", ..., "spec.names.kind: Required value"),
    ("spec.names.plural", "Crons", f'spec.names.plural: Invalid value: "Crons": {LABEL}'),
    ("spec.names.singular", "-", f'spec.names.singular: Invalid value: "-": {LABEL}'),
    (
        "spec.names.kind",
        "Cron_Tab",
        ('spec.names.kind: Invalid value: "Cron_Tab": may have mixed case, but should otherwise'
        f" match: {LABEL}"),
    ),
    (
        "spec.names.listKind",
        "CronTab",
        'spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same',
    ),
    (
        "spec.names.shortNames",
        ["ct", "CT"],
        f'spec.names.shortNames[1]: Invalid value: "CT": {LABEL}',
    ),
    ("spec.names.shortNames", "ct", "spec.names.shortNames: want a list, got a string"),
    ("spec.names.categories", ["a b"], f'spec.names.categories[0]: Invalid value: "a b": {LABEL}'),
    ("spec.names.categories", [1], "spec.names.categories[0]: want a string, got int 1"),
    ("spec.names.plurals", "a", "spec.names.plurals: unknown field; known here are plural, "),
    ("spec.versions", [], "spec.versions: Invalid value: []: must have exactly one version marked"),
    (
        "spec.versions[1].storage",
        True,
        ('spec.versions: Invalid value: ["v1","v1beta1","v2alpha1"]: '
        "must have exactly one version marked as storage version"),
    ),
    (
        "spec.versions[1].name",
        "v1",
        'spec.versions: Invalid value: ["v1","v1","v2alpha1"]: must contain unique version names',
    ),
    ("spec.versions[1].name", "1", f'spec.versions[1].name: Invalid value: "1": {LABEL}'),
    ("spec.versions[1].served", "yes", "spec.versions[1].served: want true or false, got a string"),
    (
        "spec.versions[0].schema",
        ...,
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
    ),
    (
        "spec.versions[0].schema",
        {},
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
    ),
    (
        "spec.versions[0].schema.openAPIV3Schema",
        [],
        "spec.versions[0].schema.openAPIV3Schema: want an object, got a list",
    ),
    ("spec.versions[0].schemas", {}, "spec.versions[0].schemas: unknown field"),
    (
        "spec.versions[0].subresources.state",
        {},
        "spec.versions[0].subresources.state: unknown field; known here are status, scale",
    ),
    (
        "spec.versions[0].subresources.status",
        True,
        "spec.versions[0].subresources.status: want an object",
    ),
    (
        "spec.versions[0].subresources.scale.specReplicasPath",
        ...,
        "spec.versions[0].subresources.scale.specReplicasPath: Required value",
    ),
    (
        "spec.versions[0].subresources.scale.specReplicasPath",
        ".status.x",
        ('spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".status.x": '
        "should be a json path under .spec"),
    ),
    (
        "spec.versions[0].subresources.scale.statusReplicasPath",
        "status.x",
        ('spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: "status.x": '
        "must be a simple json path starting with ."),
    ),
    (
        "spec.versions[0].subresources.scale.labelSelectorPath",
        ".x",
        ('spec.versions[0].subresources.scale.labelSelectorPath: Invalid value: ".x": '
        "should be a json path under either .spec or .status"),
    ),
    (
        "spec.versions[0].deprecationWarning",
        "old",
        ('spec.versions[0].deprecationWarning: Invalid value: "old": '
        "can only be set for deprecated versions"),
    ),
    (
        "spec.versions[0].additionalPrinterColumns",
        [{"name": "a", "type": "text", "jsonPath": ".a"}],
        ('spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
        "boolean,date,integer,number,string"),
    ),
    (
        "spec.versions[0].additionalPrinterColumns",
        [{"name": "a", "type": "string"}],
        "spec.versions[0].additionalPrinterColumns[0].jsonPath: Required value",
    ),
    (
        "spec.versions[0].additionalPrinterColumns",
        [{"name": "a", "type": "string", "jsonPath": ".a", "priority": 2**31}],
        "spec.versions[0].additionalPrinterColumns[0].priority: want an integer of 32 bits",
    ),
    (
        "spec.versions[0].selectableFields",
        [{"jsonPath": ".a"}, {"jsonPath": ".a"}],
        'spec.versions[0].selectableFields[1].jsonPath: Duplicate value: ".a"',
    ),
    (
        "spec.preserveUnknownFields",
        True,
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-",
    ),
    (
        "spec.conversion",
        {"strategy": "None", "webhook": {}},
        "spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook",
    ),
    (
        "spec.conversion",
        {"strategy": "Magic"},
        'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"',
    ),
    (
        "spec.conversion",
        edited(WEBHOOK, "webhook.clientConfig", ...),
        "spec.conversion.webhook.clientConfig: Required value: required when strategy is set",
    ),
    (
        "spec.conversion",
        edited(WEBHOOK, "webhook.clientConfig.url", "https://a"),
        "spec.conversion.webhook.clientConfig: Required value: exactly one of url or service",
    ),
    (
        "spec.conversion",
        edited(WEBHOOK, "webhook.clientConfig", {"url": "http://a"}),
        "spec.conversion.webhook.clientConfig.url: Invalid value: 'https' is the only allowed URL",
    ),
    (
        "spec.conversion",
        edited(WEBHOOK, "webhook.clientConfig.service.port", 0),
        ("spec.conversion.webhook.clientConfig.service.port: Invalid value: 0: port is not valid: "
        "must be between 1 and 65535, inclusive"),
    ),
    (
        "spec.conversion",
        edited(WEBHOOK, "webhook.conversionReviewVersions", ["v2"]),
        ('spec.conversion.webhook.conversionReviewVersions: Invalid value: ["v2"]: must include at'
        " least one of v1, v1beta1"),
    ),
    ("status", {"storedVersions": ["v"]}, 'status.storedVersions[0]: Invalid value: "v": missing'),
    ("status", {"state": 1}, "status.state: unknown field"),
    ("spek", {}, "spek: unknown field; known here are kind, apiVersion, metadata, spec, status"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "message"), WRONG)
def test_violations_have_the_words_of_kubernetes(field: str, value: object, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        crd(edited(CRONTABS, field, value))
    errors = told(caught.value)
    assert any(error.startswith(message) for error in errors), errors


def test_all_violations_are_reported_at_once() -> None:
    document = edited(edited(CRONTABS, "spec.scope", "x"), "spec.names.kind", 7)
    with pytest.raises(InvalidField) as caught:
        crd(edited(document, "spec.extra", 1))
    assert [error.partition(":")[0] for error in told(caught.value)] == [
        "spec.extra",
        "spec.names.kind",
        "spec.scope",
        "spec.names.singular",
        "spec.names.listKind",
    ]


def test_a_password_in_the_url_of_a_webhook_is_not_shown() -> None:
    conversion = edited(WEBHOOK, "webhook.clientConfig", {"url": "https://user:secret@a"})
    with pytest.raises(InvalidField) as caught:
        crd(edited(CRONTABS, "spec.conversion", conversion))
    assert "secret" not in str(told(caught.value))


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({}, "Required value: protected groups must have approval annotation"),
        ({"api-approved.kubernetes.io": "x"}, 'Invalid value: "x": protected groups'),
        ({"api-approved.kubernetes.io": "https://a.example/1"}, ""),
        ({"api-approved.kubernetes.io": "unapproved, for tests"}, ""),
    ],
)
def test_community_groups_need_an_approval(annotations: dict[str, Any], message: str) -> None:
    document = edited(simple("things", "x.k8s.io"), "metadata.annotations", annotations)
    if not message:
        assert crd(document).name
        return
    with pytest.raises(InvalidField) as caught:
        crd(document)
    place = "metadata.annotations[api-approved.kubernetes.io]: "
    assert told(caught.value)[0].startswith(place + message)


@pytest.mark.parametrize("value", [None, [], "text", 1, {}, {"spec": {"versions": [None]}}])
def test_values_that_are_no_definition_are_an_error(value: object) -> None:
    with pytest.raises(InvalidField):
        read_crd(Node(value))


def test_the_limit_of_names_is_in_characters() -> None:
    """As in kube-apiserver 1.36, which counts labels and namespaces in bytes."""
    with pytest.raises(InvalidField) as caught:
        crd(simple("w" * 64, ".".join(["g" * 60] * 5)))
    texts = told(caught.value)
    for place, most in (("spec.group", 253), ("spec.names.plural", 63)):
        (text,) = (text for text in texts if text.startswith(f"{place}: "))
        assert text.endswith(f"must be no more than {most} characters")
