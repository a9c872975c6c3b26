"""Damaged and planted files of the cache are never believed."""

import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._writing import etag_of, write_aggregated
from apidiscovery_client.cache import DiskCache, key
from apidiscovery_client.cache.file_format import UntrustedFileError, make_entry, read, write
from apidiscovery_client.model import CURRENT, GroupVersion, Version
from media_types import JSON_V2
from snapshot_samples import SERVER, edge_held, grpc_held, troubled_held

KEY = key(SERVER, "somebody")
OTHER_KEY = key(SERVER, "somebody else")
MAGIC = b"apidiscovery snapshot 2 "

Forge = Callable[[bytes], bytes]


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def file(cache: DiskCache) -> Path:
    """Return the file of a good entry."""
    cache.put(KEY, edge_held())
    return cache.folder / f"{KEY}.discovery"


def content_of(held: FetchedSnapshot) -> bytes:
    return write(KEY, make_entry(held))


def sealed(rest: bytes) -> bytes:
    """Return a file that has the right digest, as anybody can compute it."""
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def rest_of(content: bytes) -> bytes:
    return content.partition(b"\n")[2]


def with_header(content: bytes, **changed: object) -> bytes:
    """Return the file with other fields in its header, and the right digest."""
    line, _, bodies = rest_of(content).partition(b"\n")
    header = {**json.loads(line), **changed}
    return sealed(json.dumps(header).encode() + b"\n" + bodies)


def header_of(content: bytes) -> dict[str, object]:
    header: dict[str, object] = json.loads(rest_of(content).partition(b"\n")[0])
    return header


def with_document(content: bytes, path: str, document: Document) -> bytes:
    """Return the file with another document in it, and everything else made consistent with it."""
    line, _, bodies = rest_of(content).partition(b"\n")
    header = json.loads(line)
    parts: list[bytes] = []
    for part in header["parts"]:
        body, bodies = bodies[: part["bytes"]], bodies[part["bytes"] :]
        if part["name"] == path:
            body = document.body
            part.update(bytes=len(body), contentType=document.content_type)
        parts.append(body)
    return sealed(json.dumps(header).encode() + b"\n" + b"".join(parts))


def believed(content: bytes) -> FetchedSnapshot | None:
    try:
        return read(KEY, content).fetched
    except UntrustedFileError:
        return None


@pytest.mark.parametrize("flip", [0x01, 0x80])
def test_flipped_bit_anywhere_is_detected(flip: int) -> None:
    content = content_of(edge_held())
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= flip
        assert believed(bytes(damaged)) is None, place


def test_truncated_file_is_detected_wherever_it_ends() -> None:
    content = content_of(edge_held())
    assert believed(content) is not None
    assert all(believed(content[:end]) is None for end in range(len(content)))
    assert believed(content + b"\n") is None


@pytest.mark.parametrize(
    ("held", "step"),
    [
        pytest.param(edge_held(), 1, id="edge"),
        pytest.param(troubled_held(), 1, id="troubled"),
        pytest.param(grpc_held(), 7, id="grpc"),  # which is larger
    ],
)
def test_flipped_bit_under_a_new_digest_changes_nothing_that_an_etag_stands_for(
    held: FetchedSnapshot, step: int
) -> None:
    """A planted file can have the right digest, but no other document with the same ETag."""
    content = content_of(held)
    genuine = {version.gv: version for version in held.snapshot.versions}
    rest = rest_of(content)
    header_ends = rest.index(b"\n")
    places = [*range(0, header_ends + 1, step), *range(header_ends + 1, len(rest), 37 * step)]
    for place in places:
        damaged = bytearray(rest)
        damaged[place] ^= 0x01
        found = believed(sealed(bytes(damaged)))
        if found is None or not found.etags:
            continue
        assert found.etags.items() <= held.etags.items()
        for version in found.snapshot.versions:
            assert_no_fresher(version, genuine[version.gv])


def assert_no_fresher(found: Version, genuine: Version) -> None:
    """Check that a version tells what the document does, and is current only if that says so."""
    assert found.stated_freshness == genuine.stated_freshness
    assert found.freshness != CURRENT or genuine.freshness == CURRENT
    if found.freshness == CURRENT:
        assert found.resources == genuine.resources


def planted_document(*, with_etag: bool = False) -> Forge:
    body = write_aggregated(edge_held().snapshot.groups[:1])
    etags = {"/apis": f'"{etag_of(body)}"'} if with_etag else edge_held().etags

    def forge(content: bytes) -> bytes:
        forged = with_document(content, "/apis", Document(JSON_V2, body))
        return with_header(forged, etags=dict(etags))

    return forge


def read_as(content_type: str) -> Forge:
    """Return what lets the genuine document be read as something else."""
    body = edge_held().documents["/apis"].body
    return lambda content: with_document(content, "/apis", Document(content_type, body))


def headed(head: bytes) -> Forge:
    """Return what puts something into the part of the document that is not hashed."""
    body = edge_held().documents["/apis"].body
    forged = body.replace(b'{"kind":"APIGroupDiscoveryList",', head, 1)
    return lambda content: with_document(content, "/apis", Document(JSON_V2, forged))


def instead(content: bytes) -> Forge:
    return lambda _: content


def of_schema(schema: bytes) -> Forge:
    return lambda content: content.replace(b" 2 ", schema, 1)


def headers(**changed: object) -> Forge:
    return lambda content: with_header(content, **changed)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(planted_document(), id="other-document-with-the-genuine-etag"),
        pytest.param(read_as("application/json"), id="genuine-document-as-another-kind"),
        pytest.param(read_as("text/plain"), id="genuine-document-as-text"),
        pytest.param(read_as(""), id="genuine-document-without-a-type"),
        pytest.param(read_as(JSON_V2.replace("json", "yaml")), id="genuine-document-as-yaml"),
        pytest.param(headed(b'{"items":[],"kind":"APIGroupDiscoveryList",'), id="items-before"),
        pytest.param(headed(b'{"kind":"APIGroupList",'), id="other-kind"),
        pytest.param(headers(key=OTHER_KEY), id="other-key"),
        pytest.param(headers(key=None), id="no-key"),
        pytest.param(headers(parts=[]), id="no-parts"),
        pytest.param(headers(parts="x"), id="parts-of-another-type"),
        pytest.param(headers(parts=[{"name": "/apis", "bytes": -1}]), id="negative-size"),
        pytest.param(headers(parts=[{"name": "/apis", "bytes": 10**9}]), id="size-beyond-the-end"),
        pytest.param(headers(parts=[{"name": "/apis", "bytes": "1"}]), id="size-of-another-type"),
        pytest.param(headers(etags={"/apis": '"' + "0" * 128 + '"'}), id="other-etag"),
        pytest.param(headers(etags={"/apis": '""'}), id="empty-etag"),
        pytest.param(headers(etags={"/apis": ""}), id="no-etag"),
        pytest.param(headers(etags={"": "0" * 128}), id="etag-of-all"),
        pytest.param(headers(etags={"": ""}), id="empty-etag-of-all"),
        pytest.param(headers(etags=[]), id="etags-of-another-type"),
        pytest.param(headers(checkedAt=None), id="no-time"),
        pytest.param(headers(checkedAt="yesterday"), id="no-such-time"),
        pytest.param(headers(checkedAt="2026-11-20T17:59:53"), id="time-without-a-zone"),
        pytest.param(headers(freshness={"freshness": "Fine"}), id="other-freshness"),
        pytest.param(headers(freshness={"freshness": "Stale"}), id="stale-since-never"),
        pytest.param(headers(failures={"/api": 503}), id="failures-of-another-type"),
        pytest.param(headers(notes={"versions": [{"freshness": "Current"}]}), id="note-of-nothing"),
        pytest.param(headers(notes={"versions": {}}), id="notes-of-another-type"),
        pytest.param(instead(sealed(b"[]\n")), id="header-is-no-object"),
        pytest.param(instead(sealed(b"{")), id="header-is-no-json"),
        pytest.param(instead(sealed(b"[" * 200_000)), id="nested-too-deeply"),
        pytest.param(instead(sealed(b'{"a":' + b"1" * 10_000 + b"}\n")), id="too-many-digits"),
        pytest.param(instead(sealed(b"\xff\n")), id="no-text"),
        pytest.param(instead(sealed(b"")), id="nothing-but-a-digest"),
        pytest.param(instead(b""), id="empty"),
        pytest.param(instead(b"\0" * 4096), id="zeros"),
        pytest.param(of_schema(b" 1 "), id="older-schema"),
        pytest.param(of_schema(b" 3 "), id="newer-schema"),
        pytest.param(of_schema(b" 22 "), id="schema-that-begins-so"),
    ],
)
def test_planted_file_is_not_believed_and_goes_away(
    cache: DiskCache, file: Path, forge: Forge
) -> None:
    file.write_bytes(forge(file.read_bytes()))
    assert cache.get(KEY) is None
    assert not file.exists()
    cache.put(KEY, edge_held())
    assert cache.get(KEY) == edge_held()


def test_planted_document_has_its_own_etag_so_the_next_fetch_brings_the_genuine_one(
    cache: DiskCache, file: Path
) -> None:
    file.write_bytes(planted_document(with_etag=True)(file.read_bytes()))
    found = cache.get(KEY)
    assert found is not None
    assert found.etags != edge_held().etags


def test_etag_of_what_is_no_path_proves_nothing() -> None:
    content = content_of(troubled_held())
    body = read(KEY, content).parts["remembered"].body
    etags = {**troubled_held().etags, "remembered": etag_of(body)}
    assert believed(with_header(content, etags=etags)) is None


def test_notes_cannot_make_a_stale_version_current() -> None:
    content = content_of(troubled_held())
    note = {"groupVersion": "metrics.example/v1beta1", "freshness": "Current"}
    assert believed(with_header(content, notes={"versions": [note]})) is None


def test_resources_cannot_be_remembered_of_a_version_that_tells_them() -> None:
    """A planted memory of a version is not believed beside the resources that it has."""
    content = content_of(troubled_held())
    memory = replace(troubled_held().snapshot.groups[1].versions[1], gv=GroupVersion("", "v1"))
    core = replace(troubled_held().snapshot.groups[0], versions=(memory,))
    forged = with_document(content, "remembered", Document(JSON_V2, write_aggregated([core])))
    note = {
        "groupVersion": "v1", "freshness": "Stale", "since": "2026-11-20T17:59:53+00:00",
        "retained": True,
    }  # fmt: skip
    found = believed(with_header(forged, notes={"versions": [note]}))
    assert found is not None
    assert [version.resources for version in found.snapshot.groups[0].versions] == [
        version.resources for version in troubled_held().snapshot.groups[0].versions
    ]


def test_hashes_of_groups_need_the_etag_of_all() -> None:
    content = content_of(edge_held())
    found = believed(with_header(content, hashes={"apps": "planted"}))
    assert found is not None
    assert found.hashes == {}


@pytest.mark.parametrize("half", ["/api", "/apis"])
def test_other_half_over_grpc_is_detected(half: str) -> None:
    content = content_of(grpc_held())
    groups = grpc_held().snapshot.groups
    fewer = [group for group in groups[:-1] if bool(group.name) is (half == "/apis")]
    other = Document(JSON_V2, write_aggregated(fewer[:-1] if half == "/api" else fewer))
    assert believed(with_document(content, half, other)) is None


def test_header_has_only_these_fields() -> None:
    names = {"key", "server", "checkedAt", "freshness", "failures", "parts", "etags", "hashes"}
    assert header_of(content_of(edge_held())).keys() == names | {"notes"}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_file_that_others_can_write_is_not_believed(
    cache: DiskCache, file: Path, mode: int
) -> None:
    file.chmod(mode)
    assert cache.get(KEY) is None
    file.chmod(0o600)
    assert cache.get(KEY) == edge_held()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_folder_that_others_can_write_is_not_used(cache: DiskCache, file: Path, mode: int) -> None:
    cache.folder.chmod(mode)
    assert cache.get(KEY) is None
    cache.put(OTHER_KEY, edge_held())
    cache.remove(KEY)
    assert list(cache.folder.iterdir()) == [file]
    cache.folder.chmod(0o700)
    assert cache.get(KEY) == edge_held()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_not_believed(cache: DiskCache, file: Path) -> None:
    os.chown(file, 65534, -1)
    assert cache.get(KEY) is None
    os.chown(file, 0, -1)
    os.chown(cache.folder, 65534, -1)
    assert cache.get(KEY) is None
    cache.put(OTHER_KEY, edge_held())
    assert list(cache.folder.iterdir()) == [file]
    os.chown(cache.folder, 0, -1)
    assert cache.get(KEY) == edge_held()


@pytest.mark.parametrize("target", ["same-folder", "elsewhere", "nowhere", "itself"])
def test_link_is_not_followed_but_replaced(cache: DiskCache, file: Path, target: str) -> None:
    places = {
        "same-folder": cache.folder / "x",
        "elsewhere": cache.folder.parent / "x",
        "nowhere": cache.folder / "y",
        "itself": file,
    }
    content = file.read_bytes()
    file.rename(places["elsewhere" if target == "elsewhere" else "same-folder"])
    file.symlink_to(places[target])
    assert cache.get(KEY) is None
    cache.put(KEY, edge_held())
    assert cache.get(KEY) == edge_held()
    assert not file.is_symlink()
    assert all(found.read_bytes() == content for found in cache.folder.parent.glob("x"))


def test_pipe_in_the_place_of_a_file_is_not_waited_for(cache: DiskCache, file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)
    assert cache.get(KEY) is None
    assert file.is_fifo()
    cache.put(KEY, edge_held())
    assert cache.get(KEY) == edge_held()


def test_folder_or_socket_in_the_place_of_a_file_is_no_error(
    cache: DiskCache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    monkeypatch.chdir(cache.folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file.name)
        file.chmod(0o600)
        assert cache.get(KEY) is None
    file.unlink()
    (file / "full").mkdir(parents=True)
    cache.put(KEY, edge_held())
    assert cache.get(KEY) is None
    cache.remove(KEY)
    assert [found.name for found in cache.folder.iterdir()] == [file.name]


def test_files_are_only_for_their_owner(cache: DiskCache, file: Path) -> None:
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
