"""CustomResourceDefinitions through a real server: recorded answers, and the rules behind them."""

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
from apidiscovery.meta.v1 import discovery_pb2 as meta_discovery_pb2
from apidiscovery.openapi.v3 import openapi_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_service.core.model import Group
from crd_manifests import CRONTABS, edited
from decoded import JSONObject, groups_of_message, groups_of_value, unwrapped
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2
from raw_http import RawResponse, get
from repository import GOLDEN
from server import Server, serving
from waiting import eventually

RECORDED = GOLDEN / "crds"
GROUPS = RECORDED / "groups"
PACKAGES = sorted((RECORDED / "manifests").glob("*.yaml.gz"))
PROTOBUF = "application/vnd.kubernetes.protobuf"
INDEX = "/openapi/v3"
V3_OLD = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

# The reference server's own group.
OWN_GROUP = "apiextensions.k8s.io"
ANSWERS = sorted(
    path
    for path in GROUPS.iterdir()
    if path.suffix in {".json", ".pb"} and not path.name.startswith(OWN_GROUP)
)
KEYS = [f"apis/{group}/{version}" for group, version in crd_goldens.group_versions()]

GROUP, KIND = "stable.example.com", "com.example.stable.v1.CronTab"
CRONTAB = f"apis/{GROUP}/v1"
# Packaged ones are read one by one, which takes a fifth of a second of a core each.
OF_EACH_KIND = ("api", "api/v1", "apis/apps", "apis/apps/v1", CRONTAB, "version")
# On a loaded machine.
MADE_WITHIN_S = 30.0


@pytest.fixture(scope="module", name="packages")
def fixture_packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of all four packages."""
    folder = tmp_path_factory.mktemp("packages")
    for package in PACKAGES:
        (folder / package.stem).write_bytes(gzip.decompress(package.read_bytes()))
    with serving(
        tmp_path_factory.mktemp("server"), "--catalog", "none", "--manifests", str(folder)
    ) as started:
        yield started


class Edited:
    """A server that reads one manifest file, which changes."""

    def __init__(self, server: Server, file: Path) -> None:
        self.server = server
        self.port = server.http_port
        self._file = file
        self._first_etag = self.aggregated.etag

    @property
    def aggregated(self) -> RawResponse:
        return get(self.port, "/apis", JSON_V2)

    def group(self) -> JSONObject | None:
        """Return the item of the group in the aggregated document."""
        items: Any = self.aggregated.json()["items"]
        found: list[JSONObject] = [item for item in items if item["metadata"].get("name") == GROUP]
        return found[0] if found else None

    def resources(self, version: str) -> dict[str, JSONObject]:
        """Return the lines of the unaggregated list by name."""
        listed: Any = get(self.port, f"/apis/{GROUP}/{version}").json()["resources"]
        return {line["name"]: line for line in listed}

    def change(self, *documents: JSONObject) -> None:
        """Put documents in the place of what is in the file, and wait until that is served."""
        before = self.aggregated.etag
        self.write(*documents)
        eventually(lambda: self.aggregated.etag != before, "another ETag")

    def reset(self) -> None:
        """Put back what was there first, and wait until nothing else is served or warned of."""
        self.write(CRONTABS)
        eventually(self._is_as_first, "the first document")

    def _is_as_first(self) -> bool:
        report = get(self.port, "/readyz?verbose").body
        return self.aggregated.etag == self._first_etag and b"manifests: " not in report

    def write(self, *documents: JSONObject) -> None:
        beside = self._file.with_name(".new")
        text = "\n---\n".join(json.dumps(document) for document in documents)
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._file)


@pytest.fixture(scope="module")
def edited_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edited]:
    folder = tmp_path_factory.mktemp("manifests")
    file = folder / "crontabs.json"
    file.write_text(json.dumps(CRONTABS), encoding="utf-8")
    flags = ("--catalog", "kubernetes", "--manifests", str(folder))
    with serving(tmp_path_factory.mktemp("edited"), *flags) as server:
        yield Edited(server, file)


@pytest.fixture
def builtin(edited_server: Edited) -> Server:
    """Return a server of the built-in groups and CronTabs."""
    return edited_server.server


@pytest.fixture
def crontabs(edited_server: Edited) -> Iterator[Edited]:
    yield edited_server
    edited_server.reset()


# --------------------------------------------------------------------------------------------------
# Discovery of packages.


def in_name_order(groups: list[Group]) -> list[Any]:
    """Return groups without the reference's own, resources by name as the reference should."""
    return [
        (g.name, [(v.version, sorted(v.resources, key=lambda r: r.resource)) for v in g.versions])
        for g in groups
        if g.name != OWN_GROUP
    ]


def as_served(groups: list[Group]) -> list[Any]:
    """Return groups with resources in the order in which they stand there."""
    return [(g.name, [(v.version, list(v.resources)) for v in g.versions]) for g in groups]


@pytest.mark.parametrize(
    ("name", "accept"), [("apis.v2.json", JSON_V2), ("apis.v2beta1.json", JSON_V2BETA1)]
)
def test_the_aggregated_document_is_that_of_the_reference(
    packages: Server, name: str, accept: str
) -> None:
    response = get(packages.http_port, "/apis", accept)
    golden = json.loads((RECORDED / name).read_bytes())
    assert response.content_type == [accept]
    assert as_served(groups_of_value(response.json())) == in_name_order(groups_of_value(golden))
    assert {k: v for k, v in response.json().items() if k != "items"} == {
        k: v for k, v in golden.items() if k != "items"
    }


@pytest.mark.parametrize(
    ("name", "accept"),
    [("apis.v2.pb", PROTOBUF_V2), ("apis.v2beta1.pb", PROTOBUF_V2.replace("v=v2", "v=v2beta1"))],
)
def test_the_aggregated_document_is_that_of_the_reference_in_protobuf(
    packages: Server, name: str, accept: str
) -> None:
    def groups(body: bytes) -> list[Group]:
        return groups_of_message(
            discovery_pb2.APIGroupDiscoveryList.FromString(unwrapped(body).raw)
        )

    response = get(packages.http_port, "/apis", accept)
    golden = (RECORDED / name).read_bytes()
    assert response.content_type == [accept]
    assert as_served(groups(response.body)) == in_name_order(groups(golden))
    assert unwrapped(response.body).type_meta == unwrapped(golden).type_meta


def test_all_recorded_groups_are_compared() -> None:
    assert len(ANSWERS) == 26
    assert len(PACKAGES) == 4


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.name)
def test_a_group_and_a_version_are_those_of_the_reference(packages: Server, path: Path) -> None:
    accept = PROTOBUF if path.suffix == ".pb" else "application/json"
    response = get(packages.http_port, "/apis/" + path.stem.replace("__", "/"), accept)
    assert response.content_type == [accept]
    if path.suffix == ".json":
        assert_same_value(response.json(), json.loads(path.read_bytes()))
    else:
        assert_same_message(response.body, path.read_bytes())


def assert_same_value(answer: JSONObject, golden: JSONObject) -> None:
    if "resources" in golden:
        golden["resources"] = sorted(golden["resources"], key=place_of_value)
    assert json.dumps(answer) == json.dumps(golden)


def place_of_value(resource: JSONObject) -> tuple[str, bool]:
    """Sort by resource; the order of its subresources is kept."""
    name, _, subresource = str(resource["name"]).partition("/")
    return name, bool(subresource)


def assert_same_message(answer: bytes, golden: bytes) -> None:
    assert unwrapped(answer).type_meta == unwrapped(golden).type_meta
    ours = meta_discovery_pb2.APIResourceList.FromString(unwrapped(answer).raw)
    theirs = meta_discovery_pb2.APIResourceList.FromString(unwrapped(golden).raw)
    lines = sorted(theirs.resources, key=lambda r: (r.name.partition("/")[0], "/" in r.name))
    assert ours.group_version == theirs.group_version
    assert list(ours.resources) == lines
    assert len(answer) == len(golden)


# --------------------------------------------------------------------------------------------------
# OpenAPI.


def index(server: Server) -> dict[str, str]:
    """Return the URL of each document by key, once all are made: before, some have no hash."""
    return eventually(lambda: _urls(server), "every document has a hash", MADE_WITHIN_S)


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


def test_the_index_has_each_group_version(builtin: Server) -> None:
    found = index(builtin)
    answer = get(builtin.http_port, INDEX)
    assert answer.content_type == ["application/json"]
    assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    assert {"api/v1", "apis/apps/v1", CRONTAB, f"apis/{GROUP}/v1beta1"} <= found.keys()
    assert f"apis/{GROUP}/v2alpha1" not in found
    for key, url in found.items():
        assert re.fullmatch(rf"/openapi/v3/{re.escape(key)}\?hash=[0-9A-F]{{128}}", url)


def test_a_document_is_immutable_by_its_hash(builtin: Server) -> None:
    urls = index(builtin)
    for key in OF_EACH_KIND:
        url = urls[key]
        answer = get(builtin.http_port, url)
        assert answer.status == 200, key
        assert answer.etag == f'"{url.partition("=")[2]}"'
        assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
        assert answer.values("cache-control") == ["public, immutable"]
        assert answer.values("vary") == ["Accept"]
        assert answer.json()["openapi"] == "3.0.0"
        (expires,) = answer.values("expires")
        at = datetime.strptime(f"{expires}+0000", "%a, %d %b %Y %H:%M:%S UTC%z")
        assert timedelta(days=364) < at - datetime.now(UTC) < timedelta(days=367)
    plain = get(builtin.http_port, f"{INDEX}/apis/apps/v1")
    assert plain.status == 200
    assert plain.values("cache-control") == ["no-cache, private"]


def test_a_stale_hash_leads_to_the_current_one(builtin: Server) -> None:
    answer = get(builtin.http_port, f"{INDEX}/{CRONTAB}?hash=DEAD")
    assert (answer.status, answer.body) == (301, b"")
    assert answer.values("location") == [index(builtin)[CRONTAB]]
    unknown = get(builtin.http_port, f"{INDEX}/apis/unknown.example.com/v1?hash=DEAD")
    assert (unknown.status, unknown.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("key", OF_EACH_KIND)
def test_every_document_is_there_as_protobuf(builtin: Server, key: str) -> None:
    url = index(builtin)[key]
    answer = get(builtin.http_port, url, V3_OLD)
    assert answer.status == 200
    assert answer.content_type == [V3]
    assert answer.etag == get(builtin.http_port, url).etag
    assert answer.body[0] == 0x0A
    assert openapi_pb2.Document.FromString(answer.body).openapi == "3.0.0"
    refused = get(builtin.http_port, url, "text/html")
    assert (refused.status, refused.body) == (406, b"")


def resolves(found: JSONObject, reference: str) -> bool:
    place: Any = found
    for step in reference.removeprefix("#/").split("/"):
        place = place.get(step.replace("~1", "/").replace("~0", "~"), {})
    return bool(place)


def test_every_reference_of_every_document_resolves(builtin: Server) -> None:
    for key in OF_EACH_KIND:
        found = document(builtin, key)
        text = json.dumps(found, separators=(",", ":"))
        references = set(re.findall(r'"\$ref":"([^"]+)"', text))
        assert references, key
        assert [each for each in references if not resolves(found, each)] == [], key


def test_the_time_that_documents_take_is_measured(builtin: Server) -> None:
    index(builtin)
    text = get(builtin.http_port, "/metrics").body.decode()
    (count,) = re.findall(
        r"^crd_openapi_v3_aggregation_duration_seconds_count ([0-9.]+)$", text, re.MULTILINE
    )
    assert float(count) >= 2


def test_the_merged_document_is_there_for_old_clients(builtin: Server) -> None:
    answer = get(builtin.http_port, "/openapi/v2")
    merged = cast("dict[str, Any]", answer.json())
    assert merged["swagger"] == "2.0"
    assert "/apis/apps/v1/namespaces/{namespace}/deployments" in merged["paths"]
    assert f"/apis/{GROUP}/v1/namespaces/{{namespace}}/crontabs" in merged["paths"]
    assert KIND in merged["definitions"]
    assert answer.etag == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    v2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    binary = get(builtin.http_port, "/openapi/v2", v2)
    assert binary.content_type == [v2.replace("@", ".")]
    assert binary.etag == answer.etag
    assert binary.body.startswith(b"\n\x032.0")


# --------------------------------------------------------------------------------------------------
# A definition that changes.


def test_custom_resources_come_after_all_that_is_built_in(crontabs: Edited) -> None:
    items: Any = crontabs.aggregated.json()["items"]
    names = [item["metadata"]["name"] for item in items]
    assert (names[0], names[-1]) == ("apiregistration.k8s.io", GROUP)
    plain: Any = get(crontabs.port, "/apis").json()["groups"]
    assert plain[-1]["name"] == GROUP


def test_a_definition_is_served_with_its_versions_kinds_and_subresources(crontabs: Edited) -> None:
    group = crontabs.group()
    assert group is not None
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    (resource,) = group["versions"][0]["resources"]
    kind = {"group": GROUP, "version": "v1", "kind": "CronTab"}
    assert resource["responseKind"] == kind
    assert ",".join(resource["verbs"]) == (
        "delete,deletecollection,get,list,patch,create,update,watch"
    )
    rights = ["get", "patch", "update"]
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert resource["subresources"] == [
        {"subresource": "status", "responseKind": kind, "verbs": rights},
        {"subresource": "scale", "responseKind": scale, "verbs": rights},
    ]


def test_the_list_of_a_version_has_the_storage_version_hash(crontabs: Edited) -> None:
    lines = crontabs.resources("v1")
    assert lines["crontabs"]["storageVersionHash"] == "EdX2FP+L0js="
    assert lines["crontabs/status"] == {
        "name": "crontabs/status",
        "singularName": "",
        "namespaced": True,
        "kind": "CronTab",
        "verbs": ["get", "patch", "update"],
    }
    scale = lines["crontabs/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_a_storage_version_that_is_not_served_is_not_there(crontabs: Edited) -> None:
    crontabs.change(edited(CRONTABS, "spec.versions[0].served", value=False))
    group = crontabs.group()
    assert group is not None
    assert [version["version"] for version in group["versions"]] == ["v1beta1"]
    plain: Any = get(crontabs.port, f"/apis/{GROUP}").json()["versions"]
    assert [version["version"] for version in plain] == ["v1beta1"]
    assert get(crontabs.port, f"/apis/{GROUP}/v1").status == 404
    assert "storageVersionHash" not in crontabs.resources("v1beta1")["crontabs"]


def test_a_definition_that_is_being_deleted_takes_nothing_new(crontabs: Edited) -> None:
    terminating = edited(CRONTABS, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    terminating["metadata"]["finalizers"] = ["customresourcecleanup.apiextensions.k8s.io"]
    crontabs.change(terminating)
    group = crontabs.group()
    assert group is not None
    for version in group["versions"]:
        (resource,) = version["resources"]
        assert resource["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
    crontabs.change()
    assert crontabs.group() is None
    plain: Any = get(crontabs.port, "/apis").json()["groups"]
    assert GROUP not in {one["name"] for one in plain}
    response = get(crontabs.port, f"/apis/{GROUP}")
    assert (response.status, response.body) == (404, b"404 page not found\n")
    assert response.content_type == ["text/plain; charset=utf-8"]


def test_an_edit_that_breaks_keeps_what_was_there_and_is_told(crontabs: Edited) -> None:
    """Each field that is wrong has a line of its own."""
    etag = crontabs.aggregated.etag
    broken = edited(edited(CRONTABS, "spec.scope", "Everywhere"), "spec.group", "example")
    crontabs.write(broken)

    def told() -> str:
        text = get(crontabs.port, "/readyz?verbose").body.decode()
        return text if "manifests: " in text else ""

    text = eventually(told, "a warning")
    assert 'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Na' in text
    assert 'spec.group: Invalid value: "example": should be a domain with at least one dot' in text
    assert text.endswith("readyz check passed\n")
    assert crontabs.aggregated.etag == etag


def test_only_the_document_of_a_changed_definition_changes(crontabs: Edited) -> None:
    server = crontabs.server
    before = index(server)
    apart = json.loads(json.dumps(CRONTABS))  # its versions have one schema in common
    described = edited(
        apart, "spec.versions[0].schema.openAPIV3Schema.description", "changed by a test"
    )
    discovery = get(server.http_port, f"/apis/{GROUP}/v1").body
    crontabs.write(described)

    def changed() -> dict[str, str] | None:
        now = index(server)
        return now if now != before else None

    after = eventually(changed, "the index tells of another document")
    assert [key for key in after if after[key] != before.get(key)] == [CRONTAB]
    assert before.keys() == after.keys()
    assert "changed by a test" in json.dumps(document(server, CRONTAB))
    # It was the schema alone.
    assert get(server.http_port, f"/apis/{GROUP}/v1").body == discovery
    assert get(server.http_port, before[CRONTAB]).values("location") == [after[CRONTAB]]

    crontabs.change()
    eventually(lambda: CRONTAB not in index(server), "the document is gone")
    gone = get(server.http_port, after[CRONTAB])
    assert (gone.status, gone.json()["reason"]) == (404, "NotFound")
