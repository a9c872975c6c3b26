"""`openapi get` prints documents as they came."""

import json
from collections.abc import Callable

import pytest
import yaml
from command_line import Outcome, run
from explained_cluster import real_documents
from fake_api_server import Answer, FakeApiServer, openapi_routes, sha512

Ask = Callable[..., Outcome]
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


def test_index_is_a_table(ask: Ask) -> None:
    with FakeApiServer(openapi_routes({"apis/g/v1": b"{}", "api/v1": b"[]"})) as server:
        done = ask(server, "openapi", "get")
    assert done.stdout.splitlines() == [
        "PATH        HASH",
        f"api/v1      {sha512(b'[]')}",
        f"apis/g/v1   {sha512(b'{}')}",
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_index_is_data_too(ask: Ask, output: str) -> None:
    with FakeApiServer(openapi_routes({"api/v1": b"{}"})) as server:
        done = ask(server, "openapi", "get", "-o", output)
    url = f"/openapi/v3/api/v1?hash={sha512(b'{}')}"
    assert yaml.safe_load(done.stdout) == {"paths": {"api/v1": {"serverRelativeURL": url}}}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("apps/v1", "apis/apps/v1"),
        ("v1", "api/v1"),
        ("apis/apiextensions.k8s.io", "apis/apiextensions.k8s.io"),
    ],
)
def test_one_document_is_printed_to_the_byte(
    real: FakeApiServer, ask: Ask, name: str, key: str
) -> None:
    done = ask(real, "openapi", "get", name)
    assert done.stdout.encode() == real_documents()[key]


def test_several_documents_are_lines_or_yaml_documents(real: FakeApiServer, ask: Ask) -> None:
    names = ["discovery.k8s.io/v1", "networking.k8s.io/v1alpha1"]
    wanted = [json.loads(real_documents()[f"apis/{name}"]) for name in names]
    lines = ask(real, "openapi", "get", *names).stdout.splitlines()
    assert [json.loads(line) for line in lines] == wanted
    loaded = list(yaml.safe_load_all(ask(real, "openapi", "get", *names, "-o", "yaml").stdout))
    assert loaded == wanted


def test_protobuf_is_asked_for_and_printed_as_it_came(real: FakeApiServer, ask: Ask) -> None:
    ask(real, "openapi", "get", "apps/v1", "-o", "protobuf")
    assert real.requests[-1].headers["accept"].startswith(f"{PROTOBUF},")
    assert ask(real, "openapi", "get", "-o", "protobuf").exit_code == 2


@pytest.mark.parametrize(
    ("content_type", "output", "done"),
    [
        (PROTOBUF, ["-o", "protobuf"], (0, "<html>", "")),
        ("text/html", ["-o", "protobuf"], (1, "", f"is 'text/html', not '{PROTOBUF}'")),
        ("text/html", [], (1, "", "is not JSON: Expecting value")),
    ],
)  # fmt: skip
def test_a_body_of_another_type_is_not_printed(
    ask: Ask, content_type: str, output: list[str], done: tuple[int, str, str]
) -> None:
    routes = openapi_routes({"api/v1": b"{}"})
    with FakeApiServer({**routes, "/openapi/v3/api/v1": Answer(b"<html>", content_type)}) as server:
        got = ask(server, "openapi", "get", "v1", *output)
    assert (got.exit_code, got.stdout) == done[:2]
    assert done[2] in got.stderr


def test_an_invalid_group_version_is_an_error(real: FakeApiServer, ask: Ask) -> None:
    done = ask(real, "openapi", "get", "a/b/c")
    assert (done.exit_code, done.stderr) == (1, "error: unexpected GroupVersion string: a/b/c\n")


def test_without_a_subcommand_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "openapi")
    assert done.exit_code == 0
    assert all(word in done.stdout for word in ("get", "bundle", "validate", "schema"))
