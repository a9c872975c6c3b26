"""Manifest files in a registry: loaded, watched, broken, corrected, removed."""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from apidiscovery_service.core.model import Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.manifests.folder import InvalidManifests, Manifests
from crd_manifests import edited, simple
from groups import contribution, offer, resource
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from waiting import until

# An edit is to be seen within a second, and later on a busy machine.
# Starting to watch has no such limit; it takes some milliseconds.
WATCHING_WITHIN_S = 30.0


def manifest(*groups: str) -> str:
    items = "".join(
        f"- metadata: {{name: {group}}}\n  versions: [{{version: v1}}]\n" for group in groups
    )
    head = "apiVersion: apidiscovery.k8s.io/v2\nkind: APIGroupDiscoveryList\n"
    return f"{head}items:\n{items}" if groups else f"{head}items: []\n"


BROKEN = manifest("a.example").replace("v1}", "V1}")


@dataclass(slots=True)
class Watched:
    """Manifests with their declarations, registry and metrics."""

    manifests: Manifests
    declarations: Declarations
    registry: Registry
    metrics: Metrics

    @property
    def groups(self) -> list[str]:
        return [group.name for group in self.registry.snapshot.named.groups]

    def sample(self, name: str) -> dict[str, float]:
        """Return the samples of that name by the value of their one label."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        found = [s for family in families for s in family.samples if s.name == name]
        return {next(iter(s.labels.values())): s.value for s in found}

    @property
    def errors(self) -> dict[str, float]:
        return self.sample("apidiscovery_manifest_file_error")

    @property
    def loads(self) -> dict[str, float]:
        return self.sample("apidiscovery_manifest_loads_total")


def unwatched(*paths: Path) -> Watched:
    registry, metrics = Registry(), Metrics()
    declarations = Declarations(registry)
    return Watched(Manifests(paths, declarations, metrics), declarations, registry, metrics)


@asynccontextmanager
async def watched(*paths: Path) -> AsyncGenerator[Watched]:
    """Return manifests that are loaded and followed, and that have seen a change already."""
    made = unwatched(*paths)
    await made.manifests.load()
    task = asyncio.create_task(made.manifests.follow())
    try:
        await _until_it_follows(made, paths[0])
        yield made
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _touch(path: Path) -> None:
    """Change the time of a file, or of a directory's first one.

    A hidden file beside it wakes the watch also where the file is a link to another folder.
    """
    folder = path if path.is_dir() else path.parent
    files = [path] if path.is_file() else sorted(path.glob("[!.]*.*"))
    os.utime(files[0])
    (folder / ".woken").touch()


async def _until_it_follows(made: Watched, path: Path) -> None:
    before, deadline = made.loads["success"], time.monotonic() + WATCHING_WITHIN_S
    while made.loads["success"] == before:
        assert time.monotonic() < deadline
        _touch(path)
        with suppress(AssertionError):
            await until(lambda: made.loads["success"] > before, within_s=0.4)


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path, to: Path) -> None:
    path.rename(to)


def swap_in(link: Path, target: str) -> None:
    """Let a link point elsewhere, as the kubelet does: rename a new one over it."""
    new = link.with_name(f"{link.name}_tmp")
    new.symlink_to(target)
    new.replace(link)


def replace(path: Path, content: str) -> None:
    """Put a new file in the place of another, as editors do."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(content, encoding="utf-8")
    beside.replace(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "manifests"
    made.mkdir()
    return made


@pytest.fixture
def file(folder: Path) -> Path:
    made = folder / "a.yaml"
    write(made, manifest("a.example"))
    return made


# --------------------------------------------------------------------------------------------------
# The first look.


async def test_each_file_is_a_source_of_its_own(file: Path) -> None:
    other = file.with_name("b.json")
    write(other, manifest("b.example"))
    made = unwatched(file.parent)
    await made.manifests.load()
    assert made.registry.sources == (f"manifests:{file}", f"manifests:{other}")
    assert made.groups == ["a.example", "b.example"]
    assert (made.loads, made.errors) == ({"success": 2.0}, {})


async def test_of_a_directory_only_visible_yaml_and_json_files_are_read(file: Path) -> None:
    write(file.with_name("b.yml"), manifest("b.example"))
    write(file.with_name("c.json"), '{"kind":"List","apiVersion":"v1"}')
    for name in (".hidden.yaml", "notes.txt", "a.yaml~", "a.yaml.bak", "yaml"):
        write(file.with_name(name), "no manifest")
    made = unwatched(file.parent)
    await made.manifests.load()
    assert made.groups == ["a.example", "b.example"]
    assert made.loads == {"success": 3.0}


async def test_files_that_cannot_be_read_at_the_start_are_all_reported_and_nothing_is_published(
    file: Path,
) -> None:
    broken, missing = file.with_name("broken.yaml"), file.with_name("zz-missing.yaml")
    write(broken, BROKEN)
    made = unwatched(file, missing, broken)
    with pytest.raises(InvalidManifests) as caught:
        await made.manifests.load()
    assert [error.file for error in caught.value.errors] == [str(broken), str(missing)]
    assert str(caught.value) == "\n".join(map(str, caught.value.errors))
    assert (made.groups, made.registry.sources) == ([], ())


async def test_manifests_win_over_the_catalogue_and_over_crds(file: Path) -> None:
    made = unwatched(file)
    await made.manifests.load()
    for precedence in (Precedence.CATALOG, Precedence.CRD):
        other = offer("a.example/v1", resources=(resource(),))
        made.registry.publish(contribution("other", other, precedence=precedence))
        assert made.registry.snapshot.named.groups[0].group.versions[0].resources == ()


# --------------------------------------------------------------------------------------------------
# Changes.


@pytest.mark.parametrize("named", ["file", "directory"])
@pytest.mark.parametrize("atomic", [True, False], ids=["renamed-over", "written-over"])
async def test_an_edit_is_seen_soon(file: Path, named: str, *, atomic: bool) -> None:
    async with watched(file if named == "file" else file.parent) as made:
        if atomic:
            replace(file, manifest("a.example", "b.example"))
        else:
            write(file, manifest("a.example", "b.example"))
        await until(lambda: made.groups == ["a.example", "b.example"])
        assert made.registry.sources == (f"manifests:{file}",)


async def test_a_broken_file_keeps_its_last_valid_content_until_it_is_corrected(file: Path) -> None:
    async with watched(file) as made:
        write(file, BROKEN)
        await until(lambda: file in made.manifests.problems)
        problem = made.manifests.problems[file]
        assert (problem.line, problem.field) == (5, "items[0].versions[0].version")
        assert made.manifests.warnings() == [f"manifests: {problem}"]
        assert (made.groups, made.errors) == (["a.example"], {str(file): 1.0})
        assert made.loads["error"] == 1
        write(file, manifest("c.example"))
        await until(lambda: made.groups == ["c.example"])
        assert (dict(made.manifests.problems), made.manifests.warnings()) == ({}, [])
        assert made.errors == {}


async def test_a_file_that_is_reverted_is_no_problem_any_more(file: Path) -> None:
    async with watched(file.parent) as made:
        before = made.registry.snapshot
        write(file, "a: [")
        await until(lambda: bool(made.errors))
        write(file, manifest("a.example"))
        await until(lambda: not made.errors)
        assert made.registry.snapshot is before


@pytest.mark.parametrize("is_broken", [False, True], ids=["good", "broken"])
async def test_a_file_of_a_directory_that_is_removed_is_withdrawn(
    file: Path, *, is_broken: bool
) -> None:
    other = file.with_name("b.yaml")
    write(other, manifest("b.example"))
    async with watched(file.parent) as made:
        if is_broken:
            write(other, "a: [")
            await until(lambda: bool(made.errors))
        remove(other)
        await until(lambda: made.groups == ["a.example"])
        assert made.registry.sources == (f"manifests:{file}",)
        assert (made.errors, made.manifests.warnings()) == ({}, [])


async def test_a_new_file_of_a_directory_appears(file: Path) -> None:
    async with watched(file.parent) as made:
        write(file.with_name("b.yml"), manifest("b.example"))
        await until(lambda: made.groups == ["a.example", "b.example"])


async def test_a_file_that_is_renamed_keeps_its_groups_all_the_while(file: Path) -> None:
    heard: list[Snapshot] = []
    async with watched(file.parent) as made:
        made.registry.subscribe(heard.append)
        moved = file.with_name("moved.yaml")
        rename(file, moved)
        await until(lambda: made.registry.sources == (f"manifests:{moved}",))
        assert made.groups == ["a.example"]
    assert all(snapshot.named.groups for snapshot in heard)


async def test_a_named_file_that_vanishes_keeps_its_content_and_is_a_problem(file: Path) -> None:
    async with watched(file) as made:
        remove(file)
        await until(lambda: file in made.manifests.problems)
        assert "No such file" in str(made.manifests.problems[file])
        assert (made.groups, made.errors) == (["a.example"], {str(file): 1.0})
        write(file, manifest("a.example", "b.example"))
        await until(lambda: made.groups == ["a.example", "b.example"])
        assert made.errors == {}


def config_map(folder: Path) -> None:
    """Make the links of a ConfigMap volume, with the next content at hand."""
    for number, group in enumerate(("a.example", "b.example")):
        (folder / f"..{number}").mkdir()
        write(folder / f"..{number}" / "m.yaml", manifest(group))
    (folder / "..data").symlink_to("..0")
    (folder / "m.yaml").symlink_to("..data/m.yaml")


@pytest.mark.parametrize("named", ["file", "directory"])
async def test_a_config_map_that_is_swapped_is_seen(folder: Path, named: str) -> None:
    """The kubelet renames a new `..data` link over the old one; nothing else changes."""
    config_map(folder)
    async with watched(folder / "m.yaml" if named == "file" else folder) as made:
        assert made.groups == ["a.example"]
        swap_in(folder / "..data", "..1")
        await until(lambda: made.groups == ["b.example"])


async def test_a_change_between_the_first_look_and_the_watch_is_seen(file: Path) -> None:
    made = unwatched(file)
    await made.manifests.load()
    write(file, manifest("b.example"))
    task = asyncio.create_task(made.manifests.follow())
    try:
        await until(lambda: made.groups == ["b.example"])
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_many_files_changed_at_once_are_all_seen(folder: Path) -> None:
    names = [f"g{i:02}.example" for i in range(40)]
    for name in names:
        write((folder / f"{name}.yaml"), manifest(name))
    async with watched(folder) as made:
        assert made.groups == names
        for name in names:
            replace(folder / f"{name}.yaml", manifest(f"x{name}"))
        await until(lambda: made.groups == [f"x{name}" for name in names])


# --------------------------------------------------------------------------------------------------
# CustomResourceDefinitions and APIServices.


async def test_definitions_of_several_files_are_one_group(file: Path) -> None:
    write(file, json.dumps(simple("cats")))
    write(file.with_name("b.json"), json.dumps(simple("dogs")))
    async with watched(file.parent) as made:
        assert made.registry.sources == ("crds:a.example",)
        (version,) = made.registry.snapshot.named.groups[0].group.versions
        assert [resource.resource for resource in version.resources] == ["cats", "dogs"]
        remove(file)
        await until(lambda: made.declarations.crd("cats.a.example") is None)
        (version,) = made.registry.snapshot.named.groups[0].group.versions
        assert [resource.resource for resource in version.resources] == ["dogs"]


async def test_a_name_in_two_files_is_a_warning_until_one_goes(file: Path) -> None:
    other = file.with_name("b.json")
    for path in (file, other):
        write(path, json.dumps(simple("cats")))
    async with watched(file.parent) as made:
        assert made.manifests.warnings() == [
            (
                "manifests: CustomResourceDefinition cats.a.example is declared by"
                f" manifests:{file} and manifests:{other}; the first is in force"
            )
        ]
        remove(file)
        await until(lambda: made.manifests.warnings() == [])
        assert made.groups == ["a.example"]


async def test_each_invalid_field_is_a_warning(file: Path) -> None:
    async with watched(file) as made:
        document = edited(edited(simple("cats"), "spec.scope", "x"), "spec.names.kind", ...)
        write(file, json.dumps(document))
        await until(lambda: file in made.manifests.problems)
        assert len(made.manifests.warnings()) == 4
        assert all(line.startswith(f"manifests: {file}:1, d") for line in made.manifests.warnings())
        assert made.groups == ["a.example"]


async def test_a_directory_without_manifests_is_a_warning(folder: Path, file: Path) -> None:
    (folder / "staging").mkdir()
    (folder / "production").mkdir()
    (folder / "..data").mkdir()
    rename(file, folder.parent / "elsewhere.yaml")
    made = unwatched(folder)
    with capture_logs() as logs:
        await made.manifests.load()
    wanted = (
        f"{folder}: no .yaml, .yml or .json file in it; its 2 folders are not read: "
        "give --manifests for each"
    )
    assert [entry["reason"] for entry in logs] == [wanted]
    assert made.manifests.warnings() == [f"manifests: {wanted}"]
    rename(folder.parent / "elsewhere.yaml", file)
    async with watched(folder) as followed:
        assert followed.manifests.warnings() == []


async def test_without_paths_nothing_is_followed() -> None:
    made = unwatched()
    await made.manifests.load()
    following = asyncio.create_task(made.manifests.follow())
    await until(following.done, "there is nothing to wait for")
    assert following.exception() is None
    assert (made.groups, made.manifests.warnings()) == ([], [])
