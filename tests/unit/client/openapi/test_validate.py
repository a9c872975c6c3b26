"""`openapi validate` says what is wrong with a document, and where."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from apidiscovery_cli.openapi.validation import MAX_PROBLEMS, problems
from apidiscovery_client._http.reply import MAX_BODY_BYTES
from command_line import Outcome
from explained_cluster import real_documents
from fake_api_server import FakeApiServer, openapi_routes
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV30SpecValidator

Ask = Callable[..., Outcome]

SOUND: dict[str, object] = {
    "openapi": "3.0.3",
    "info": {"title": "t", "version": "v"},
    "paths": {
        "/a/{n}": {
            "parameters": [{"$ref": "#/components/parameters/N"}],
            "get": {
                "operationId": "get",
                "security": [{"S": []}],
                "responses": {"200": {"description": "d"}, "4XX": {"description": "d"}},
            },
        }
    },
    "components": {
        "parameters": {"N": {"name": "n", "in": "path", "required": True, "schema": {}}},
        "schemas": {"A": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}},
        "securitySchemes": {"S": {"type": "apiKey", "in": "header", "name": "x"}},
    },
}
GET = ["paths", "/a/{n}", "get"]
SCHEMA = ["components", "schemas", "A"]


def told(document: object) -> list[str]:
    return [str(problem) for problem in problems(json.dumps(document).encode())]


def with_value(path: list[str], value: object) -> object:
    """Return the sound document with another value at a place; None removes it."""
    document = json.loads(json.dumps(SOUND))
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


BROKEN: list[tuple[list[str], object, str]] = [
    (["openapi"], None, "$: openapi is required"),
    (["openapi"], "2.0", "$.openapi: want 3.0.x, got '2.0'"),
    (["swagger"], "2.0", "$.swagger: OpenAPI 3.0 has no such field here"),
    (["paths"], [], "$.paths: want an object, got a list"),
    (["paths", "/a/{m}"], {}, "$.paths['/a/{m}']: is the same path as '/a/{n}'"),
    ([*GET, "responses"], None, "$.paths['/a/{n}'].get: responses is required"),
    ([*GET, "responses"], {}, "$.paths['/a/{n}'].get.responses: want at least one response"),
    (
        [*GET, "security"],
        [{"T": []}],
        "$.paths['/a/{n}'].get.security[0].T: no security scheme has this name",
    ),
    (SCHEMA, True, "$.components.schemas.A: want an object, got true"),
    ([*SCHEMA, "enum"], [], "$.components.schemas.A.enum: want at least one"),
    ([*SCHEMA, "allOf"], [], "$.components.schemas.A.allOf: want at least one"),
    (
        [*SCHEMA, "items"],
        {"$ref": "#/components/schemas/B"},
        "$.components.schemas.A.items['$ref']: '#/components/schemas/B' is not in the document",
    ),
    (
        [*SCHEMA, "items"],
        {"$ref": "#/components/schemas/A/properties/b"},
        "'#/components/schemas/A/properties/b' is not in the document",
    ),
    (
        [*SCHEMA, "items"],
        {"$ref": "other.json"},
        "['$ref']: want #/components/schemas/NAME, got 'other.json'",
    ),
    (
        [*SCHEMA, "items"],
        {"$ref": "#/components/parameters/N"},
        "want #/components/schemas/NAME, got '#/components/parameters/N'",
    ),
    ([*SCHEMA, "maximum"], 2**64, "$.components.schemas.A.maximum: want a number of 64 bits"),
    ([*SCHEMA, "title"], "\ud800", "$.components.schemas.A.title: want Unicode"),
]


def test_sound_document_has_no_problem() -> None:
    assert told(SOUND) == []
    assert list(OpenAPIV30SpecValidator(SOUND).iter_errors()) == []


@pytest.mark.parametrize(("path", "value", "said"), BROKEN, ids=[said for *_, said in BROKEN])
def test_each_problem_has_its_place(path: list[str], value: object, said: str) -> None:
    assert any(said in line for line in told(with_value(path, value)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ([*SCHEMA, "items"], {"$ref": "#/components/parameters/N/schema"}),
        (["paths", "/b"], {"$ref": "#/components/x-paths/b"}),
    ],
)
def test_references_that_servers_may_not_publish_can_be_sound(
    path: list[str], value: object
) -> None:
    assert told(with_value(path, value)) == []


def test_every_problem_is_found() -> None:
    document = {"openapi": 3, "info": {}, "paths": {"a": {"get": 1, "b": 2}}}
    assert len(told(document)) == 6


def test_operation_ids_are_unique() -> None:
    operation = {"operationId": "get", "responses": {"default": {"description": ""}}}
    document = with_value(["paths", "/b"], {"get": operation})
    place = "$.paths['/a/{n}'].get.operationId"
    assert told(document) == [f"$.paths['/b'].get.operationId: 'get' is there already, at {place}"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is not JSON"),
        (b"[]", "want an object, got a list"),
        (b'{"a":' * 100_000, "it is nested too deeply"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "it is nested too deeply"),
        (b'{"openapi":"3.0.0","openapi":"3.0.0"}', "'openapi' is duplicated"),
        (b"\xff", "it is not JSON"),
    ],
)
def test_a_body_that_is_no_document_is_a_problem(data: bytes, said: str) -> None:
    assert any(said in str(problem) for problem in problems(data))


def test_number_of_problems_is_bounded() -> None:
    schemas = {f"S{number}": {"type": number} for number in range(3 * MAX_PROBLEMS)}
    assert len(told(with_value(["components", "schemas"], schemas))) == MAX_PROBLEMS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "type", "properties", "items", "get", "parameters", "in", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from([SCHEMA, GET, ["paths"], ["components", "parameters", "N"], ["tags"]]),
    json_values,
)
def test_any_value_anywhere_gives_problems_or_none_but_never_a_crash(
    path: list[str], value: object
) -> None:
    assert all(line.startswith("$") for line in told(with_value(path, value or {})))


def test_real_documents_are_sound() -> None:
    assert {key: found for key, data in real_documents().items() if (found := problems(data))} == {}


def test_command_validates_files(ask: Ask, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.yaml"
    good.write_text(json.dumps(SOUND))
    bad.write_text("openapi: 3.0.0\ninfo: {title: t}\npaths: {}\n")
    with FakeApiServer({}) as server:
        done = ask(server, "openapi", "validate", str(good), str(bad))
        sound = ask(server, "openapi", "validate", str(good))
    lines = [f"{good} is sound", f"{bad}: $.info: version is required"]
    assert (done.exit_code, done.stdout.splitlines(), done.stderr) == (1, lines, "")
    assert (sound.exit_code, sound.stdout) == (0, f"{good} is sound\n")
    assert server.paths == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: *a\n", "standard input: $: line 1: no YAML: found undefined alias 'a'"),
        ("\na: [\n", "standard input: $: line 3: no YAML: "),
        ("a: 1\na: 2\n", "standard input: $: line 2: the key 'a' is there twice"),
        ("a: .inf\n", "standard input: $: line 1: no YAML: .inf is nothing that JSON has"),
        ("a: " + "[" * 900 + "]" * 900, "nested deeper than 128 levels"),
        ("a: " + "[" * 125 + "]" * 125, "standard input: $: it is nested too deeply"),
        (
            "a0: &a0 [0,0]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n},*a{n}]\n" for n in range(30)),
            "more than 5000000 values",
        ),
    ],
)
def test_unusable_yaml_is_told(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with FakeApiServer({}) as server:
        done = ask(server, "openapi", "validate", "-")
    assert done.exit_code == 1
    assert said in done.stdout


def test_yaml_is_read_as_by_kubectl(ask: Ask, tmp_path: Path) -> None:
    """Names that are numbers, dates, aliases: ten thousand times 100 KB are not written out."""
    file = tmp_path / "document.yaml"
    file.write_text(
        "openapi: 3.0.0\ninfo: {title: t, version: 2026-01-01}\n"
        "paths: {/a: {get: {responses: {200: {description: d}}}}}\n"
        f"x-a: &a {'x' * 100_000}\nx-b: [{'*a, ' * 10_000}]\n"
    )
    with FakeApiServer({}) as server:
        done = ask(server, "openapi", "validate", str(file))
    assert (done.exit_code, done.stdout) == (0, f"{file} is sound\n")


def test_command_validates_every_document_of_a_server(ask: Ask) -> None:
    sound = json.dumps(SOUND).encode()
    with FakeApiServer(openapi_routes({"api/v1": sound, "apis/g/v1": b"{}"})) as server:
        done = ask(server, "openapi", "validate")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "/openapi/v3/api/v1 is sound",
        "/openapi/v3/apis/g/v1: $: openapi is required",
        "/openapi/v3/apis/g/v1: $: info is required",
        "/openapi/v3/apis/g/v1: $: paths is required",
    ]


def test_documents_of_a_server_are_not_read_as_yaml(ask: Ask) -> None:
    with FakeApiServer(openapi_routes({"api/v1": b"openapi: 3.0.0\n"})) as server:
        done = ask(server, "openapi", "validate")
    assert done.exit_code == 1
    assert done.stdout.startswith("/openapi/v3/api/v1: $: it is not JSON: ")


def test_a_file_that_is_too_large_is_not_read_to_its_end(ask: Ask, tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(MAX_BODY_BYTES + 10)
    said = f"it has {MAX_BODY_BYTES + 10} bytes, more than {MAX_BODY_BYTES}"
    with FakeApiServer({}) as server:
        done = ask(server, "openapi", "validate", str(large))
    assert done == Outcome(2, "", f"error: {large}: {said}\n")


def test_standard_input_that_does_not_end_is_not_read_to_its_end(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"it has at least {MAX_BODY_BYTES + 1} bytes, more than {MAX_BODY_BYTES}"
    with Path("/dev/zero").open() as endless, FakeApiServer({}) as server:
        monkeypatch.setattr("sys.stdin", endless)
        done = ask(server, "openapi", "validate", "-")
    assert done == Outcome(2, "", f"error: standard input: {said}\n")


def test_exit_code_is_2_without_a_result(ask: Ask, tmp_path: Path) -> None:
    with FakeApiServer({}) as server:
        assert ask(server, "openapi", "validate").exit_code == 2
        assert ask(server, "openapi", "validate", str(tmp_path / "none")).exit_code == 2
