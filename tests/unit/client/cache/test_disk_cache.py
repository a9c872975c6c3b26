"""The cache gives back what was put into it, and its faults are no errors."""

import hashlib
import logging
import os
import pwd
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apidiscovery_cli.openapi.documents import DocumentCache, Name
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._writing import etag_of, write_aggregated
from apidiscovery_client.cache import DiskCache, default_folder, key
from apidiscovery_client.cache.file_format import make_entry, read, write
from apidiscovery_client.model import Group, Snapshot, Stale
from hypothesis import given, settings
from legacy_clusters import CLUSTERS
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2
from snapshot_samples import (
    SERVER,
    SINCE,
    WHEN,
    builtin_held,
    crds_held,
    edge_held,
    grpc_held,
    legacy_held,
    old_release_held,
    snapshots,
    troubled_held,
)

KEY = key(SERVER, "somebody")
OTHER_KEY = key(SERVER, "somebody else")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "deep" / "cache")


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(builtin_held(), id="builtin"),
        pytest.param(builtin_held(JSON_V2BETA1), id="builtin-v2beta1"),
        pytest.param(crds_held(), id="crds-and-no-core"),
        pytest.param(crds_held(JSON_V2BETA1), id="crds-v2beta1"),
        pytest.param(edge_held(), id="edge"),
        pytest.param(old_release_held(JSON_V2), id="before-1.34"),
        pytest.param(troubled_held(), id="stale-and-remembered"),
        pytest.param(grpc_held(), id="grpc"),
        *(pytest.param(legacy_held(name), id=name) for name in CLUSTERS),
    ],
)
def test_what_is_put_comes_back(cache: DiskCache, held: FetchedSnapshot) -> None:
    cache.put(KEY, held)
    assert DiskCache(cache.folder).get(KEY) == held
    assert cache.get(KEY) == held
    assert cache.get(OTHER_KEY) is None


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(builtin_held(PROTOBUF_V2), id="builtin"),
        pytest.param(crds_held(PROTOBUF_V2), id="crds"),
        pytest.param(old_release_held(PROTOBUF_V2), id="before-1.34"),
    ],
)
def test_protobuf_is_kept_as_the_json_of_its_etag(cache: DiskCache, held: FetchedSnapshot) -> None:
    cache.put(KEY, held)
    found = cache.get(KEY)
    assert found is not None
    assert (found.snapshot, found.etags) == (held.snapshot, held.etags)
    for path, document in found.documents.items():
        assert document.content_type == JSON_V2
        assert etag_of(document.body) == held.etags[path].strip('"')


def test_weak_etag_is_proven_too(cache: DiskCache) -> None:
    held = builtin_held()
    weak = {path: f"W/{etag}" for path, etag in held.etags.items()}
    cache.put(KEY, replace(held, etags=weak))
    assert cache.get(KEY) == replace(held, etags=weak)


@pytest.mark.parametrize("etag", ['"by-another-rule"', '""', "", "W/", '"' + "A" * 128 + '"'])
@pytest.mark.parametrize("content_type", [JSON_V2, PROTOBUF_V2])
def test_etag_by_another_rule_is_not_kept(cache: DiskCache, etag: str, content_type: str) -> None:
    held = builtin_held(content_type)
    cache.put(KEY, replace(held, etags={"/api": held.etags["/api"], "/apis": etag}))
    found = cache.get(KEY)
    assert found is not None
    assert found.snapshot == held.snapshot
    assert found.etags == {"/api": held.etags["/api"]}
    assert list(found.documents) == ["/api"]


def test_etag_without_its_document_is_proven_by_the_groups(cache: DiskCache) -> None:
    held = builtin_held()
    cache.put(KEY, replace(held, documents={}))
    assert cache.get(KEY) == held


def test_document_that_says_something_else_than_the_snapshot_is_not_kept(cache: DiskCache) -> None:
    held = builtin_held()
    fewer = replace(held.snapshot, groups=held.snapshot.groups[:-1])
    cache.put(KEY, replace(held, snapshot=fewer))
    found = cache.get(KEY)
    assert found == FetchedSnapshot(snapshot=fewer)


@pytest.mark.parametrize("etags", [{"": "0" * 128}, {}], ids=["unproven", "absent"])
def test_hashes_over_grpc_are_kept_only_with_a_proven_etag(
    cache: DiskCache, etags: dict[str, str]
) -> None:
    held = grpc_held()
    cache.put(KEY, replace(held, etags=etags))
    assert cache.get(KEY) == FetchedSnapshot(snapshot=held.snapshot)


def test_remembered_resources_over_grpc_come_back(cache: DiskCache) -> None:
    held = troubled_held()
    documents = held.documents.values()
    lines = "".join(f"{etag_of(document.body)}\n" for document in documents)
    scope = hashlib.sha512(lines.encode()).hexdigest().upper()
    cache.put(KEY, FetchedSnapshot(snapshot=held.snapshot, etags={"": scope}, hashes={"": "1"}))
    found = cache.get(KEY)
    assert found is not None
    assert (found.etags, found.hashes) == ({"": scope}, {"": "1"})
    (version,) = [found for found in found.snapshot.troubled if found.name == "v1beta1"]
    assert version.freshness == Stale(SINCE, "no endpoints", retained=True)
    assert [resource.name for resource in version.resources] == ["nodes"]


def test_document_of_a_path_that_failed_is_kept(cache: DiskCache) -> None:
    held = builtin_held()
    core, *others = held.snapshot.groups
    outage = Stale(SINCE, "503: it is starting", retained=True)
    versions = tuple(replace(version, freshness=outage) for version in core.versions)
    groups = (replace(core, versions=versions), *others)
    failed = replace(held.snapshot, groups=groups, failures={"/api": "503: it is starting"})
    wanted = replace(held, snapshot=failed)
    cache.put(KEY, wanted)
    assert cache.get(KEY) == wanted
    cache.put(KEY, replace(wanted, documents={}))
    assert cache.get(KEY) == wanted


@settings(max_examples=30)
@given(snapshots())
def test_any_snapshot_comes_back(snapshot: Snapshot) -> None:
    entry = make_entry(
        FetchedSnapshot(snapshot=snapshot, etags={"/api": '"1"', "": "x"}, hashes={"a": "b"})
    )
    assert read(KEY, write(KEY, entry)).fetched == FetchedSnapshot(snapshot=snapshot)


@settings(max_examples=30)
@given(snapshots(with_protobuf=False))
def test_any_snapshot_with_etags_comes_back(snapshot: Snapshot) -> None:
    etags = {
        "/api": f'"{_etag(group for group in snapshot.groups if not group.name)}"',
        "/apis": f'"{_etag(group for group in snapshot.groups if group.name)}"',
    }
    found = read(
        KEY, write(KEY, make_entry(FetchedSnapshot(snapshot=snapshot, etags=etags)))
    ).fetched
    assert found.snapshot == snapshot
    assert found.etags.items() <= etags.items()


def _etag(groups: Iterable[Group]) -> str:
    return etag_of(write_aggregated(groups, as_stated=True))


def test_unchanged_snapshot_is_put_with_its_new_time(cache: DiskCache) -> None:
    first = builtin_held()
    cache.put(KEY, first)
    held = DiskCache(cache.folder).get(KEY)
    assert held is not None
    later = replace(held.snapshot, checked_at=WHEN + timedelta(minutes=5), failures={"/api": "x"})
    renewed = replace(held, snapshot=later)
    for kept in (cache, DiskCache(cache.folder)):
        kept.put(KEY, renewed)
        assert kept.get(KEY) == renewed
        kept.put(KEY, renewed)
        assert kept.get(KEY) == renewed


def test_same_groups_with_another_etag_are_another_entry(
    cache: DiskCache,
) -> None:
    held = builtin_held()
    cache.put(KEY, held)
    cache.put(KEY, replace(held, etags={"/api": held.etags["/api"], "/apis": '"new"'}))
    found = cache.get(KEY)
    assert found is not None
    assert list(found.etags) == ["/api"]
    cache.put(OTHER_KEY, held)
    assert cache.get(OTHER_KEY) == held


def test_removed_entry_is_gone(cache: DiskCache) -> None:
    cache.remove(KEY)
    cache.put(KEY, builtin_held())
    cache.remove(KEY)
    assert cache.get(KEY) is None
    assert list(cache.folder.iterdir()) == []


def test_snapshot_from_the_future_is_not_believed(cache: DiskCache) -> None:
    held = builtin_held()
    soon = datetime.now(UTC) + timedelta(hours=1)
    cache.put(KEY, replace(held, snapshot=replace(held.snapshot, checked_at=soon)))
    assert cache.get(KEY) is None


@pytest.mark.parametrize("name", ["", "x", "../" + "a" * 61, "A" * 64, KEY + "\n"])
def test_malformed_key_is_refused(cache: DiskCache, name: str) -> None:
    with pytest.raises(ValueError, match="is not a cache key"):
        cache.get(name)
    with pytest.raises(ValueError, match="is not a cache key"):
        cache.put(name, builtin_held())
    with pytest.raises(ValueError, match="is not a cache key"):
        cache.remove(name)


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_files=2)
    tmp_path.chmod(0o700)
    keys = [key(SERVER, str(number)) for number in range(3)]
    for age, name in enumerate(keys[:2]):
        cache.put(name, crds_held())
        os.utime(tmp_path / f"{name}.discovery", (100 + age, 100 + age))
    assert cache.get(keys[0]) is not None
    cache.put(keys[2], crds_held())
    assert [cache.get(name) is None for name in keys] == [False, True, False]


def test_entries_are_bounded_in_bytes(tmp_path: Path) -> None:
    size = len(write(KEY, make_entry(crds_held())))
    cache = DiskCache(tmp_path / "cache", max_bytes=3 * size + 500)
    for number in range(9):
        cache.put(key(SERVER, str(number)), crds_held())
    assert len(list(cache.folder.iterdir())) == 3


def test_entry_beyond_the_bound_is_neither_kept_nor_read(cache: DiskCache) -> None:
    cache.put(KEY, crds_held())
    small = DiskCache(cache.folder, max_bytes=5000)
    small.put(OTHER_KEY, crds_held())
    assert small.get(OTHER_KEY) is None
    assert small.get(KEY) is None


def test_what_a_killed_process_left_goes_like_an_old_entry(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", max_files=2)
    cache.put(KEY, crds_held())
    left, foreign = cache.folder / "x.tmp", cache.folder / "README"
    for file in (left, foreign):
        file.write_bytes(b"half of it")
        os.utime(file, (1, 1))
    cache.put(OTHER_KEY, crds_held())
    assert not left.exists()
    assert foreign.exists()


def test_documents_and_snapshots_may_share_a_folder(tmp_path: Path) -> None:
    snapshots_kept = DiskCache(tmp_path / "cache", max_files=1)
    documents = DocumentCache(tmp_path / "cache", max_files=1)
    name = Name(SERVER, "apis/apps/v1", "1")
    for _ in range(2):
        snapshots_kept.put(KEY, crds_held())
        documents.put(name, b"{}")
    assert snapshots_kept.get(KEY) == crds_held()
    assert documents.get(name) == b"{}"


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere", "/dev/null/x", "a\0b"])
def test_unusable_folder_is_no_error(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / place)
    with caplog.at_level(logging.DEBUG, "apidiscovery_client.cache"):
        cache.put(KEY, crds_held())
        assert cache.get(KEY) is None
        cache.remove(KEY)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize("extra", [{"x": object()}, {"x": {1, 2}}, {"x": float("nan")}])
def test_what_cannot_be_written_is_not_kept(cache: DiskCache, extra: dict[str, object]) -> None:
    snapshot = Snapshot(groups=(Group("a", (), extra=extra),), server="s", checked_at=WHEN)
    cache.put(KEY, FetchedSnapshot(snapshot=snapshot))
    assert cache.get(KEY) is None


def test_default_folder_is_our_own_in_that_of_kubectl(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path))
    assert default_folder() == tmp_path / "apidiscovery" / "discovery"
    assert DiskCache().folder == default_folder()
    monkeypatch.setenv("KUBECACHEDIR", "")
    monkeypatch.setenv("HOME", "/home/of-somebody")
    assert default_folder() == Path("/home/of-somebody/.kube/cache/apidiscovery/discovery")


def test_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.delenv("KUBECACHEDIR")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    cache = DiskCache()
    assert cache.get(KEY) is None
    assert cache.folder == Path("/dev/null/apidiscovery/discovery")


def test_reading_imports_nothing_heavy(cache: DiskCache) -> None:
    cache.put(KEY, builtin_held())
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from apidiscovery_client.cache import DiskCache\n"
        f"held = DiskCache(Path({str(cache.folder)!r})).get({KEY!r})\n"
        "assert held is not None and len(held.etags) == 2\n"
        "heavy = {'asyncio', 'httpx2', 'google.protobuf', 'grpc', 'yaml', 'ssl', 'tempfile'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], check=True, capture_output=True, timeout=30
    )
    assert done.stdout == b"[]\n"
