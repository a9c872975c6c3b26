"""Shells complete commands, options and, from the disk cache, names of resources."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from apidiscovery_cli.kubectl_complete import main as complete_for_kubectl
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import run
from kubectl_config import several
from programs import run_apidiscovery, with_command
from server import Server

from tools import find_tool

Capture = pytest.CaptureFixture[str]

WIDGETS = group("example.com", v1=[resource("widgets", "Widget", short_names=["wd"])])

_BASH = """
set -e
eval "$(apidiscovery completion bash)"
candidates() {
    COMP_WORDS=(apidiscovery "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _apidiscovery_completion apidiscovery
    echo "${COMPREPLY[@]}"
}
"""
_ZSH = """
autoload -Uz compinit && compinit -u
eval "$(apidiscovery completion zsh)"
(( $+functions[_apidiscovery_completion] )) && print -r -- "$_comps[apidiscovery]"
"""


def printed(home: Path, program: str, *args: str) -> str:
    """Return what a program prints that finds our commands."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [find_tool(program), *args],
        env=with_command(home),
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


def kubectl_complete(capsys: Capture, *words: str) -> list[str]:
    """Return the lines for the last of some words, in this process."""
    assert complete_for_kubectl(words) == 0
    return capsys.readouterr().out.splitlines()


def completed(capsys: Capture, *words: str) -> list[str]:
    """Return the candidates without their descriptions."""
    *lines, directive = kubectl_complete(capsys, *words)
    assert directive == ":4"
    return [line.partition("\t")[0] for line in lines]


def test_bash_completes_commands_options_and_resources(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        assert run_apidiscovery(tmp_path, "api-resources", "-s", server.url).exit_code == 0
        server.forget_requests()
        lines = ("api-", "resolve --ex", "completion ''", f"resolve -s {server.url} w")
        script = _BASH + "".join(f"candidates {line}\n" for line in lines)
        assert printed(tmp_path, "bash", "--norc", "-c", script).splitlines() == [
            "api-resources api-versions",
            "--explain",
            "bash zsh fish powershell",
            "wd widgets widgets.example.com",
        ]
        assert not server.requests


def test_resources_are_completed_from_the_cache_without_a_request(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        words = ("resolve", "-s", server.url, "w")
        assert completed(capsys, *words) == []
        assert not server.requests
        assert run(capsys, "api-resources", "-s", server.url).exit_code == 0
        server.forget_requests()
        assert completed(capsys, *words) == ["wd", "widgets", "widgets.example.com"]
        names = completed(capsys, "explain", "--server", server.url, "wi")
        assert names == ["widgets", "widgets.example.com"]
        assert not server.requests


def test_a_kubeconfig_of_the_command_line_names_the_server(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a variable names another one, as in the command itself."""
    gadgets = group("example.com", v1=[resource("gadgets", "Gadget")])
    with FakeApiServer([WIDGETS]) as server, FakeApiServer([gadgets]) as other:
        file = tmp_path / "config"
        file.write_text(json.dumps(server.kubeconfig()))
        for named in (("--kubeconfig", str(file)), ("-s", other.url)):
            assert run(capsys, "api-resources", *named).exit_code == 0
        monkeypatch.setenv("APIDISCOVERY_SERVER", other.url)
        found = completed(capsys, "resolve", "--kubeconfig", str(file), "")
    assert found == ["wd", "widgets", "widgets.example.com"]


def test_sides_are_completed(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(several(**{"prod-east": "https://h:1", "dev": "https://h:1"})))
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert completed(capsys, "diff", "context:p") == ["context:prod-east"]
    releases = completed(capsys, "check", "--against", "kubernetes:1.3")
    assert {"kubernetes:1.30", "kubernetes:1.36"} <= set(releases)
    assert completed(capsys, "diff", "--server", "h:1", "cluster:") == ["cluster:"]


def test_types_and_names_of_the_server_are_completed(capsys: Capture, server: Server) -> None:
    assert completed(capsys, "get", "so") == ["sources"]
    assert completed(capsys, "get", "--server", server.grpc, "sources", "cat") == ["catalog"]
    assert completed(capsys, "get", "--server", "127.0.0.1:1", "sources", "cat") == []


@pytest.mark.parametrize(
    "words",
    [
        ("resolve", "--kubeconfig", "/nonexistent", "w"),
        ("resolve", "--server", "ftp://nowhere", "w"),
        ("resolve", "--cache-dir", "/dev/null", "w"),
        ("resolve", "--no-cache", "w"),
        ("resolve", "--no-cache", "--cache-dir", "x", "w"),
    ],
)
def test_an_invalid_command_line_has_no_candidates(capsys: Capture, words: tuple[str, ...]) -> None:
    assert completed(capsys, *words) == []


def test_zsh_takes_the_script(tmp_path: Path) -> None:
    assert printed(tmp_path, "zsh", "-f", "-c", _ZSH) == "_apidiscovery_completion\n"


def test_fish_completes(tmp_path: Path) -> None:
    script = 'apidiscovery completion fish | source; complete -C "apidiscovery api-"'
    lines = printed(tmp_path, "fish", "--no-config", "-c", script).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["api-resources", "api-versions"]


@pytest.mark.parametrize(
    ("words", "incomplete", "candidates"),
    [
        ("apidiscovery api-", "api-", ["api-resources", "api-versions"]),
        ("apidiscovery completion ", "", ["bash", "zsh", "fish", "powershell"]),
        ("apidiscovery resolve --ex", "--ex", ["--explain"]),
    ],
)
def test_powershell_gets_a_line_for_each_candidate(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    incomplete: str,
    candidates: list[str],
) -> None:
    monkeypatch.setenv("_APIDISCOVERY_COMPLETE", "powershell_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", incomplete)
    with pytest.raises(SystemExit):
        run(capsys)
    printed_by_us = capsys.readouterr()
    rows = [line.split("\t") for line in printed_by_us.out.splitlines()]
    assert [value for _, value, _ in rows] == candidates
    assert {kind for kind, _, _ in rows} == {"plain"}
    assert printed_by_us.err == ""


def test_powershells_script_names_what_it_runs(capsys: Capture) -> None:
    script = run(capsys, "completion", "powershell").stdout
    assert "-CommandName apidiscovery " in script
    assert "$env:_APIDISCOVERY_COMPLETE = 'powershell_complete'" in script
    assert script.count("{") == script.count("}")


@pytest.mark.skipif(not shutil.which("pwsh"), reason="pwsh is not installed")
def test_powershell_evaluates_the_script(tmp_path: Path) -> None:
    script = (
        "apidiscovery completion powershell | Out-String | Invoke-Expression;"
        " (TabExpansion2 'apidiscovery api-' 17).CompletionMatches.CompletionText"
    )
    found = printed(tmp_path, "pwsh", "-NoProfile", "-Command", script)
    assert found.split() == ["api-resources", "api-versions"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Choose from bash, zsh, fish, powershell\n"),
        (["tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish', 'powershell'"),
    ],
)
def test_a_missing_or_unknown_shell_is_bad_usage(
    capsys: Capture, args: list[str], message: str
) -> None:
    outcome = run(capsys, "completion", *args)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert message in outcome.stderr


@pytest.mark.parametrize(
    ("words", "directive"),
    [
        (("resolve", "--certificate-authority", ""), ":0"),
        (("snapshot", "show", ""), ":0"),
        (("resolve", "--cache-dir", ""), ":16"),
        (("completion", "x"), ":4"),
    ],
)
def test_kubectl_is_told_where_files_and_folders_are_wanted(
    capsys: Capture, words: tuple[str, ...], directive: str
) -> None:
    assert kubectl_complete(capsys, *words) == [directive]


def test_kubectl_runs_and_completes_the_plugin(capsys: Capture, tmp_path: Path) -> None:
    if shutil.which("kubectl-apidiscovery", path=with_command(tmp_path)["PATH"]) is None:
        pytest.fail("the plugin is not installed: pip install -e .")

    def kubectl(*args: str) -> tuple[str, str]:
        done = subprocess.run(  # noqa: S603
            [find_tool("kubectl"), *args],
            env=with_command(tmp_path),
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        return done.stdout, done.stderr

    with FakeApiServer() as server:
        versions, _ = kubectl("apidiscovery", "api-versions", "-s", server.url)
        assert versions == run(capsys, "api-versions", "-s", server.url).stdout
        assert run_apidiscovery(tmp_path, "api-resources", "-s", server.url).exit_code == 0
        told, _ = kubectl("__complete", "apidiscovery", "resolve", "--server", server.url, "dep")
        assert told.splitlines() == [
            "deploy\tDeployment", "deployments\tDeployment", "deployments.apps\tDeployment", ":4",
        ]  # fmt: skip
    _, error = kubectl("apidiscovery", "resolve")
    assert error.startswith(
        "error: missing argument 'TEXT...'\nSee 'kubectl apidiscovery resolve --help' for help.\n"
    )
