"""OpenAPI through a real server: recorded documents, hashes, redirects and changes."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import crd_goldens
import pytest
from apidiscovery.openapi.v3 import openapi_pb2
from crd_manifests import CRONTABS, edited
from raw_http import RawResponse, get
from repository import GOLDEN
from server import Serve, Server, eventually, serving

RECORDED = GOLDEN / "crds"
PACKAGES = sorted((RECORDED / "manifests").glob("*.yaml.gz"))
INDEX = "/openapi/v3"
V3_OLD = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

KEYS = [f"apis/{group}/{version}" for group, version in crd_goldens.group_versions()]

GROUP, KIND = "stable.example.com", "com.example.stable.v1.CronTab"
CRONTAB = f"apis/{GROUP}/v1"
# Packaged ones are read one by one, which takes a fifth of a second of a core each.
OF_EACH_KIND = ("api", "api/v1", "apis/apps", "apis/apps/v1", CRONTAB, "version")
SEEN_WITHIN_S = 2.0
MADE_WITHIN_S = 30.0  # on a loaded machine


@pytest.fixture(scope="module", name="packages")
def fixture_packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server of all four packages."""
    folder = tmp_path_factory.mktemp("packages")
    for package in PACKAGES:
        (folder / package.stem).write_bytes(gzip.decompress(package.read_bytes()))
    assert len(PACKAGES) == 4
    with serving(
        tmp_path_factory.mktemp("server"), "--catalog", "none", "--manifests", str(folder)
    ) as started:
        yield started


@pytest.fixture(scope="module", name="fixture_f")
def fixture_fixture_f(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server of the built-in groups and CronTabs."""
    folder = tmp_path_factory.mktemp("crds")
    (folder / "crontabs.json").write_text(json.dumps(CRONTABS))
    with serving(
        tmp_path_factory.mktemp("f"), "--catalog", "kubernetes", "--manifests", str(folder)
    ) as started:
        yield started


def index(server: Server) -> dict[str, str]:
    """Return the URL of each document by key, once all are made: before, some have no hash."""
    return eventually(lambda: _urls(server), MADE_WITHIN_S, "every document has a hash")


def _urls(server: Server) -> dict[str, str] | None:
    answer = get(server.http_port, INDEX)
    assert answer.status == 200
    paths = cast("dict[str, dict[str, str]]", answer.json()["paths"])
    assert all(entry.keys() == {"serverRelativeURL"} for entry in paths.values())
    urls = {key: entry["serverRelativeURL"] for key, entry in paths.items()}
    return urls if all("?hash=" in url for url in urls.values()) else None


def document(server: Server, key: str) -> dict[str, Any]:
    return cast("dict[str, Any]", get(server.http_port, index(server)[key]).json())


def test_the_index_of_custom_resources_is_the_recorded_one(packages: Server) -> None:
    recorded = json.loads(crd_goldens.index())["paths"]
    wanted = {key: recorded[key]["serverRelativeURL"] for key in (*KEYS, "version")}
    assert index(packages) == wanted
    assert list(index(packages)) == sorted(wanted)


@pytest.mark.parametrize("key", KEYS)
def test_documents_are_the_recorded_ones_byte_for_byte(packages: Server, key: str) -> None:
    url = index(packages)[key]
    answer = get(packages.http_port, url)
    assert answer.body == crd_goldens.document(key)
    binary = get(packages.http_port, url, V3_OLD)
    assert binary.body == crd_goldens.document(key, "pb")
    assert binary.etag == answer.etag


def recorded_headers(name: str) -> dict[str, str]:
    lines = (RECORDED / "openapi" / f"{name}.headers").read_text().splitlines()[1:]
    pairs = [line.split(": ", 1) for line in lines if line]
    return {name.lower(): value for name, value in pairs}


@pytest.mark.parametrize("form", ["json", "pb"])
def test_headers_are_the_recorded_ones(packages: Server, form: str) -> None:
    name = "apis__cert-manager.io__v1"
    url = index(packages)[name.replace("__", "/")]
    answer = get(packages.http_port, url, V3 if form == "pb" else None)
    recorded = recorded_headers(f"{name}.{form}")
    for header in ("content-type", "cache-control", "vary", "accept-ranges"):
        assert answer.values(header) == [recorded[header]], header
    for header in ("expires", "last-modified"):
        (value,) = answer.values(header)
        shape = re.sub(r"[0-9]", "0", re.sub(r"[A-Z][a-z]{2}", "Xxx", value))
        assert shape == re.sub(r"[0-9]", "0", re.sub(r"[A-Z][a-z]{2}", "Xxx", recorded[header]))


def test_the_index_has_each_group_version(fixture_f: Server) -> None:
    found = index(fixture_f)
    answer = get(fixture_f.http_port, INDEX)
    assert answer.content_type == ["application/json"]
    assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    assert {"api/v1", "apis/apps/v1", CRONTAB, f"apis/{GROUP}/v1beta1"} <= found.keys()
    assert f"apis/{GROUP}/v2alpha1" not in found
    for key, url in found.items():
        assert re.fullmatch(rf"/openapi/v3/{re.escape(key)}\?hash=[0-9A-F]{{128}}", url)


def test_a_document_is_immutable_by_its_hash(fixture_f: Server) -> None:
    urls = index(fixture_f)
    for key in OF_EACH_KIND:
        url = urls[key]
        answer = get(fixture_f.http_port, url)
        assert answer.status == 200, key
        assert answer.etag == f'"{url.partition("=")[2]}"'
        assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
        assert answer.values("cache-control") == ["public, immutable"]
        assert answer.values("vary") == ["Accept"]
        assert answer.json()["openapi"] == "3.0.0"
        (expires,) = answer.values("expires")
        at = datetime.strptime(f"{expires}+0000", "%a, %d %b %Y %H:%M:%S UTC%z")
        assert timedelta(days=364) < at - datetime.now(UTC) < timedelta(days=367)
    plain = get(fixture_f.http_port, f"{INDEX}/apis/apps/v1")
    assert plain.status == 200
    assert plain.values("cache-control") == ["no-cache, private"]


def test_a_stale_hash_leads_to_the_current_one(fixture_f: Server) -> None:
    answer = get(fixture_f.http_port, f"{INDEX}/{CRONTAB}?hash=DEAD")
    assert (answer.status, answer.body) == (301, b"")
    assert answer.values("location") == [index(fixture_f)[CRONTAB]]
    unknown = get(fixture_f.http_port, f"{INDEX}/apis/unknown.example.com/v1?hash=DEAD")
    assert (unknown.status, unknown.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("key", OF_EACH_KIND)
def test_every_document_is_there_as_protobuf(fixture_f: Server, key: str) -> None:
    url = index(fixture_f)[key]
    answer = get(fixture_f.http_port, url, V3_OLD)
    assert answer.status == 200
    assert answer.content_type == [V3]
    assert answer.etag == get(fixture_f.http_port, url).etag
    assert answer.body[0] == 0x0A
    assert openapi_pb2.Document.FromString(answer.body).openapi == "3.0.0"
    refused = get(fixture_f.http_port, url, "text/html")
    assert (refused.status, refused.body) == (406, b"")


def test_every_reference_of_every_document_resolves(fixture_f: Server) -> None:
    for key in OF_EACH_KIND:
        found = document(fixture_f, key)
        for reference in re.findall(r'"\$ref":"([^"]+)"', json.dumps(found, separators=(",", ":"))):
            place = found
            for step in reference.removeprefix("#/").split("/"):
                place = place[step.replace("~1", "/").replace("~0", "~")]


def test_only_the_document_of_a_changed_definition_changes(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "crds"
    folder.mkdir()
    (folder / "crontabs.json").write_text(json.dumps(CRONTABS))
    server = serve("--catalog", "kubernetes", "--manifests", str(folder))
    before = index(server)

    apart = json.loads(json.dumps(CRONTABS))  # its versions have one schema in common
    described = edited(
        apart, "spec.versions[0].schema.openAPIV3Schema.description", "changed by a test"
    )
    discovery = get(server.http_port, f"/apis/{GROUP}/v1").body
    (folder / "crontabs.json").write_text(json.dumps(described))

    def changed() -> dict[str, str] | None:
        now = index(server)
        return now if now != before else None

    after = eventually(changed, SEEN_WITHIN_S, "the index tells of another document")
    assert [key for key in after if after[key] != before.get(key)] == [CRONTAB]
    assert before.keys() == after.keys()
    assert "changed by a test" in json.dumps(document(server, CRONTAB))
    # It was the schema alone.
    assert get(server.http_port, f"/apis/{GROUP}/v1").body == discovery
    assert get(server.http_port, before[CRONTAB]).values("location") == [after[CRONTAB]]

    (folder / "crontabs.json").unlink()
    eventually(lambda: CRONTAB not in index(server), SEEN_WITHIN_S, "the document is gone")
    gone = get(server.http_port, after[CRONTAB])
    assert (gone.status, gone.json()["reason"]) == (404, "NotFound")


def test_the_time_that_documents_take_is_measured(fixture_f: Server) -> None:
    index(fixture_f)
    text = get(fixture_f.http_port, "/metrics").body.decode()
    (count,) = re.findall(
        r"^crd_openapi_v3_aggregation_duration_seconds_count ([0-9.]+)$", text, re.MULTILINE
    )
    assert float(count) >= 2


def test_nothing_is_there_when_it_is_switched_off(serve: Serve) -> None:
    server = serve("--feature-gates", "OpenAPIV3=false")
    for path in (INDEX, f"{INDEX}/api/v1", "/openapi/v2"):
        answer: RawResponse = get(server.http_port, path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert b"openapi" not in get(server.http_port, "/").body


def test_the_merged_document_is_there_for_old_clients(fixture_f: Server) -> None:
    answer = get(fixture_f.http_port, "/openapi/v2")
    merged = cast("dict[str, Any]", answer.json())
    assert merged["swagger"] == "2.0"
    assert "/apis/apps/v1/namespaces/{namespace}/deployments" in merged["paths"]
    assert f"/apis/{GROUP}/v1/namespaces/{{namespace}}/crontabs" in merged["paths"]
    assert KIND in merged["definitions"]
    assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    v2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    binary = get(fixture_f.http_port, "/openapi/v2", v2)
    assert binary.content_type == [v2.replace("@", ".")]
    assert binary.etag == answer.etag
    assert binary.body.startswith(b"\n\x032.0")
