"""Tools that make and check generated code, and the path of the .proto files."""

import importlib.util
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from apidiscovery_client import protos
from apidiscovery_client.protos import protos_path
from repository import ROOT

PROTO = Path("protos/apidiscovery/runtime/v1/runtime.proto")


def run(tool: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tool), *args]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - ours


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the tools, one proto and what is generated from it, to be copied."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "tools").mkdir()
    for name in ("generate.py", "breaking.py"):
        shutil.copy(ROOT / "tools" / name, folder / "tools" / name)
    shutil.copy(ROOT / "buf.yaml", folder / "buf.yaml")
    (folder / PROTO).parent.mkdir(parents=True)
    shutil.copy(ROOT / PROTO, folder / PROTO)
    result = run(folder / "tools/generate.py")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def small(generated: Path, tmp_path: Path) -> Path:
    """Return that project, to be changed."""
    return shutil.copytree(generated, tmp_path / "small")


def test_generate_writes_the_committed_files(generated: Path) -> None:
    for name in ("runtime_pb2.py", "runtime_pb2.pyi", "__init__.py"):
        path = Path("generated/apidiscovery/runtime/v1", name)
        assert (generated / path).read_bytes() == (ROOT / path).read_bytes()


def test_check_names_every_changed_missing_and_extra_file(small: Path) -> None:
    package = small / "generated/apidiscovery/runtime/v1"
    (package / "runtime_pb2.py").write_text("changed\n")
    (package / "runtime_pb2.pyi").unlink()
    (package / "runtime_pb2_grpc.py").touch()

    result = run(small / "tools/generate.py", "--check")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "different: generated/apidiscovery/runtime/v1/runtime_pb2.py",
        "missing: generated/apidiscovery/runtime/v1/runtime_pb2.pyi",
        "extra: generated/apidiscovery/runtime/v1/runtime_pb2_grpc.py",
        "generated/ is stale; run `make generate`",
    ]


def test_a_proto_that_is_wrong_is_reported_and_nothing_is_replaced(small: Path) -> None:
    (small / "protos/apidiscovery/runtime/v1/wrong.proto").write_text("not a proto")
    result = run(small / "tools/generate.py")
    assert result.returncode == 1
    assert "wrong.proto:1:1" in result.stderr
    assert (small / "generated/apidiscovery/runtime/v1/runtime_pb2.py").exists()


def git(directory: Path, *args: str) -> str:
    """Return what git prints, without the line feed at the end."""
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    author = chain.from_iterable(("-c", f"user.{k}=x") for k in ("name", "email"))
    command = [program, "-C", str(directory), *author, "-c", "commit.gpgsign=false", *args]
    result = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - git
    return result.stdout.rstrip("\n")


@pytest.fixture
def repository(small: Path) -> Path:
    """Return the small project as a git repository, its state committed to main."""
    git(small, "init", "--quiet", "--initial-branch=main")
    git(small, "add", ".")
    git(small, "commit", "--quiet", "--message=all")
    return small


def breaking(project: Path) -> subprocess.CompletedProcess[str]:
    return run(project / "tools/breaking.py")


def renumber(project: Path, number: int = 3, *, commit: bool = True) -> None:
    """Give a field another number, which breaks users of main's protos."""
    path = project / PROTO
    text = path.read_text()
    path.write_text(re.sub(r"string kind = \d;", f"string kind = {number};", text))
    assert path.read_text() != text
    if commit:
        git(project, "commit", "--quiet", "--all", "--message=break")


def test_first_protos_break_nobody(repository: Path) -> None:
    result = breaking(repository)
    assert result.returncode == 0, result.stderr
    assert "nothing to compare with" in result.stdout


def test_a_new_field_breaks_nobody(repository: Path) -> None:
    path = repository / PROTO
    kind = "string kind = 2;"
    path.write_text(path.read_text().replace(kind, f"{kind}\n  optional string more = 3;"))
    result = breaking(repository)
    assert (result.returncode, result.stderr) == (0, "")
    assert "uncommitted changes" in result.stdout


@pytest.mark.parametrize("place", ["uncommitted", "on main", "on a branch", "without main"])
def test_a_renumbered_field_is_found(repository: Path, place: str) -> None:
    if place == "on a branch":
        git(repository, "checkout", "--quiet", "-b", "feature")
    renumber(repository, commit=place != "uncommitted")
    if place == "without main":
        git(repository, "branch", "--move", "feature")
    result = breaking(repository)
    assert result.returncode != 0
    assert 'field "2" with name "kind"' in result.stdout


def test_a_break_from_accepted_protos_is_reported_and_passes(repository: Path) -> None:
    tree = git(repository, "rev-parse", "HEAD:protos")
    tool = repository / "tools/breaking.py"
    tool.write_text(tool.read_text().replace("ACCEPTED = {", f'ACCEPTED = {{"{tree}": "a record",'))
    renumber(repository, commit=False)
    result = breaking(repository)
    assert result.returncode == 0, result.stderr
    assert 'field "2" with name "kind"' in result.stdout
    assert result.stdout.endswith("breaking: accepted by a record\n")

    git(repository, "commit", "--quiet", "--all", "--message=break")
    assert breaking(repository).returncode == 0
    renumber(repository, 4, commit=False)
    assert breaking(repository).returncode != 0


def test_a_shallow_clone_without_earlier_protos_is_reported_as_one(repository: Path) -> None:
    renumber(repository)
    clone = repository.parent / "clone"
    git(repository, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    result = breaking(clone)
    assert result.returncode == 0, result.stderr
    assert "the clone is shallow" in result.stdout


def test_a_source_tree_that_is_no_checkout_is_skipped(small: Path) -> None:
    result = breaking(small)
    skipped = "breaking: skipped, this is not a git checkout\n"
    assert (result.returncode, result.stdout) == (0, skipped)


# -- protos_path --------------------------------------------------------------------------------


def test_protos_path_of_a_checkout_is_its_protos() -> None:
    if not Path(protos.__file__).is_relative_to(ROOT / "clients"):
        pytest.skip("an installed wheel is under test")
    assert protos_path() == ROOT / "protos"


def test_protos_path_has_every_proto_at_its_import_path() -> None:
    found = {p.relative_to(protos_path()) for p in protos_path().rglob("*.proto")}
    assert found == {p.relative_to(ROOT / "protos") for p in (ROOT / "protos").rglob("*.proto")}


def test_protos_path_of_a_wheel_is_beside_the_client(tmp_path: Path) -> None:
    """The layout is that of pyproject.toml's force-include."""
    module = tmp_path / "apidiscovery_client/protos.py"
    module.parent.mkdir()
    shutil.copy(protos.__file__, module)
    spec = importlib.util.spec_from_file_location("protos_of_a_wheel", module)
    assert spec is not None
    assert spec.loader is not None
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    with pytest.raises(FileNotFoundError, match="install apidiscovery again"):
        installed.protos_path()

    shutil.copytree(ROOT / "protos/apidiscovery", tmp_path / "apidiscovery/protos/apidiscovery")
    assert installed.protos_path() == tmp_path.resolve() / "apidiscovery/protos"
