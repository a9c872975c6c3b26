"""Validation of schemas of definitions: each rule with its message and place."""

from typing import Any, ClassVar

import pytest
from apidiscovery_service.openapi.crd import schema_fields
from apidiscovery_service.openapi.crd.structural import field_path, is_structural, violations
from crd_goldens import manifests

ROOT = ("spec", "versions", 0, "schema", "openAPIV3Schema")
F = "properties[f]"
STRING = {"type": "string"}
ITEM = {"type": "object", "required": ["k"], "properties": {"k": STRING}}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def told(schema: object, *, status: bool = False) -> list[str]:
    """Return all violations as lines, without the path of the schema itself."""
    prefix = field_path(ROOT)
    return [
        f"{field_path(path).removeprefix(prefix).removeprefix('.')}: {message}"
        for path, message in violations(schema, ROOT, status=status)
    ]


def with_field(field: dict[str, Any], **root: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"f": field}, **root}


def test_real_schemas_are_accepted() -> None:
    for crd in manifests():
        for version in crd["spec"]["versions"]:
            status = "status" in version.get("subresources", {})
            found = told(version["schema"]["openAPIV3Schema"], status=status)
            assert (crd["metadata"]["name"], found) == (crd["metadata"]["name"], [])


NOTHING: dict[str, Any] = {}
NOT_STRUCTURAL: list[tuple[dict[str, Any], list[str]]] = [
    (NOTHING, ["type: Required value: must not be empty at the root"]),
    ({"type": "string"}, ['type: Invalid value: "string": must be object at the root']),
    (
        {"type": "text"},
        [
            'type: Invalid value: "text": must be object at the root',
            (
                'type: Unsupported value: "text": supported values: "array", "boolean", "integer",'
                ' "number", "object", "string"'
            ),
        ],
    ),
    (with_field({}), [f"{F}.type: Required value: must not be empty for specified object fields"]),
    (
        with_field({"type": "array", "items": {}}),
        [f"{F}.items.type: Required value: must not be empty for specified array items"],
    ),
    (with_field({"type": "array"}), [f"{F}.items: Required value: must be specified"]),
    (
        with_field({"type": "text"}),
        [
            (
                f'{F}.type: Unsupported value: "text": supported values: "array",'
                ' "boolean", "integer",'
                ' "number", "object", "string"'
            )
        ],
    ),
    (
        {"type": "object", "additionalProperties": STRING},
        ["additionalProperties: Forbidden: must not be used at the root"],
    ),
    (
        with_field({"type": "array", "items": [STRING]}),
        [f"{F}.items: Forbidden: items must be a schema object and not an array"],
    ),
    (
        with_field({"$ref": "#/a", "type": "string"}),
        [f"{F}.$ref: Forbidden: $ref is not supported"],
    ),
    (
        with_field({"type": "string", "x-kubernetes-preserve-unknown-fields": False}),
        [
            (
                f"{F}.x-kubernetes-preserve-unknown-fields: Invalid value: false:"
                " must be true or undefined"
            )
        ],
    ),
    (
        with_field(PRESERVE | {"x-kubernetes-int-or-string": True}),
        [
            (
                f"{F}.x-kubernetes-preserve-unknown-fields: Invalid value: true:"
                " must be false if x-kubernetes-int-or-string is true"
            )
        ],
    ),
    (
        with_field(PRESERVE | {"x-kubernetes-embedded-resource": True}),
        [f"{F}.type: Required value: must be object if x-kubernetes-embedded-resource is true"],
    ),
    (
        with_field(EMBEDDED | PRESERVE | {"type": "string"}),
        [
            (
                f'{F}.type: Invalid value: "string":'
                " must be object if x-kubernetes-embedded-resource is true"
            )
        ],
    ),
    (
        with_field(EMBEDDED),
        [
            (
                f"{F}.properties: Required value: must not be empty if"
                " x-kubernetes-embedded-resource is true without"
                " x-kubernetes-preserve-unknown-fields"
            )
        ],
    ),
    (
        with_field(EMBEDDED | PRESERVE | {"additionalProperties": STRING}),
        [
            (
                f"{F}.additionalProperties: Forbidden:"
                " must not be used if x-kubernetes-embedded-resource is set"
            )
        ],
    ),
    (
        with_field(EMBEDDED | PRESERVE | {"properties": {"metadata": STRING}}),
        [f'{F}.properties[metadata].type: Invalid value: "string": must be object'],
    ),
    (
        {"type": "object", "properties": {"kind": {"type": "integer"}}},
        ['properties[kind].type: Invalid value: "integer": must be string'],
    ),
    (
        {"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}},
        [
            (
                "properties[metadata]: Forbidden: must not specify anything other than name and"
                " generateName, but metadata is implicitly specified"
            )
        ],
    ),
    (
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": STRING}}},
        },
        [
            (
                "properties[metadata]: Forbidden: must not specify anything other than name and"
                " generateName, but metadata is implicitly specified"
            )
        ],
    ),
    (
        with_field(STRING, anyOf=[{"properties": {"g": NOTHING}}]),
        ["properties[g]: Required value: because it is defined in @.anyOf[0].properties[g]"],
    ),
    (
        with_field(STRING, **{"not": {"items": NOTHING}}),
        ["items: Required value: because it is defined in @.not.items"],
    ),
    (
        with_field(STRING, allOf=[{"properties": {"metadata": NOTHING}}]),
        [
            "allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            (
                "properties[metadata]: Required value:"
                " because it is defined in @.allOf[0].properties[metadata]"
            ),
        ],
    ),
]


@pytest.mark.parametrize(("schema", "expected"), NOT_STRUCTURAL)
def test_violations_of_structural_schemas_are_reported(
    schema: dict[str, Any], expected: list[str]
) -> None:
    assert told(schema) == [line.replace("@", field_path(ROOT)) for line in expected]
    assert not is_structural(schema_fields.read(schema))


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf", "not"])
@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("type", "string", "empty"),
        ("title", "t", "empty"),
        ("description", "d", "empty"),
        ("default", 0, "undefined"),
        ("nullable", True, "false"),
        ("additionalProperties", True, "undefined"),
        ("x-kubernetes-preserve-unknown-fields", True, "false"),
        ("x-kubernetes-embedded-resource", True, "false"),
        ("x-kubernetes-int-or-string", True, "false"),
    ],
)
def test_conditions_describe_nothing(word: str, name: str, value: object, wanted: str) -> None:
    condition = {"items": {name: value}}
    schema = {
        "type": "array",
        "items": {"type": "string"},
        word: condition if word == "not" else [condition],
    }
    place = f"{F}.{word}" if word == "not" else f"{F}.{word}[0]"
    assert f"{place}.items.{name}: Forbidden: must be {wanted} to be structural" in told(
        with_field(schema)
    )
    assert not is_structural(schema_fields.read(with_field(schema)))


INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"metadata": {"type": "object"}}},
        {
            "type": "object",
            "properties": {
                "metadata": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "maxLength": 3},
                        "generateName": STRING,
                    },
                }
            },
        },
        with_field(PRESERVE),
        with_field({"x-kubernetes-int-or-string": True}),
        with_field({"x-kubernetes-int-or-string": True, "anyOf": INT_OR_STRING}),
        with_field(
            {
                "x-kubernetes-int-or-string": True,
                "allOf": [{"anyOf": INT_OR_STRING}, {"pattern": "a"}],
            }
        ),
        with_field(EMBEDDED | PRESERVE),
        with_field(STRING, anyOf=[{"properties": {"f": {"pattern": "("}}}]),
        with_field({"type": "object", "additionalProperties": STRING}),
        {
            "type": "object",
            "properties": None,
            "x-kubernetes-validations": [{"rule": "true", "message": None}],
        },
    ],
)
def test_structural_schemas_are_accepted(schema: dict[str, Any]) -> None:
    assert told(schema) == []
    assert is_structural(schema_fields.read(schema))


def test_int_or_string_alternatives_count_in_their_own_order_only() -> None:
    schema = {"x-kubernetes-int-or-string": True, "anyOf": INT_OR_STRING[::-1]}
    assert not is_structural(schema_fields.read(with_field(schema)))


def map_list(**fields: object) -> dict[str, Any]:
    schema = {
        "type": "array",
        "items": ITEM,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    found = schema | {name.replace("_", "-"): value for name, value in fields.items()}
    return with_field({name: value for name, value in found.items() if value is not None})


def listed(items: dict[str, Any], list_type: str = "set") -> dict[str, Any]:
    return with_field({"type": "array", "items": items, "x-kubernetes-list-type": list_type})


def rule(**fields: object) -> dict[str, Any]:
    rules = [{"rule": "true", **fields}]
    return with_field({"type": "string", "x-kubernetes-validations": rules})


KEYS = f"{F}.x-kubernetes-list-map-keys"
RULE = f"{F}.x-kubernetes-validations[0]"
ATOMIC = "must be atomic as item of a list with x-kubernetes-list-type=set"
RULES = [
    (
        with_field({"type": "array", "items": STRING, "uniqueItems": True}),
        (
            f"{F}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime"
            " complexity becomes quadratic"
        ),
    ),
    (
        with_field({"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}),
        (
            f"{F}.additionalProperties: Forbidden: additionalProperties and properties are mutual"
            " exclusive"
        ),
    ),
    (
        {"type": "object", "nullable": True},
        "nullable: Forbidden: nullable cannot be true at the root",
    ),
    (
        {"type": "object", "properties": {"kind": {"type": "string", "default": "A"}}},
        "properties[kind].default: Forbidden: must not be set in top-level kind",
    ),
    (
        {
            "type": "object",
            "properties": {
                "metadata": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "default": "a"}},
                }
            },
        },
        (
            "properties[metadata].properties[name].default: Forbidden:"
            " must not be set in top-level metadata"
        ),
    ),
    (
        with_field(
            EMBEDDED
            | {
                "properties": {
                    "metadata": {
                        "type": "object",
                        "additionalProperties": {"type": "string", "default": "a"},
                    }
                }
            }
        ),
        (
            f"{F}.properties[metadata].additionalProperties.default: Forbidden: must"
            " not be set inside"
            " additionalProperties applying to object metadata"
        ),
    ),
    (
        with_field(EMBEDDED | {"properties": {"metadata": EMBEDDED | PRESERVE}}),
        (
            f"{F}.properties[metadata].x-kubernetes-embedded-resource: Forbidden:"
            " must not be used inside of resource meta"
        ),
    ),
    (with_field({"type": "string", "$ref": ""}), f"{F}.$ref: Forbidden: $ref is not supported"),
    (
        with_field({"type": "string", "dependencies": {}}),
        f"{F}.dependencies: Forbidden: dependencies is not supported",
    ),
    (
        with_field(PRESERVE | {"x-kubernetes-map-type": "atomic"}),
        f"{F}.type: Required value: must be object if x-kubernetes-map-type is specified",
    ),
    (
        with_field({"type": "object", "x-kubernetes-map-type": "x"}),
        (
            f'{F}.x-kubernetes-map-type: Unsupported value: "x": supported values:'
            ' "atomic", "granular"'
        ),
    ),
    (
        with_field({"type": "string", "x-kubernetes-list-type": "set"}),
        f'{F}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
    ),
    (
        listed(STRING, ""),
        (
            f'{F}.x-kubernetes-list-type: Unsupported value: "": supported values: "atomic", "set",'
            ' "map"'
        ),
    ),
    (
        listed({"type": "object"}),
        f"{F}.items.x-kubernetes-map-type: Invalid value: null: {ATOMIC}",
    ),
    (
        listed({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        f'{F}.items.x-kubernetes-list-type: Invalid value: "set": {ATOMIC}',
    ),
    (
        listed({"type": "string", "nullable": True}),
        f"{F}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
    ),
    (
        map_list(x_kubernetes_list_type=None),
        (
            f"{F}.x-kubernetes-list-type: Required value:"
            " must be map if x-kubernetes-list-map-keys is non-empty"
        ),
    ),
    (
        map_list(x_kubernetes_list_type="atomic"),
        (
            f'{F}.x-kubernetes-list-type: Invalid value: "atomic":'
            " must be map if x-kubernetes-list-map-keys is non-empty"
        ),
    ),
    (
        map_list(x_kubernetes_list_map_keys=None),
        f"{KEYS}: Required value: must not be empty if x-kubernetes-list-type is map",
    ),
    (
        map_list(items=STRING),
        (
            f'{F}.items.type: Invalid value: "string":'
            " must be object if parent array's x-kubernetes-list-type is map"
        ),
    ),
    (
        map_list(x_kubernetes_list_map_keys=["z"]),
        f'{KEYS}: Invalid value: ["z"]: entries must all be names of item properties',
    ),
    (
        map_list(x_kubernetes_list_map_keys=["k", "k"]),
        f'{KEYS}: Invalid value: ["k","k"]: must not contain duplicate entries',
    ),
    (
        map_list(items=ITEM | {"required": []}),
        (
            f"{F}.items.properties[k].default: Required value: this property is in"
            " x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ),
    ),
    (
        map_list(items=ITEM | {"properties": {"k": {"type": "string", "nullable": True}}}),
        (
            f"{F}.items.properties[k].nullable: Forbidden: this property is in"
            " x-kubernetes-list-map-keys, so it cannot be nullable"
        ),
    ),
    (
        map_list(items=ITEM | {"properties": {"k": {"type": "object"}}}),
        (
            f'{F}.items.properties[k].type: Invalid value: "object":'
            " must be a scalar type if parent array's x-kubernetes-list-type is map"
        ),
    ),
    (rule(rule=" "), f"{RULE}.rule: Required value: rule is not specified"),
    (rule(message=" "), f'{RULE}.message: Invalid value: " ": must be non-empty if specified'),
    (rule(message="a\nb"), f'{RULE}.message: Invalid value: "a\\nb": must not contain line breaks'),
    (
        rule(rule="a\nb"),
        f"{RULE}.message: Required value: message must be specified if rule contains line breaks",
    ),
    (
        rule(messageExpression=" "),
        (
            f"{RULE}.messageExpression: Required value:"
            " messageExpression must be non-empty if specified"
        ),
    ),
    (
        rule(reason="Because"),
        (
            f'{RULE}.reason: Unsupported value: "Because": supported values: "FieldValueDuplicate",'
            ' "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
        ),
    ),
    (rule(fieldPath=".a"), f'{RULE}.fieldPath: Invalid value: ".a": must be a valid path'),
]


@pytest.mark.parametrize(("schema", "expected"), RULES, ids=[expected for _, expected in RULES])
def test_rules_beside_structure(schema: dict[str, Any], expected: str) -> None:
    """They hinder creation, not publishing."""
    assert told(schema) == [expected]
    assert is_structural(schema_fields.read(schema))


def test_type_null_is_refused_with_the_alternative() -> None:
    assert told(with_field({"type": "null"}))[0] == (
        f"{F}.type: Forbidden: type cannot be set to null, use nullable as an alternative"
    )


class TestStatusSubresource:
    def test_allows_less_at_the_root(self) -> None:
        schema = {"type": "object", "minProperties": 1}
        assert told(schema) == []
        (line,) = told(schema, status=True)
        assert line.startswith(': Invalid value: ["minProperties"]: only [Description Type Format')
        assert line.endswith("root of the schema if the status subresource is enabled")

    def test_wants_an_object(self) -> None:
        lines = told({"type": "array", "items": STRING}, status=True)
        assert any('only "object" is allowed as the type' in line for line in lines)


class TestFieldPaths:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b.c": STRING, "it's": STRING}},
            "m": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"x": STRING}},
            },
        },
    }

    @pytest.mark.parametrize(
        ("text", "leads"),
        [
            (".a", True),
            (".a['b.c']", True),
            ("['a']['b.c']", True),
            (r".a['it\'s']", True),
            (".m.anything.x", True),
            (".m['any thing'].x", True),
            (".z", False),
            (".a.b.c", False),
            ("a", False),
            (".", False),
            (".a[", False),
            (".a[b]", False),
            (".a['b.c'", False),
            (r".a['\q']", False),
            (".a['b.c'].d", False),
            (".a['", False),
        ],
    )
    def test_lead_to_what_a_schema_describes(self, text: str, leads: bool) -> None:  # noqa: FBT001 - a table
        rules = [{"rule": "true", "fieldPath": text}]
        lines = told(self.SCHEMA | {"x-kubernetes-validations": rules})
        assert [line for line in lines if "must be a valid path" in line] == (
            [] if leads else lines
        )
        assert bool(lines) is not leads

    def test_are_parsed_in_linear_time(self) -> None:
        rules = [{"rule": "true", "fieldPath": "['" + "\\'" * 200_000}]
        assert len(told(self.SCHEMA | {"x-kubernetes-validations": rules})) == 1


class TestUnknownFields:
    def test_are_reported_with_their_path(self) -> None:
        schema = with_field({"type": "string", "x-own": 1, "externalDocs": {"uri": "u"}})
        assert [message for _, message in violations(schema, ROOT)] == [
            f'unknown field "{field_path(ROOT)}.{F}.x-own"',
            f'unknown field "{field_path(ROOT)}.{F}.externalDocs.uri"',
        ]

    def test_do_not_hinder_publishing(self) -> None:
        assert is_structural(schema_fields.read(with_field({"type": "string", "x-own": 1})))


class TestWrongTypes:
    @pytest.mark.parametrize(
        ("field", "line"),
        [
            ({"type": 1}, "type: Invalid value: 1: must be a string"),
            ({"maxLength": "1"}, 'maxLength: Invalid value: "1": must be an integer of 64 bits'),
            (
                {"maxLength": 2**63},
                f"maxLength: Invalid value: {2**63}: must be an integer of 64 bits",
            ),
            ({"maximum": True}, "maximum: Invalid value: true: must be a number"),
            ({"nullable": 0}, "nullable: Invalid value: 0: must be a boolean"),
            ({"required": "a"}, 'required: Invalid value: "a": must be an array'),
            ({"required": ["a", 1]}, "required[1]: Invalid value: 1: must be a string"),
            ({"properties": []}, 'properties: Invalid value: "array": must be an object'),
            ({"properties": {"a": []}}, 'properties[a]: Invalid value: "array": must be an object'),
            ({"allOf": {}}, 'allOf: Invalid value: "object": must be an array'),
            ({"not": True}, "not: Invalid value: true: must be an object"),
            (
                {"additionalProperties": "no"},
                'additionalProperties: Invalid value: "no": must be a boolean or a schema',
            ),
        ],
    )
    def test_are_the_only_reported_error(self, field: dict[str, Any], line: str) -> None:
        assert told(with_field(field)) == [f"{F}.{line}"]

    def test_a_long_value_is_shown_in_part(self) -> None:
        (line,) = told(with_field({"nullable": "é" * 1000}))
        assert len(line) < 300
        assert "é...: must be a boolean" in line


def test_a_property_named_like_a_word_of_schemas_is_a_key() -> None:
    path = ("properties", "properties", "properties", "items", "items", "anyOf", 1, "type")
    assert field_path(path) == "properties[properties].properties[items].items.anyOf[1].type"
