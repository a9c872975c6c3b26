"""Shells complete commands, options and, from the disk cache, names of resources."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from apidiscovery_cli.kubectl_complete import main as complete_for_kubectl
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import run
from programs import run_apidiscovery, with_command
from server import Server

from tools import find_tool

Capture = pytest.CaptureFixture[str]

WIDGETS = group("example.com", v1=[resource("widgets", "Widget", short_names=["wd"])])

_BASH = """
set -e
eval "$(apidiscovery completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_apidiscovery_completion apidiscovery
printf '%s\\n' "${COMPREPLY[@]}"
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


def in_bash(home: Path, *words: str) -> list[str]:
    """Return the candidates of a real bash for the last of some words."""
    return printed(home, "bash", "--norc", "-c", _BASH, "bash", *words).split()


def kubectl_complete(capsys: Capture, *words: str) -> list[str]:
    assert complete_for_kubectl(words) == 0
    return capsys.readouterr().out.splitlines()


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    assert in_bash(tmp_path, "apidiscovery", "api-") == ["api-resources", "api-versions"]
    assert in_bash(tmp_path, "apidiscovery", "completion", "") == [
        "bash", "zsh", "fish", "powershell",
    ]  # fmt: skip
    assert in_bash(tmp_path, "apidiscovery", "resolve", "--ex") == ["--explain"]


def test_bash_completes_what_is_kept_and_asks_nobody(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        words = ("apidiscovery", "resolve", "-s", server.url, "w")
        assert in_bash(tmp_path, *words) == [""][1:]
        assert not server.requests
        assert run_apidiscovery(tmp_path, "api-resources", "-s", server.url).exit_code == 0
        server.forget_requests()
        assert in_bash(tmp_path, *words) == ["wd", "widgets", "widgets.example.com"]
        assert in_bash(tmp_path, "apidiscovery", "explain", "--server", server.url, "wi") == [
            "widgets", "widgets.example.com",
        ]  # fmt: skip
        assert not server.requests


def test_the_server_of_a_kubeconfig_is_meant(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        file = tmp_path / "config"
        file.write_text(json.dumps(server.kubeconfig()))
        asked = run_apidiscovery(tmp_path, "api-resources", "--kubeconfig", str(file))
        assert asked.exit_code == 0
        words = ("apidiscovery", "resolve", "--kubeconfig", str(file), "wi")
        assert in_bash(tmp_path, *words) == ["widgets", "widgets.example.com"]


def test_a_server_of_the_environment_is_not_that_of_a_kubeconfig(tmp_path: Path) -> None:
    """As in the command itself, where the command line names something of a kubeconfig."""
    gadgets = group("example.com", v1=[resource("gadgets", "Gadget")])
    with FakeApiServer([WIDGETS]) as server, FakeApiServer([gadgets]) as other:
        file = tmp_path / "config"
        file.write_text(json.dumps(server.kubeconfig()))
        for named in (("--kubeconfig", str(file)), ("-s", other.url)):
            assert run_apidiscovery(tmp_path, "api-resources", *named).exit_code == 0
        words = f"apidiscovery resolve --kubeconfig {file} "
        wish = {
            "APIDISCOVERY_SERVER": other.url,
            "_APIDISCOVERY_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": "4",
        }
        found = run_apidiscovery(tmp_path, env=wish).stdout
    assert "widgets.example.com" in found
    assert "gadgets" not in found


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
def test_what_cannot_be_understood_completes_to_nothing(
    capsys: Capture, words: tuple[str, ...]
) -> None:
    assert kubectl_complete(capsys, *words) == [":4"]


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
def test_powershell_gets_a_line_for_each(
    tmp_path: Path, words: str, incomplete: str, candidates: list[str]
) -> None:
    wish = {
        "_APIDISCOVERY_COMPLETE": "powershell_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": incomplete,
    }
    outcome = run_apidiscovery(tmp_path, env=wish)
    rows = [line.split("\t") for line in outcome.stdout.splitlines()]
    assert [value for _, value, _ in rows] == candidates
    assert {kind for kind, _, _ in rows} == {"plain"}
    assert outcome.stderr == ""


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


def test_another_shell_is_bad_usage(capsys: Capture) -> None:
    outcome = run(capsys, "completion", "tcsh")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish', 'powershell'" in outcome.stderr


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


def test_kubectl_runs_and_completes_the_plugin(tmp_path: Path) -> None:
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
        assert versions == run_apidiscovery(tmp_path, "api-versions", "-s", server.url).stdout
        assert run_apidiscovery(tmp_path, "api-resources", "-s", server.url).exit_code == 0
        told, _ = kubectl("__complete", "apidiscovery", "resolve", "--server", server.url, "dep")
        assert told.splitlines() == [
            "deploy\tDeployment", "deployments\tDeployment", "deployments.apps\tDeployment", ":4",
        ]  # fmt: skip
    usage, _ = kubectl("apidiscovery", "resolve", "--help")
    assert usage.startswith("Usage: kubectl apidiscovery resolve [OPTIONS] TEXT...\n")
    _, error = kubectl("apidiscovery", "resolve")
    assert error.startswith(
        "error: missing argument 'TEXT...'\nSee 'kubectl apidiscovery resolve --help' for help.\n"
    )
    assert os.environ["KUBECACHEDIR"]


def test_a_missing_shell_is_told_in_one_line(capsys: Capture) -> None:
    found = run(capsys, "completion")
    assert found.exit_code == 2
    assert "Choose from bash, zsh, fish, powershell\n" in found.stderr


def test_bash_completes_sides(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": ""}} for name in ("prod-east", "dev")
        ],
    }
    (tmp_path / ".kube" / "config").write_text(json.dumps(config))
    assert in_bash(tmp_path, "apidiscovery", "diff", "context:p") == ["context:prod-east"]
    words = in_bash(tmp_path, "apidiscovery", "check", "--against", "kubernetes:1.3")
    assert {"kubernetes:1.30", "kubernetes:1.36"} <= set(words)
    assert in_bash(tmp_path, "apidiscovery", "diff", "--server", "h:1", "cluster:") == ["cluster:"]


def test_bash_completes_types_and_names_of_the_server(tmp_path: Path, server: Server) -> None:
    assert in_bash(tmp_path, "apidiscovery", "get", "so") == ["sources"]
    words = ("get", "--server", server.grpc, "sources", "cat")
    assert in_bash(tmp_path, "apidiscovery", *words) == ["catalog"]
    nobody = ("get", "--server", "127.0.0.1:1", "sources", "cat")
    assert in_bash(tmp_path, "apidiscovery", *nobody) == []
