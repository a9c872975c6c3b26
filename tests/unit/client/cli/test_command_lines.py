"""Rules of all command lines: options of servers, help, and suggestions."""

import re
import shlex
from pathlib import Path

import click
import pytest
from apidiscovery_cli.examples import EXAMPLES
from apidiscovery_cli.group import OWN, apidiscovery
from command_line import run
from fake_api_server import FakeApiServer, aggregated
from server import Server
from upstream_setup import item

Capture = pytest.CaptureFixture[str]
ROUTES = {"/api": aggregated(), "/apis": aggregated(item("a.example.com"))}
LINES = [line for lines in EXAMPLES.values() for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    "form", ["after", "before", "equals", "short"], ids=lambda form: f"the server {form}"
)
def test_options_of_servers_stand_before_or_after_the_command(capsys: Capture, form: str) -> None:
    with FakeApiServer(ROUTES) as server:
        given = {
            "after": ("api-versions", "--server", server.url),
            "before": ("--server", server.url, "--disable-compression", "api-versions"),
            "equals": (f"--server={server.url}", "api-versions"),
            "short": ("-s", server.url, "api-versions"),
        }
        outcome = run(capsys, *given[form])
    assert (outcome.exit_code, outcome.stdout) == (0, "a.example.com/v1\n"), outcome


def test_options_go_on_to_nested_commands(capsys: Capture, tmp_path: Path) -> None:
    with FakeApiServer(ROUTES) as server:
        file = str(tmp_path / "saved.json")
        outcome = run(capsys, "--server", server.url, "snapshot", "save", file)
    assert outcome.exit_code == 0, outcome
    assert "a.example.com" in Path(file).read_text()


@pytest.mark.parametrize("command", ["api-versions", "api-resources", "resolve deployments"])
def test_listings_are_the_same_over_grpc(capsys: Capture, server: Server, command: str) -> None:
    over = [
        run(capsys, *command.split(), "--no-cache", "--server", url)
        for url in (server.url, f"grpc://{server.grpc}")
    ]
    assert over[0].exit_code == 0
    assert over[0] == over[1]


def test_commands_over_grpc_take_the_same_option(capsys: Capture, server: Server) -> None:
    given = [
        ("get", "sources", "--server", f"grpc://{server.grpc}"),
        ("get", "sources", "-s", server.grpc),
        ("--server", server.grpc, "get", "sources"),
        ("get", "sources", "--grpc-server", server.grpc),
    ]
    outcomes = [run(capsys, *words) for words in given]
    assert outcomes[0].stdout.startswith("NAME ")
    assert outcomes == [outcomes[0]] * len(given)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("get", "sources", "--server", "http://h:1"),
            "want grpc://HOST:PORT, or grpcs:// for TLS",
        ),
        (("explain", "pods", "--server", "grpc://h:1"), "asked over HTTP; want http(s)://"),
        (("api-versions", "--server", "ftp://h:1"), "begins with 'ftp', not http, https, grpc"),
        (("get", "crds", "-s", "grpcs://h:1", "--plaintext"), "together with options for TLS"),
        (("get", "crds", "-s", "grpc://h:1", "--context", "x"), "grpc://, which is without TLS,"),
        (
            ("api-versions", "--server", "grpc://192.0.2.1:1", "--token", "x"),
            "a token is not sent without TLS",
        ),
        (("dif", "a", "b"), "no such command 'dif'. Did you mean 'diff'?"),
        (("openapi", "gt"), "no such command 'gt'. Did you mean 'get'?"),
        (("api-versions", "--servr", "x"), "Did you mean"),
        (("--no-such", "api-versions"), "no such option '--no-such'"),
    ],
)
def test_a_wrong_command_line_says_what_is_wanted(
    capsys: Capture, words: tuple[str, ...], said: str
) -> None:
    outcome = run(capsys, *words)
    assert outcome.exit_code == 2
    assert said in outcome.stderr


def test_help_shows_common_options_once(capsys: Capture) -> None:
    page = run(capsys, "api-resources", "--help").stdout
    titles = re.findall(r"^([A-Z][a-z]+):$", page, re.MULTILINE)
    assert titles == ["Options", "Server", "Examples"]
    assert "--insecure-skip-tls-verify" not in page
    assert "'apidiscovery options' has all options" in page
    everything = run(capsys, "options").stdout
    for name in ("--server", "--insecure-skip-tls-verify", "--as-group", "--token-file"):
        assert everything.count(f"  {name} ") + everything.count(f", {name} ") == 1, name


def test_the_help_lists_every_command_once(capsys: Capture) -> None:
    page = run(capsys, "--help").stdout
    for name in (*OWN, "serve"):
        assert len(re.findall(rf"^  {name} ", page, re.MULTILINE)) == 1, name


def test_help_is_as_wide_as_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    for columns in ("60", "110"):
        monkeypatch.setenv("COLUMNS", columns)
        page = run(capsys, "fleet", "--help").stdout
        text, _, examples = page.partition("Examples:")
        widths.append(max(map(len, text.splitlines())))
        assert "apidiscovery fleet best deployments --all-contexts" in examples.splitlines()[-1]
    assert widths[0] <= 60 < widths[1] <= 110


@pytest.mark.parametrize("line", LINES)
def test_examples_have_existing_commands_and_options(line: str) -> None:
    words = shlex.split(line.rpartition("|")[2].removeprefix("source <(").removesuffix(")"))
    assert words[0] == "apidiscovery"
    context = click.Context(apidiscovery, info_name="apidiscovery")
    command: click.Command = apidiscovery
    left = words[1:]
    while isinstance(command, click.Group):
        _, found, left = command.resolve_command(context, left)
        assert found is not None
        command = found
    command.make_context("it", left, resilient_parsing=False)


def test_no_command_has_more_than_three_examples() -> None:
    counts = {
        words: sum(line.startswith("#") for line in lines) for words, lines in EXAMPLES.items()
    }
    assert max(counts.values()) <= 3
