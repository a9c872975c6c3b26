"""Listings are those of kubectl, byte for byte."""

import os
import subprocess
from pathlib import Path

import pytest
from command_line import Outcome, run
from fake_api_server import Answer, FakeApiServer, Routes, builtin, legacy

from tools import find_tool

NEW, BETA, OLD = builtin(), builtin("v2beta1"), legacy()


def kubectl(folder: Path, server: FakeApiServer, *args: str) -> Outcome:
    """Run kubectl with an empty cache."""
    done = subprocess.run(  # noqa: S603
        [find_tool("kubectl"), "--server", server.url, "--cache-dir", folder, *args],
        check=False,
        capture_output=True,
        env={"HOME": str(folder), "PATH": os.environ["PATH"]},
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("routes", "args"),
    [
        pytest.param(routes, args, id=f"{age} {args}")
        for age, routes, all_args in [
            ("v2", NEW, [
                "api-resources",
                "api-resources -o wide",
                "api-resources -o name --namespaced",
                "api-resources --no-headers --namespaced=true",
                "api-resources --no-headers -o wide --api-group=apps",
                "api-resources --api-group=",
                "api-resources --api-group=none.example.com",
                "api-resources --verbs=list,get --categories=all",
                "api-resources --verbs=list --verbs=create -o wide",
                "api-resources --sort-by=name",
                "api-resources --sort-by=kind -o name --namespaced=false",
                "api-versions",
            ]),
            ("v2beta1", BETA, ["api-resources -o wide", "api-versions"]),
            ("unaggregated", OLD, ["api-resources -o wide", "api-versions"]),
            ("core unaggregated", {**OLD, "/apis": NEW["/apis"]}, ["api-versions"]),
        ]
        for args in all_args
    ],
)  # fmt: skip
def test_stdout_is_kubectls(
    routes: Routes, args: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeApiServer(routes) as server:
        theirs = kubectl(tmp_path, server, *args.split())
        ours = run(capsys, *args.split(), "--server", server.url)
    assert ours.stdout == theirs.stdout
    assert (ours.exit_code, theirs.exit_code, ours.stderr) == (0, 0, "")


def test_partial_failure_is_told_as_kubectl_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    down = {"/apis/apps/v1": Answer(b"service unavailable\n", "text/plain", 503)}
    with FakeApiServer({**OLD, **down}) as server:
        theirs = kubectl(tmp_path, server, "api-resources")
        ours = run(capsys, "api-resources", "--server", server.url)
    assert ours.stdout == theirs.stdout
    assert ours.stderr.splitlines() == theirs.stderr.splitlines()[-1:]
    assert ours.exit_code == theirs.exit_code == 1
