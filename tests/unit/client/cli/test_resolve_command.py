"""`apidiscovery resolve` prints what a name means, and says why when it means nothing."""

import json
from collections.abc import Iterator

import pytest
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import Outcome, run

Capture = pytest.CaptureFixture[str]


def resolve(capsys: Capture, server: FakeApiServer, *args: str) -> Outcome:
    return run(capsys, "resolve", "--server", server.url, *args)


@pytest.fixture(scope="module")
def api() -> Iterator[FakeApiServer]:
    """Return a server of the built-in APIs that no test changes."""
    with FakeApiServer() as server:
        yield server


def test_each_name_is_a_row_in_its_order(capsys: Capture, api: FakeApiServer) -> None:
    outcome = resolve(capsys, api, "deploy", "po/log", "Node")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout == (
        "NAME          SHORTNAMES   APIVERSION   NAMESPACED   KIND\n"
        "deployments   deploy       apps/v1      true         Deployment\n"
        "pods/log                   v1           true         Pod\n"
        "nodes         no           v1           false        Node\n"
    )


@pytest.mark.parametrize(
    ("output", "stdout"),
    [
        ("name", "deployments.apps\n"),
        (
            "wide",
            (
                "NAME          SHORTNAMES   APIVERSION   NAMESPACED   KIND         VERBS"
                "                                                        CATEGORIES\n"
                "deployments   deploy       apps/v1      true         Deployment   "
                "create,delete,deletecollection,get,list,patch,update,watch   all\n"
            ),
        ),
    ],
)
def test_other_forms(capsys: Capture, api: FakeApiServer, output: str, stdout: str) -> None:
    assert resolve(capsys, api, "deploy", "-o", output).stdout == stdout


def test_json_is_a_list_of_resources(capsys: Capture, api: FakeApiServer) -> None:
    told = json.loads(resolve(capsys, api, "deploy", "-o", "json").stdout)
    yaml = resolve(capsys, api, "deploy", "-o", "yaml").stdout
    assert told["kind"] == "APIResourceList"
    assert [(found["group"], found["name"]) for found in told["resources"]] == [
        ("apps", "deployments")
    ]
    assert yaml.startswith("apiVersion: v1\n")


def test_a_name_that_is_not_served_is_an_error_with_suggestions(
    capsys: Capture, api: FakeApiServer
) -> None:
    outcome = resolve(capsys, api, "deploymnt", "pods", "-o", "name")
    assert (outcome.exit_code, outcome.stdout) == (1, "pods\n")
    assert outcome.stderr.startswith(
        'error: the server doesn\'t have a resource type "deploymnt", did you mean deployment'
    )
    assert outcome.stderr.count("\n") == 1


def test_nothing_found_prints_no_header(capsys: Capture, api: FakeApiServer) -> None:
    assert resolve(capsys, api, "none").stdout == ""


def test_a_remembered_resource_is_found_with_a_warning(capsys: Capture) -> None:
    with FakeApiServer([group("example.com", v1=[resource("widgets", "Widget")])]) as server:
        resolve(capsys, server, "widgets")
        server.stale("example.com/v1")
        outcome = resolve(capsys, server, "widgets", "-o", "name")
        strict = resolve(capsys, server, "widgets", "--strict")
    assert (outcome.exit_code, outcome.stdout) == (0, "widgets.example.com\n")
    assert outcome.stderr.startswith("Warning: example.com/v1 is not current since ")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert strict.stderr.startswith("error: example.com/v1 has been stale since ")


def test_strict_refuses_what_several_groups_have(capsys: Capture, api: FakeApiServer) -> None:
    assert resolve(capsys, api, "events").exit_code == 0
    outcome = resolve(capsys, api, "events", "--strict")
    assert outcome.exit_code == 1
    assert outcome.stderr == 'error: "events" may be any of events.v1., events.v1.events.k8s.io\n'


def test_explain_prints_the_rules(capsys: Capture, api: FakeApiServer) -> None:
    outcome = resolve(capsys, api, "--explain", "deploy", "nonesuch")
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith('1. "deploy", as a short name, in any group\n')
    assert '"deploy" is deployments.v1.apps, kind Deployment\n' in outcome.stdout
    assert "Error: the server doesn't have a resource type" in outcome.stdout
    assert "\x1b" not in outcome.stdout


def test_cached_resolves_without_the_server(capsys: Capture) -> None:
    with FakeApiServer() as server:
        resolve(capsys, server, "po")
        server.down()
        assert resolve(capsys, server, "po", "--cached", "-o", "name").stdout == "pods\n"
        assert resolve(capsys, server, "po").exit_code == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "missing argument"),
        (("pods", "--explain", "-o", "json"), "--explain cannot be used with --output"),
        (("pods", "--explain", "--strict"), "--explain cannot be used with --output"),
        (("pods", "-o", "xml"), "'xml' is not one of"),
    ],
)
def test_bad_usage(capsys: Capture, args: tuple[str, ...], message: str) -> None:
    outcome = run(capsys, "resolve", *args)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert message in outcome.stderr


def test_a_line_feed_breaks_no_line_of_an_explanation(capsys: Capture) -> None:
    evil = resource("widgets", "W\nWarning: \u0085 run this")
    with FakeApiServer([group("example.com", v1=[evil])]) as server:
        outcome = resolve(capsys, server, "--explain", "wid\nError: none", "widgets")
    assert outcome.stdout.splitlines() == [
        '1. "wid\\x0aError: none", as a short name, in any group',
        "   no match",
        '2. "wid\\x0aError: none", as a plural or singular name, in any group',
        "   no match",
        '3. "wid\\x0aError: none", as a kind, in any version of the group that the text names',
        "   no match",
        'Error: the server doesn\'t have a resource type "wid\\x0aError: none"',
        "",
        '1. "widgets", as a plural or singular name, in any group',
        "   widgets.v1.example.com: it is the only one",
        '"widgets" is widgets.v1.example.com, kind W\\x0aWarning: \\u0085 run this',
    ]
