"""Tools that package the answers of kube-apiservers, and the shared parts of definitions."""

import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import crd_goldens
import pytest
from apidiscovery_releases import newest
from repository import ROOT

PACKAGE = ROOT / "tools" / "package_release.py"
PARTS = ROOT / "tools" / "crd_parts.py"
SHARED = ROOT / "service" / "apidiscovery_service" / "openapi" / "data" / "crd.json"
CRDS = ("apis/argoproj.io/v1alpha1", "apis/cert-manager.io/v1", "apis/monitoring.coreos.com/v1")


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with recorded answers of a release, and the archive that the tool makes."""
    root = tmp_path_factory.mktemp("packaged")
    release = newest()
    folder = root / "recorded" / release.name
    (folder / "lists").mkdir(parents=True)
    (folder / "version.json").write_bytes(release.version_text)
    (folder / "api.json").write_bytes(release.plain("/api"))
    (folder / "apis.json").write_bytes(release.plain("/apis"))
    (folder / "apis.v2.json").write_bytes(release.aggregated("/apis"))
    (folder / "lists" / "api__v1.json").write_bytes(release.plain("/api/v1"))
    with tarfile.open(folder / "openapi.tar.xz", "w:xz") as archive:
        for name, content in (
            ("openapi/v3/api.json", release.openapi_v3("api")),
            ("openapi/v3/index.json", release.openapi_index),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    data = root / "data"
    data.mkdir()
    done = run(PACKAGE, folder.parent, "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    return root


@pytest.fixture
def changeable(packaged: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder."""
    return shutil.copytree(packaged, tmp_path / "packaged")


def run(tool: Path, *args: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tool), *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - ours


def test_an_archive_has_discovery_first_and_the_recorded_bytes(packaged: Path) -> None:
    release, data = newest(), packaged / "data"
    with tarfile.open(data / f"{release.name}.tar.xz") as opened:
        names = opened.getnames()
        assert names == [
            *("version.json", "api.json", "apis.json", "apis.v2.json", "lists/api__v1.json"),
            *("openapi/v3/index.json", "openapi/v3/api.json"),
        ]
        found = opened.extractfile("apis.v2.json")
        assert found is not None
        assert found.read() == release.aggregated("/apis")
    assert run(PACKAGE, "--check", packaged / "recorded", "--data", data).returncode == 0


def test_a_changed_archive_is_found(changeable: Path) -> None:
    data = changeable / "data"
    archive = data / f"{newest().name}.tar.xz"
    plain = lzma.decompress(archive.read_bytes()).replace(b'"major": "1"', b'"major": "2"')
    archive.write_bytes(lzma.compress(plain))
    done = run(PACKAGE, "--check", "--data", data)
    assert done.returncode == 1
    assert f"{newest().name}.tar: SHA256SUMS and the archives differ" in done.stderr


def test_changed_recordings_are_found(changeable: Path) -> None:
    recorded = changeable / "recorded"
    (recorded / newest().name / "api.json").write_bytes(b"{}")
    done = run(PACKAGE, "--check", recorded, "--data", changeable / "data")
    assert done.returncode == 1
    assert f"SHA256SUMS and {recorded} differ" in done.stderr


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    done = run(PACKAGE, tmp_path)
    assert done.returncode == 1
    assert "has no folder of a release, such as 1.31" in done.stderr


def test_the_archives_of_the_package_match_their_sums() -> None:
    done = run(PACKAGE, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def crd_documents(folder: Path, keys: tuple[str, ...]) -> Path:
    folder.mkdir()
    for key in keys:
        (folder / f"{key.replace('/', '__')}.json").write_bytes(crd_goldens.document(key))
    return folder


def test_the_shared_parts_are_made_from_documents_of_definitions(tmp_path: Path) -> None:
    output = tmp_path / "crd.json"
    done = run(PARTS, crd_documents(tmp_path / "crds", CRDS), output)
    assert (done.returncode, done.stderr) == (0, "")
    assert output.read_bytes() == SHARED.read_bytes()


def test_documents_without_every_part_are_refused(tmp_path: Path) -> None:
    documents = crd_documents(tmp_path / "crds", ("apis/cert-manager.io/v1",))
    done = run(PARTS, documents, tmp_path / "crd.json")
    assert (done.returncode, done.stderr) == (1, "no document has the subresource scale\n")


def test_the_shared_parts_are_those_of_a_real_server() -> None:
    shared = json.loads(SHARED.read_bytes())
    document = json.loads(crd_goldens.document("apis/cert-manager.io/v1"))
    for name, schema in document["components"]["schemas"].items():
        if name.startswith("io.k8s."):
            assert shared["schemas"][name] == schema
