"""Clusters of folders and contexts as they come, change, break and go."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from apidiscovery_service.app.upstream_specs import ClusterSpecs
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.clusters.clusters import Clusters, Contexts
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from cluster_files import contexts, kubeconfig, mounted, replaced
from structlog.testing import capture_logs
from waiting import until

EAST, WEST = "http://127.0.0.1:1", "http://127.0.0.1:2"


class Mirrors:
    """What is mirrored now, and what was."""

    def __init__(self) -> None:
        self.specs: dict[str, UpstreamSpec] = {}
        self.history: list[str] = []

    def update(self, changed: Iterable[UpstreamSpec], gone: Iterable[str]) -> None:
        for spec in changed:
            self.specs[spec.name] = spec
            self.history.append(spec.name)
        for name in gone:
            del self.specs[name]
            self.history.append(f"-{name}")

    @property
    def urls(self) -> dict[str, str]:
        return {name: spec.endpoint.url for name, spec in sorted(self.specs.items())}


@asynccontextmanager
async def followed(
    *folders: Path,
    of: Contexts | None = None,
    taken: Iterable[str] = (),
    is_trusted: bool = False,
) -> AsyncGenerator[tuple[Mirrors, Clusters]]:
    """Load clusters, and follow them."""
    mirrors = Mirrors()
    clusters = Clusters(
        mirrors.update,
        ClusterSpecs().cluster,
        folders=folders,
        contexts=of,
        taken=taken,
        is_trusted=is_trusted,
        retry_s=0.05,
    )
    await clusters.load()
    following = asyncio.create_task(clusters.follow())
    try:
        yield mirrors, clusters
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_files_come_change_and_go(tmp_path: Path) -> None:
    (tmp_path / "east.yaml").write_text(kubeconfig(EAST))
    async with followed(tmp_path) as (mirrors, clusters):
        assert mirrors.urls == {"east": EAST}
        replaced(tmp_path / "west.yaml", kubeconfig(WEST))
        await until(lambda: mirrors.urls == {"east": EAST, "west": WEST}, "it comes")
        replaced(tmp_path / "east.yaml", kubeconfig(WEST))
        await until(lambda: mirrors.urls == {"east": WEST, "west": WEST}, "it changes")
        (tmp_path / "west.yaml").unlink()
        await until(lambda: mirrors.urls == {"east": WEST}, "it goes")
        assert mirrors.history == ["east", "west", "east", "-west"]
        assert clusters.warnings() == []


async def test_a_mount_that_is_swapped_changes_only_what_is_new(tmp_path: Path) -> None:
    files = {"east": kubeconfig(EAST), "west": kubeconfig(WEST)}
    mounted(tmp_path, files)
    async with followed(tmp_path) as (mirrors, _):
        east = mirrors.specs["east"]
        mounted(tmp_path, {**files, "west": kubeconfig(WEST, token="new")})  # noqa: S106
        await until(lambda: mirrors.history.count("west") == 2, "it is swapped")
        assert mirrors.specs["east"] is east
        mounted(tmp_path, {"east": kubeconfig(EAST), "north": kubeconfig(WEST)})
        await until(lambda: mirrors.urls == {"east": EAST, "north": WEST}, "and again")
        assert mirrors.specs["east"] is east


async def test_folders_of_secrets_come_and_go(tmp_path: Path) -> None:
    async with followed(tmp_path) as (mirrors, clusters):
        assert clusters.warnings() == [f"clusters: {tmp_path}: no cluster in it"]
        mounted(tmp_path / "east-kubeconfig", {"value": kubeconfig(EAST)})
        mounted(tmp_path / "west", {"server": WEST, "config": "{}", "name": "West"})
        await until(lambda: mirrors.urls == {"east": EAST, "west": WEST}, "they come")
        assert clusters.warnings() == []
        mounted(tmp_path / "west", {"server": EAST, "config": "{}", "name": "West"})
        await until(lambda: mirrors.urls["west"] == EAST, "one changes")
        (tmp_path / "west").rename(tmp_path / ".west")
        await until(lambda: mirrors.urls == {"east": EAST}, "one goes")


async def test_a_broken_file_keeps_its_last_good_content(tmp_path: Path) -> None:
    path = tmp_path / "east.yaml"
    path.write_text(kubeconfig(EAST))
    with capture_logs() as logs:
        async with followed(tmp_path) as (mirrors, clusters):
            replaced(path, "a: [")
            await until(clusters.warnings, "it is told")
            assert mirrors.history == ["east"]
            (warning,) = clusters.warnings()
            assert warning.startswith(f"clusters: {path}:2: no YAML")
            (state,) = clusters.states()
            assert (state.name, str(state.state)) == (f"clusters:{path}", "Stale")
            assert state.since is not None
            assert state.error.startswith(str(path))
            replaced(path, kubeconfig(WEST))
            await until(lambda: mirrors.urls == {"east": WEST}, "it is mended")
            assert (clusters.warnings(), clusters.states()) == ([], [])
    told = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [entry["event"] for entry in told] == [
        "cluster cannot be used, its last good content is kept"
    ]


async def test_a_broken_file_that_goes_takes_its_cluster_along(tmp_path: Path) -> None:
    path = tmp_path / "east.yaml"
    path.write_text(kubeconfig(EAST))
    async with followed(tmp_path) as (mirrors, clusters):
        replaced(path, "")
        await until(clusters.warnings, "it is told")
        path.unlink()
        await until(lambda: not mirrors.urls, "it goes")
        await until(lambda: not clusters.states(), "nothing is told of it")


async def test_a_file_that_was_never_good_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("")
    (tmp_path / "east.yaml").write_text(kubeconfig(EAST))
    (tmp_path / "no name.yaml").write_text(kubeconfig(EAST))
    async with followed(tmp_path) as (mirrors, clusters):
        assert mirrors.urls == {"east": EAST}
        assert [str(state.state) for state in clusters.states()] == ["Pending", "Pending"]
        empty, name = clusters.warnings()
        assert "bad.yaml: empty; want a kubeconfig" in empty
        assert "no name.yaml: want a name of letters, digits, dots and dashes, got" in name


async def test_a_file_that_needs_another_file_is_tried_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    folder = tmp_path / "clusters"
    folder.mkdir()
    url = EAST.replace("http", "https")
    (folder / "east.yaml").write_text(kubeconfig(url, tokenFile=str(token)))
    async with followed(folder, is_trusted=True) as (mirrors, clusters):
        assert "token: No such file" in clusters.warnings()[0]
        token.write_text("x")
        await until(lambda: mirrors.urls == {"east": url}, "it is usable")


async def test_a_folder_that_cannot_be_listed_keeps_its_clusters(tmp_path: Path) -> None:
    folder = tmp_path / "clusters"
    folder.mkdir()
    (folder / "east.yaml").write_text(kubeconfig(EAST))
    async with followed(folder) as (mirrors, clusters):
        folder.rename(tmp_path / "away")
        await until(clusters.warnings, "it is told")
        assert clusters.warnings() == [
            f"clusters: {folder}: cannot be listed: No such file or directory"
        ]
        await asyncio.sleep(1)  # in which a file would be taken for gone
        assert mirrors.history == ["east"]
        replaced(tmp_path / "away" / "west.yaml", kubeconfig(WEST))
        (tmp_path / "away").rename(folder)
        await until(lambda: mirrors.urls == {"east": EAST, "west": WEST}, "it is back")
        assert clusters.warnings() == []


async def test_the_first_of_two_clusters_with_one_name_counts(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (two, one):
        folder.mkdir()
    (two / "east.yaml").write_text(kubeconfig(WEST))
    async with followed(one, two, taken=["west"]) as (mirrors, clusters):
        assert mirrors.urls == {"east": WEST}
        replaced(one / "east.yaml", kubeconfig(EAST))
        replaced(one / "west.yaml", kubeconfig(EAST))
        await until(lambda: len(clusters.states()) == 2, "both are told")
        assert mirrors.urls == {"east": EAST}
        advice = "rename one of the two"
        flagged = "an upstream of the configuration"
        assert clusters.warnings() == [
            f"clusters: {one}/west.yaml: {flagged} is called west, too; {advice}",
            f"clusters: {two}/east.yaml: {one}/east.yaml is called east, too; {advice}",
        ]
        assert [str(state.state) for state in clusters.states()] == ["Pending", "Pending"]
        (one / "east.yaml").unlink()
        await until(lambda: mirrors.urls == {"east": WEST}, "the second takes over")


# Contexts.


async def test_contexts_come_change_and_go(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(contexts({"prod-east": EAST, "dev": WEST}))
    async with followed(of=Contexts(path, ["prod-*", "test"])) as (mirrors, clusters):
        assert mirrors.urls == {"prod-east": EAST}
        assert clusters.warnings() == [f"clusters: {path}: no context fits 'test'"]
        east = mirrors.specs["prod-east"]
        replaced(path, contexts({"dev": EAST, "prod-east": EAST, "test": WEST}))
        await until(lambda: mirrors.urls == {"prod-east": EAST, "test": WEST}, "it comes")
        assert mirrors.specs["prod-east"] is east
        assert clusters.warnings() == []
        replaced(path, contexts({"prod-east": EAST, "test": WEST}, token="x"))  # noqa: S106
        await until(lambda: mirrors.specs["prod-east"] is not east, "it changes")
        replaced(path, contexts({"prod-east": EAST}, token="x"))  # noqa: S106
        await until(lambda: mirrors.urls == {"prod-east": EAST}, "it goes")


async def test_a_kubeconfig_that_is_being_written_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(contexts({"east": EAST}))
    async with followed(of=Contexts(path, ["*"])) as (mirrors, clusters):
        replaced(path, "a: [")
        await until(lambda: f"{path}:2: no YAML" in str(clusters.warnings()), "it is told")
        path.unlink()
        await until(lambda: "No such file" in str(clusters.warnings()), "and that")
        assert mirrors.history == ["east"]
        replaced(path, contexts({"east": EAST, "west": WEST}))
        await until(lambda: mirrors.history == ["east", "west"], "it is back")
        assert clusters.warnings() == []


async def test_a_broken_context_keeps_its_last_good_content(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(contexts({"east": EAST, "west": WEST}))
    async with followed(of=Contexts(path, ["*"])) as (mirrors, clusters):
        replaced(path, contexts({"east": "ftp://x", "west": EAST}))
        await until(lambda: mirrors.urls["west"] == EAST, "the other changes")
        assert mirrors.urls["east"] == EAST
        (state,) = clusters.states()
        assert (state.name, str(state.state)) == (f"clusters:{path}, context east", "Stale")


async def test_contexts_may_be_where_kubectl_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    monkeypatch.setenv("KUBECONFIG", f"{one}:{two}")
    async with followed(of=Contexts(None, ["*"])) as (mirrors, _):
        two.write_text(contexts({"east": WEST, "west": WEST}))
        await until(lambda: mirrors.urls == {"east": WEST, "west": WEST}, "one file")
        one.write_text(contexts({"east": EAST}))
        await until(lambda: mirrors.urls == {"east": EAST, "west": WEST}, "both files")


async def test_at_the_start_the_kubeconfig_has_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    clusters = Clusters(Mirrors().update, ClusterSpecs().cluster, contexts=Contexts(path, ["*"]))
    with pytest.raises(InvalidConfiguration, match=f"^--contexts: {path}: cannot be read: No such"):
        await clusters.load()
