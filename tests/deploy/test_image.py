"""The image, built on a Debian file system, serves without rights, with a read-only root."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from shutil import copyfile
from typing import cast

import pytest
from programs import apidiscovery, kubectl
from repository import ROOT
from server import START_S
from waiting import eventually

from tools import find_tool

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.long,  # building takes a minute of two cores
]

# Unpacked without their scripts: Python, what grpcio needs, and what `RUN` needs.
PACKAGES = "python3,python3-venv,libstdc++6,dash,coreutils,libc-bin,base-files"
UNUSED = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
ANYBODY = 65532

# Mounts the root read-only, with what Kubernetes gives a container, and becomes the image's user.
CONTAINER = """
set -e
mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"
mount --rbind /proc "$1/proc"; mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"; mount --bind "$2" "$1/var/lib/apidiscovery"
shift 2
exec env -i "$@"
"""


def run(*command: str | Path, timeout_s: float = 300) -> str:
    """Return what a command writes to standard output."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        command, check=False, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


class Buildah:
    """Buildah with images of its own, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._command: list[str | Path] = [find_tool("buildah"), "--storage-driver", "vfs"]
        self._command += ["--root", folder / "root", "--runroot", folder / "run"]

    def __call__(self, *arguments: str | Path) -> str:
        return run(*self._command, *arguments)


def base_image(buildah: Buildah) -> str:
    """Make an image of Debian with Python, and return its name."""
    container = buildah("from", "scratch")
    unpacked = ["--quiet", "--variant=extract", f"--include={PACKAGES}"]
    unpacked += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", *UNUSED]
    run(find_tool("mmdebstrap"), *unpacked, "bookworm", buildah("mount", container))
    buildah("commit", "--quiet", "--rm", container, "base")
    return "localhost/base"


def context(folder: Path) -> Path:
    """Make the build context of a checkout after `make build`."""
    made = folder / "context"
    made.mkdir()
    for name in ("Containerfile", ".containerignore", "requirements-run.lock"):
        copyfile(ROOT / name, made / name)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made / "dist")
    return made


def wheels(folder: Path) -> Path:
    """Fetch the locked packages for the Python of the image, which needs no network then."""
    pip = [sys.executable, "-m", "pip", "--quiet", "download", "--require-hashes", "--no-deps"]
    target = ["--only-binary=:all:", "--python-version=3.11", "--dest", str(folder / "wheels")]
    run(*pip, *target, "--requirement", ROOT / "requirements-run.lock")
    return folder / "wheels"


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Generator[Buildah]:
    """Buildah with the image `apidiscovery`."""
    for tool in ("buildah", "mmdebstrap", "unshare", "chroot"):
        find_tool(tool)
    if os.geteuid() != 0:
        pytest.skip("building an image in a chroot needs root")
    folder = tmp_path_factory.mktemp("image")
    buildah = Buildah(folder)
    arguments = [
        f"--build-arg=BASE_IMAGE={base_image(buildah)}",
        "--build-arg=PIP_NO_INDEX=1",
        "--build-arg=PIP_FIND_LINKS=/wheels",
        f"--volume={wheels(folder)}:/wheels:ro",
    ]
    isolated = ["--isolation=chroot", "--pull-never", "--quiet", "--tag=apidiscovery"]
    buildah("build", *isolated, *arguments, context(folder))
    yield buildah
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")


def test_serves_without_rights_and_with_a_root_that_is_read_only(
    buildah: Buildah, tmp_path: Path
) -> None:
    image = cast(
        "dict[str, dict[str, dict[str, object]]]",
        json.loads(buildah("inspect", "--type=image", "localhost/apidiscovery")),
    )
    config = image["OCIv1"]["config"]
    assert config["User"] == f"{ANYBODY}:{ANYBODY}"
    root = buildah("mount", buildah("from", "--pull-never", "localhost/apidiscovery"))
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, ANYBODY, ANYBODY)
    mounts = [find_tool("unshare"), "--mount", "sh", "-c", CONTAINER, "sh", root, str(state)]
    become = [find_tool("chroot"), f"--userspec={config['User']}", root]
    program = [*cast("list[str]", config["Entrypoint"]), *cast("list[str]", config["Cmd"])]
    variables = cast("list[str]", config["Env"])
    flags = ["--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--ready-file=/var/lib/apidiscovery/ready"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            [*mounts, *variables, *become, *program, *flags], stdout=log, stderr=log
        )
    try:
        ready = state / "ready"
        eventually(lambda: ready.exists() or process.poll() is not None, "it is ready", START_S)
        assert ready.exists(), (tmp_path / "log").read_text()
        addresses = cast("dict[str, str]", json.loads(ready.read_text()))
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"Uid:\t{ANYBODY}\t{ANYBODY}\t{ANYBODY}" in status
        assert not os.access(f"/proc/{process.pid}/root/opt", os.W_OK)
        listed = kubectl(tmp_path, "--server", f"http://{addresses['http']}", "api-versions")
        assert "apps/v1" in listed.stdout.splitlines(), listed
        sources = apidiscovery(tmp_path, addresses["grpc"], "get", "sources")
        assert "catalog" in sources.stdout, sources
        assert {path.name for path in state.iterdir()} >= {"store.sqlite"}
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(START_S)
    assert code == 0, (tmp_path / "log").read_text()


def test_has_neither_pip_nor_what_builds_the_package(buildah: Buildah) -> None:
    container = buildah("from", "--pull-never", "localhost/apidiscovery")
    program = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    python = ["--", "/opt/apidiscovery/bin/python", "-c", program]
    found = set(buildah("run", "--isolation=chroot", container, *python).split())
    assert {"apidiscovery", "grpcio"} <= found
    assert not found & {"pip", "setuptools", "hatchling", "uv", "pytest"}
