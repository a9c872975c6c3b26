"""Examples are valid by the schema that they are made from."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from apidiscovery_formats.openapi.json_schema import Kind, json_schema, kinds
from apidiscovery_service.web.example import MAX_VALUES, Named, NoExample, example, manifest
from apidiscovery_service.web.field_schemas import Schemas
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # it has no types here
from repository import GOLDEN

DRAFT7: Any = Draft7Validator


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(GOLDEN.glob("openapi-v3/ap*.json.gz")):
        yield path.name, json.loads(gzip.decompress(path.read_bytes()))
    for path in sorted(GOLDEN.glob("crds/openapi/*")):
        if path.name.endswith((".json", ".json.gz")):
            body = path.read_bytes()
            plain = gzip.decompress(body) if path.suffix == ".gz" else body
            found: dict[str, Any] = json.loads(plain)
            if "components" in found:
                yield path.name, found


def of(document: dict[str, Any], kind: Kind, **changes: bool) -> dict[str, Any]:
    schemas = Schemas(document)
    root = schemas.of_kind(kind.group, kind.version, kind.name)
    assert root is not None
    named = Named(kind.api_version, kind.name, changes.get("namespaced", True))
    return example(schemas, root, named)


def test_every_kind_of_the_documents_has_a_valid_example() -> None:
    count = 0
    for name, document in documents():
        for kind in kinds(document):
            if kind.name.endswith("List"):
                continue
            schema = json_schema(document, kind, strict=True)
            errors = [error.message for error in DRAFT7(schema).iter_errors(of(document, kind))]
            assert errors == [], (name, kind)
            count += 1
    assert count > 60


def test_a_deployment_is_one_that_an_api_server_takes() -> None:
    (document,) = (found for name, found in documents() if name.startswith("apis__apps__v1"))
    schemas = Schemas(document)
    root = schemas.of_kind("apps", "v1", "Deployment")
    assert root is not None
    text = manifest(schemas, root, Named("apps/v1", "Deployment", is_namespaced=True))
    assert "*id" not in text  # no alias of YAML
    spec = yaml.safe_load(text)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels != {}
    assert spec["template"]["spec"]["containers"] == [{"image": "example", "name": "example"}]


def made(**spec: Any) -> Any:  # noqa: ANN401 - JSON
    root: dict[str, Any] = {"properties": {"spec": spec}, "required": ["spec"]}
    schemas = Schemas({"components": {"schemas": {"Root": root}}})
    found = example(schemas, root, Named("a/v1", "A", is_namespaced=False))["spec"]
    DRAFT7(spec).validate(found)
    return found


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}, id="pattern"),
        pytest.param({"type": "string", "pattern": "^(?:foo|bar)/x+$"}, id="group"),
        pytest.param({"type": "string", "minLength": 40, "maxLength": 41}, id="length"),
        pytest.param({"type": "string", "enum": ["", "b"]}, id="enum"),
        pytest.param({"type": "integer", "minimum": 7, "multipleOf": 5}, id="multiple"),
        pytest.param({"type": "integer", "maximum": -3}, id="negative"),
        pytest.param({"type": "array", "minItems": 3, "items": {"type": "integer"}}, id="items"),
        pytest.param(
            {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}},
            id="map",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["b"]}, {"required": ["a"]}],
            },
            id="one-of",
        ),
    ],
)
def test_an_example_satisfies_its_schema(schema: dict[str, Any]) -> None:
    made(**schema)


def test_a_default_wins_over_a_made_up_value() -> None:
    assert made(type="string", default="given") == "given"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        pytest.param(
            {"type": "array", "minItems": 10**9, "items": {"type": "string"}},
            f"more than {MAX_VALUES:,} values",
            id="too-many-items",
        ),
        pytest.param({"type": "string", "minLength": 10**9}, "length of at least", id="too-long"),
        pytest.param({"type": "string", "pattern": "^a(?=b)c$"}, "pattern", id="not-decided"),
    ],
)
def test_a_schema_without_an_example_is_an_error_with_its_reason(
    schema: dict[str, Any], told: str
) -> None:
    with pytest.raises(NoExample, match=told):
        made(**schema)


def test_a_pattern_of_exponential_time_is_refused() -> None:
    with pytest.raises(NoExample):
        made(type="string", pattern="^(a+)+b(?=c)$", minLength=900)
