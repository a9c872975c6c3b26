"""The tool that packages what a kube-apiserver of a release serves."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import crd_goldens
import pytest
import zstandard
from apidiscovery_service import releases
from repository import ROOT

TOOL = ROOT / "tools" / "package_release.py"
CRDS = ("apis/argoproj.io/v1alpha1", "apis/cert-manager.io/v1", "apis/monitoring.coreos.com/v1")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a folder as the tool wants it, of some files of the packaged release."""
    folder = tmp_path / "recorded"
    (folder / "lists").mkdir(parents=True)
    for name in ("version.json", "apis.json", "apis.v2.json", "lists/api__v1.json"):
        (folder / name).write_bytes(releases.read(name)[0])
    with tarfile.open(folder / "openapi.tar.xz", "w:xz") as archive:
        for name in ("openapi/v3/api.json", "openapi/v3/index.json"):
            (content,) = releases.read(name)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return folder


def package(recorded: Path, keys: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run the tool on recorded answers and documents of definitions."""
    crds = recorded.parent / "crds"
    crds.mkdir()
    for key in keys:
        (crds / f"{key.replace('/', '__')}.json").write_bytes(crd_goldens.document(key))
    output = recorded.parent / "out.tar.zst"
    command = [sys.executable, *map(str, (TOOL, recorded, crds, output))]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - ours


def test_an_archive_has_discovery_first_and_what_definitions_share(recorded: Path) -> None:
    done = package(recorded, CRDS)
    assert (done.returncode, done.stderr) == (0, "")
    packed = (recorded.parent / "out.tar.zst").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(packed))) as archive:
        names = archive.getnames()
        found = {name: archive.extractfile(name) for name in names}
        contents = {name: file.read() for name, file in found.items() if file is not None}
    assert names == [
        *("version.json", "apis.json", "apis.v2.json", "lists/api__v1.json", "crd.json"),
        *("openapi/v3/index.json", "openapi/v3/api.json"),
    ]
    assert contents == dict(zip(names, releases.read(*names), strict=True))


def test_definitions_that_do_not_tell_everything_are_refused(recorded: Path) -> None:
    done = package(recorded, ("apis/cert-manager.io/v1",))
    assert (done.returncode, done.stderr) == (1, "no document has the subresource scale\n")


def test_the_parts_of_definitions_are_those_of_a_real_server() -> None:
    shared = releases.read_json("crd.json")
    document = json.loads(crd_goldens.document("apis/cert-manager.io/v1"))
    for name, schema in document["components"]["schemas"].items():
        if name.startswith("io.k8s."):
            assert shared["schemas"][name] == schema


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="nope"):
        releases.read("version.json", "nope")
