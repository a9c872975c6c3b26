"""`examples/go` from an empty folder: managed mode of buf, `go vet`, and a run.

It takes Go, `protoc-gen-go` and the protobuf module of the system, without a network.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from apidiscovery_client.protos import protos_path
from repository import EXAMPLES
from server import Serve

_LIMIT_S = 240.0
# Debian's packages are a workspace of modules.
_WORKSPACE = Path("/usr/share/gocode")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3 * _LIMIT_S),
]


def run(folder: Path, *command: str) -> str:
    """Return what a program writes to standard output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    workspace = f"{folder.parents[2]}:{_WORKSPACE}"
    done = subprocess.run(  # noqa: S603 - our own arguments
        command,
        check=False,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "GO111MODULE": "off", "GOPATH": workspace},
        timeout=_LIMIT_S,
        text=True,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_it_is_generated_vetted_and_run(tmp_path: Path, serve: Serve) -> None:
    missing = [name for name in ("go", "gofmt", "protoc-gen-go") if shutil.which(name) is None]
    if missing or not (_WORKSPACE / "src/google.golang.org/protobuf").is_dir():
        pytest.skip(f"{', '.join(missing) or 'the protobuf module'} is not installed")
    folder = tmp_path / "src" / "example.com" / "discovery"
    shutil.copytree(EXAMPLES / "go", folder, ignore=shutil.ignore_patterns("gen", "protos"))
    shutil.copytree(protos_path(), folder / "protos")
    run(folder, "buf", "generate")
    assert run(folder, "gofmt", "-l", "main.go") == ""
    run(folder, "go", "vet", ".", "./gen/apidiscovery/service/v1")
    run(folder, "go", "build", "-o", "discovery", ".")
    server = serve("--store", "memory", "--grpc", "off")
    first, again, watched = run(folder, str(folder / "discovery"), server.url).splitlines()
    assert first.startswith("21 groups, ")
    assert again == "changed since: false"
    assert watched.endswith(" with 21 groups")
