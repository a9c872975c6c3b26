"""Compact text of kinds: what it says, and how long it is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from apidiscovery_client.openapi.compact import MAX_DEPTH, compact_text
from apidiscovery_client.openapi.json_documents import UnsoundDocument
from apidiscovery_releases import Release
from command_line import Outcome
from fake_api_server import FakeApiServer

Ask = Callable[..., Outcome]
Json = dict[str, Any]
CORE = "io.k8s.api.core.v1"
TEXT = {"type": "string"}


def deployment(depth: int = 0) -> str:
    document = json.loads(Release.read("1.36").openapi_v3("apis/apps/v1"))
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    return compact_text(document, schema, "Deployment apps/v1", depth=depth)


def tokens(text: str) -> int:
    return len(text) // 4


def compact(
    properties: Json, schemas: Json | None = None, *, depth: int = 0, descriptions: bool = False
) -> list[str]:
    document = {"components": {"schemas": schemas or {}}}
    schema: Json = {"type": "object", "properties": properties, "required": ["must"]}
    return compact_text(
        document, schema, "Thing v1", depth=depth, descriptions=descriptions
    ).splitlines()[1:]


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/com.example.{name}"}


def test_a_deployment_to_depth_three_is_short() -> None:
    text = deployment(depth=3)
    assert tokens(text) <= 170
    assert text.splitlines()[:5] == [
        "Deployment apps/v1",
        "metadata ObjectMeta",
        "spec",
        " minReadySeconds int",
        " paused bool",
    ]
    assert "  spec ..." in text.splitlines()


def test_a_whole_deployment_has_every_field_once() -> None:
    text = deployment()
    assert tokens(text) < 6000
    assert text.splitlines().count("Container:") == 1
    assert " containers* [Container]" in text
    schemas: Json = json.loads(Release.read("1.36").openapi_v3("apis/apps/v1"))["components"]
    kinds = ("PodSpec", "Container", "EphemeralContainer", "Probe", "Volume")
    names: set[str] = {
        name for kind in kinds for name in schemas["schemas"][f"{CORE}.{kind}"]["properties"]
    }
    shown = {
        line.split(" #")[0].strip().partition(" ")[0].rstrip("*") for line in text.splitlines()
    }
    assert names - shown == set()


def test_descriptions_are_their_first_sentences() -> None:
    lines = compact(
        {"a": {**TEXT, "description": "The name. It is\nlong."}, "b": {**TEXT, "description": "x"}},
        descriptions=True,
    )
    assert lines == ["a string # The name.", "b string # x"]


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "integer", "format": "int32"}, "a int"),
        ({"type": "boolean"}, "a bool"),
        ({"type": "number"}, "a number"),
        ({}, "a any"),
        ({"type": "object"}, "a object"),
        ({"type": "string", "format": "date-time"}, "a time"),
        ({"type": "string", "format": "byte"}, "a base64"),
        ({"x-kubernetes-int-or-string": True}, "a int|string"),
        ({"type": "string", "enum": ["B", "", "A"]}, 'a B|""|A'),
        ({"type": "string", "default": "x"}, "a string=x"),
        ({"type": "integer", "default": 0}, "a int"),
        ({"type": "array", "items": TEXT}, "a [string]"),
        (
            {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}},
            "a {[string]}",
        ),
    ],
)
def test_types_are_short(schema: Json, shown: str) -> None:
    assert compact({"a": schema}) == [shown]


def test_required_fields_are_marked_and_levels_indented() -> None:
    inner = {"type": "object", "properties": {"x": TEXT}}
    lists = {"type": "array", "items": inner}
    assert compact({"must": inner, "list": lists}) == ["list []", " x string", "must*", " x string"]
    assert compact({"must": inner, "list": lists}, depth=1) == ["list [...]", "must* ..."]


def test_what_occurs_often_is_written_once() -> None:
    schemas = {"com.example.Pair": {"properties": {"x": TEXT, "y": TEXT}}}
    used = {"a": ref("Pair"), "b": {"type": "array", "items": ref("Pair")}}
    assert compact(used, schemas) == [
        "a Pair",
        "b [Pair]",
        "",
        "Pair:",
        "x string",
        "y string",
    ]


def test_equal_parts_without_a_name_are_called_after_their_field() -> None:
    part = {"type": "object", "properties": {"x": TEXT, "y": TEXT}}
    assert compact({"one": part, "two": part})[:3] == ["one One", "two One", ""]


def test_two_types_of_one_name_are_told_apart() -> None:
    schemas = {
        "com.example.a.Pair": {"properties": {"x": TEXT, "y": TEXT}},
        "com.example.b.Pair": {"properties": {"x": TEXT, "z": TEXT}},
    }
    names = ("a.Pair", "b.Pair")
    used = {
        f"{at}{number}": ref(name)
        for number in (1, 2)
        for at, name in zip("pq", names, strict=True)
    }
    lines = compact(used, schemas)
    assert lines[:4] == ["p1 Pair", "p2 Pair", "q1 Pair2", "q2 Pair2"]
    assert lines.count("Pair:") == lines.count("Pair2:") == 1


def test_a_type_within_itself_is_named() -> None:
    schemas = {"com.example.Node": {"properties": {"next": ref("Node"), "v": TEXT}}}
    assert compact({"root": ref("Node")}, schemas) == [
        "root Node",
        "",
        "Node:",
        "next Node",
        "v string",
    ]


def test_schemas_that_are_too_deep_are_refused() -> None:
    schema: Json = TEXT
    for _ in range(MAX_DEPTH + 1):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(UnsoundDocument, match="nested more than"):
        compact({"a": schema})


# --------------------------------------------------------------------------------------------------
# The command.


def test_explain_prints_it(real: FakeApiServer, ask: Ask) -> None:
    found = ask(real, "explain", "deploy", "--depth", "1", "-o", "compact")
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        ["Deployment apps/v1", "metadata ObjectMeta", "spec ...", "status ..."],
    )


def test_explain_takes_a_field(real: FakeApiServer, ask: Ask) -> None:
    found = ask(real, "explain", "deploy.spec.strategy", "--descriptions", "-o", "compact")
    lines = found.stdout.splitlines()
    assert lines[0] == "Deployment apps/v1 spec.strategy"
    assert lines[1].startswith("rollingUpdate # Rolling update config params.")
    assert lines[2].startswith(" maxSurge int|string # The maximum number of pods")


def test_explain_prints_definitions(real: FakeApiServer, ask: Ask) -> None:
    found = ask(real, "explain", "certificates.cert-manager.io", "-o", "compact")
    assert "  algorithm RSA|ECDSA|Ed25519" in found.stdout.splitlines()


@pytest.mark.parametrize(
    "args",
    [
        ("--depth", "1"),
        ("--descriptions",),
        ("--recursive", "-o", "compact"),
        ("--depth", "-1", "-o", "compact"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    real: FakeApiServer, ask: Ask, args: tuple[str, ...]
) -> None:
    found = ask(real, "explain", "deploy", *args)
    assert (found.exit_code, found.stdout) == (2, "")


def test_a_field_that_does_not_exist_is_an_error(real: FakeApiServer, ask: Ask) -> None:
    found = ask(real, "explain", "deploy.spec.nothing", "-o", "compact")
    assert (found.exit_code, found.stdout) == (1, "")
    assert 'field "nothing" does not exist' in found.stderr
