"""`openapi schema` makes JSON Schemas that validators of manifests can use as they are."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from apidiscovery_client.openapi.json_documents import NotExplained
from apidiscovery_client.openapi.json_schema import Kind, file_names, json_schema, kinds
from command_line import Outcome
from explained_cluster import real_documents
from fake_api_server import FakeApiServer
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # it has no types here

Ask = Callable[..., Outcome]
DRAFT7: Any = Draft7Validator
KIND = Kind("g.example.com", "v1", "Thing")
GVK = {"group": KIND.group, "version": "v1", "kind": "Thing"}


def thing(**schemas: Mapping[str, object]) -> dict[str, object]:
    """Return a document with the schema of `KIND` in `Thing`."""
    marked = {**schemas["Thing"], "x-kubernetes-group-version-kind": [GVK]}
    return {
        "openapi": "3.0.0",
        "paths": {"/apis/g.example.com/v1/things": {"get": {
            "x-kubernetes-group-version-kind": GVK}}},
        "components": {"schemas": {**schemas, "Thing": marked}},
    }  # fmt: skip


def converted(schema: object, *, strict: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return what becomes of the schema of a property `p`."""
    document = thing(Thing={"type": "object", "properties": {"p": schema}}, Other={})
    made = json_schema(document, KIND, strict=strict)
    DRAFT7.check_schema(made)
    return cast("dict[str, Any]", made["properties"])["p"]


INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {
                "nullable": True,
                "allOf": [{"$ref": "#/components/schemas/Other"}],
                "description": "d",
            },
            {
                "description": "d",
                "anyOf": [{"allOf": [{"$ref": "#/definitions/Other"}]}, {"type": "null"}],
            },
        ),
        ({"x-kubernetes-int-or-string": True}, INT_OR_STRING),
        ({"x-kubernetes-int-or-string": True, **INT_OR_STRING}, INT_OR_STRING),
        ({"type": "string", "format": "int-or-string"}, INT_OR_STRING),
        (
            {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            INT_OR_STRING,
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "additionalProperties": True},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"x-a": 1, "example": 1, "externalDocs": {}, "type": "string"}, {"type": "string"}),
        ({"type": "object", "properties": {"nullable": {}, "x-a": {}}},
         {"type": "object", "properties": {"nullable": {}, "x-a": {}}}),
        ({"default": {"nullable": True}}, {"default": {"nullable": True}}),
        ({"pattern": "^(?:a|b)(?=c)$"}, {"pattern": "^(?:a|b)(?=c)$"}),
        ({"type": "string", "pattern": "^(?i)(abort|warn)?$"}, {"type": "string"}),
        ({"pattern": "(?i:a)"}, {}),
        ({"pattern": "(?P<a>b)"}, {}),
        ({"pattern": r"\Aa\z"}, {}),
        ({"pattern": "[[:alpha:]]"}, {}),
    ],
)  # fmt: skip
def test_words_of_openapi_become_those_of_json_schema(given: object, wanted: object) -> None:
    assert converted(given) == wanted


@pytest.mark.parametrize(
    ("given", "closed"),
    [
        ({"properties": {}}, True),
        ({"properties": {}, "additionalProperties": {"type": "string"}}, False),
        ({"properties": {}, "x-kubernetes-preserve-unknown-fields": True}, False),
        ({"type": "object"}, False),
        ({"properties": {}, "anyOf": [{"required": ["a"]}]}, True),
        ({"properties": {}, "allOf": [{"$ref": "#/components/schemas/Other"}]}, False),
    ],
)
def test_strict_closes_objects_that_list_their_properties(given: object, *, closed: bool) -> None:
    made = converted(given, strict=True)
    assert (made.get("additionalProperties") is False) == closed


def test_strict_does_not_close_alternatives() -> None:
    alternatives: list[object] = [{"properties": {"a": {}}}, {"not": {"properties": {"b": {}}}}]
    given: dict[str, object] = {"properties": {"a": {}, "b": {}}, "anyOf": alternatives}
    assert converted(given, strict=True) == {**given, "additionalProperties": False}


def test_only_referenced_schemas_are_defined_and_cycles_stay_references() -> None:
    tree = {"type": "object", "properties": {"c": {"$ref": "#/components/schemas/Tree"}}}
    root = {"properties": {"t": {"$ref": "#/components/schemas/Tree"}}}
    made = json_schema(thing(Thing=root, Tree=tree, Unused={}), KIND)
    assert made["definitions"] == {
        "Tree": {"type": "object", "properties": {"c": {"$ref": "#/definitions/Tree"}}}
    }


def test_objects_of_another_kind_are_invalid() -> None:
    validator = DRAFT7(json_schema(thing(Thing={"type": "object"}), KIND))
    assert validator.is_valid({"apiVersion": "g.example.com/v1", "kind": "Thing"})
    assert not validator.is_valid({"apiVersion": "g.example.com/v1", "kind": "Other"})
    assert not validator.is_valid({"apiVersion": "v1", "kind": "Thing"})


META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
META_REF = {"$ref": f"#/components/schemas/{META}"}
META_SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["owners", "uid"],
    "properties": {
        "created": {"type": "string"},
        "limit": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Quantity"}]},
        "owners": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.Owner"}},
        "uid": {"$ref": "#/components/schemas/io.k8s.Quantity"},
    },
}
META_VALUE: dict[str, object] = {"owners": [], "uid": "1"}


FITTING: list[dict[str, object]] = [{}, {"created": None}, {"limit": None}, {"owners": [{}]}]
UNFITTING: list[dict[str, object]] = [
    {"created": 1}, {"uid": None}, {"owners": None}, {"owners": [None]},
]  # fmt: skip


@pytest.mark.parametrize("name", ["Time", "MicroTime"])
def test_a_required_time_may_be_null_as_servers_write_it(name: str) -> None:
    time = f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
    event: dict[str, object] = {
        "type": "object",
        "required": ["at", "size"],
        "properties": {
            "at": {"allOf": [{"$ref": f"#/components/schemas/{time}"}], "description": "d"},
            "size": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Size"}]},
        },
    }
    own: dict[str, object] = {
        "type": "object",
        "properties": {"event": {"$ref": "#/components/schemas/io.k8s.Event"}},
    }
    others: dict[str, dict[str, object]] = {
        "io.k8s.Event": event,
        "io.k8s.Size": {"type": "integer"},
        time: {"type": "string", "format": "date-time"},
    }
    validator = DRAFT7(json_schema(thing(Thing=own, **others), KIND))
    named = {"apiVersion": "g.example.com/v1", "kind": "Thing"}

    def fits(**event: object) -> bool:
        return bool(validator.is_valid({**named, "event": event}))

    assert fits(at=None, size=1)
    assert not fits(at=None, size=None)
    assert not fits(at=1, size=1)
    assert not fits(size=1)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("metadata", "fits"),
    [*((given, True) for given in FITTING), *((given, False) for given in UNFITTING)],
)
def test_optional_fields_of_kubernetes_types_may_be_null(
    metadata: dict[str, object],
    fits: bool,  # noqa: FBT001 - a column
    strict: bool,  # noqa: FBT001 - a column
) -> None:
    own = {"type": "object", "properties": {"metadata": META_REF, "p": {"type": "string"}}}
    kubernetes: dict[str, dict[str, object]] = {
        META: META_SCHEMA,
        "io.k8s.Quantity": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "io.k8s.Owner": {"type": "object"},
    }
    document = thing(Thing=own, **kubernetes)
    validator = DRAFT7(json_schema(document, KIND, strict=strict))
    named = {"apiVersion": "g.example.com/v1", "kind": "Thing"}
    assert validator.is_valid({**named, "metadata": {**META_VALUE, **metadata}}) == fits
    assert validator.is_valid({**named, "metadata": None})
    assert not validator.is_valid({**named, "p": None})  # of a definition, where null is refused


@pytest.mark.parametrize(
    "word", ["deploy.apps", "Deployment.apps", "deployment.apps", "deployments.apps", "deploy"]
)
def test_group_may_follow_each_name(real: FakeApiServer, ask: Ask, word: str) -> None:
    assert json.loads(ask(real, "openapi", "schema", word).stdout)["title"] == "Deployment apps/v1"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind("", "v1", "Pod"), "pod-v1.json"),
        (Kind("apps", "v1", "Deployment"), "deployment-apps-v1.json"),
        (Kind("networking.k8s.io", "v1", "Ingress"), "ingress-networking-v1.json"),
    ],
)
def test_files_have_the_names_that_kubeconform_looks_for(kind: Kind, name: str) -> None:
    assert kind.file_name() == name


def test_files_of_different_kinds_have_different_names() -> None:
    first, second = Kind("a.example.com", "v1", "A"), Kind("a.example.org", "v1", "A")
    assert file_names({second: 0, first: 0}) == {
        first: "a-a-v1.json",
        second: "a-a.example.org-v1.json",
    }


# Their schemas are large and have no keyword that the others lack.
LARGE = ("apis/argoproj.io/", "apis/monitoring.coreos.com/")


def test_schemas_of_real_kinds_are_valid() -> None:
    """The strict ones, which are the others with `additionalProperties` added."""
    made = 0
    seen = set[str]()  # definitions, which kinds share
    for key, data in real_documents().items():
        if key.startswith(LARGE):
            continue
        document = json.loads(data)
        for kind in kinds(document):
            schema = json_schema(document, kind, strict=True)
            shared = cast("dict[str, object]", schema.get("definitions", {}))
            new = {name: each for name, each in shared.items() if json.dumps(each) not in seen}
            DRAFT7.check_schema({**schema, "definitions": new})
            seen.update(map(json.dumps, new.values()))
            made += 1
    assert made > 100


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"a": "b"}, "creationTimestamp": None},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
            },
        },
    },
}


def test_manifests_fit_and_strict_finds_misspellings(
    real: FakeApiServer, ask: Ask, tmp_path: Path
) -> None:
    assert ask(real, "openapi", "schema", "deploy", "-o", str(tmp_path / "a")).exit_code == 0
    ask(real, "openapi", "schema", "deployments.apps", "--strict", "-o", str(tmp_path / "b"))
    (loose,), (strict,) = (
        [DRAFT7(json.loads(file.read_bytes())) for file in (tmp_path / name).iterdir()]
        for name in "ab"
    )
    misspelt = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replica": 3}}
    wrong = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": "3"}}
    assert loose.is_valid(DEPLOYMENT)
    assert strict.is_valid(DEPLOYMENT)
    assert loose.is_valid(misspelt)
    assert not strict.is_valid(misspelt)
    assert not loose.is_valid(wrong)
    assert (tmp_path / "a" / "deployment-apps-v1.json").is_file()


def test_schemas_of_all_kinds_are_written(real: FakeApiServer, ask: Ask, tmp_path: Path) -> None:
    words = ["openapi", "schema", "--all", "--api-version", "cert-manager.io/v1"]
    assert ask(real, *words, "-o", str(tmp_path)).exit_code == 0
    names = ["certificate", "certificaterequest", "clusterissuer", "issuer"]
    assert sorted(file.name for file in tmp_path.glob("*.json")) == sorted(
        f"{name}{suffix}-cert-manager-v1.json" for name in names for suffix in ("", "list")
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["foos"], 1, 'the server doesn\'t have a resource type "foos"\n'),
        (["pods.spec"], 1, 'the server doesn\'t have a resource type "pods" in group "spec"\n'),
        (["deploy", "-o", "/dev/null/a"], 1, "error: /dev/null/a cannot be written: Not a dir"),
        (["pods", "--api-version=v9"], 1, "error: couldn't find resource for \"/v9, "),
        ([], 2, "error: want either a KIND or --all\n"),
        (["pods", "--all"], 2, "error: want either a KIND or --all\n"),
        (["--all"], 2, "error: --all wants a folder, -o DIR\n"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_an_error(
    real: FakeApiServer, ask: Ask, words: list[str], exit_code: int, said: str
) -> None:
    done = ask(real, "openapi", "schema", *words)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith(said)


def test_a_missing_kind_is_an_error() -> None:
    with pytest.raises(NotExplained, match=r"no schema of g\.example\.com/v1 Other"):
        json_schema(thing(Thing={}), replace(KIND, name="Other"))
