"""Answers below /fleet, /views and /clusters, in this process."""

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest
import zstandard
from apidiscovery_formats.matrix import to_json
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.fleet.view_documents import ViewDocuments
from apidiscovery_service.fleet.view_groups import ViewKind
from apidiscovery_service.fleet.view_spec import ViewSpec
from apidiscovery_service.kube.objects.selectors import parse_labels
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.clusters import ClusterAnswers
from apidiscovery_service.serving.http.fleet import FleetAnswers, is_fleet_path
from apidiscovery_service.serving.http.past import PastAnswers
from apidiscovery_service.serving.http.views import ViewAnswers, oldest_release
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import ClusterDocuments
from fleet_clusters import cluster, group
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2

JSONObject = dict[str, Any]


class Published:
    """OpenAPI documents of clusters, by source and path."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], bytes] = {}
        self._listeners: list[Any] = []

    def put(self, cluster_name: str, key: str, text: str) -> None:
        document = {"openapi": "3.0.0", "info": {"title": text, "version": "v1"}, "paths": {}}
        self.documents[f"upstream:{cluster_name}", key] = json.dumps(document).encode()
        for listener in self._listeners:
            listener(frozenset([key.split("/")[1]]))

    def recipe(self, source: str, key: str) -> Recipe | None:
        text = self.documents.get((source, key))
        if text is None:
            return None

        async def make() -> bytes:
            return text

        return Recipe(text, make)

    def all_of(self, source: str) -> dict[str, Recipe]:
        found = {key: self.recipe(source, key) for owner, key in self.documents if owner == source}
        return {key: recipe for key, recipe in found.items() if recipe is not None}

    def on_change(self, listener: object) -> None:
        self._listeners.append(listener)


class NoDocuments:
    """No OpenAPI documents of clusters."""

    def __init__(self) -> None:
        self.revision = 0

    def of(self, name: str) -> None:
        """Return none."""


class Service:
    """A gateway over a fleet, and a client of it."""

    def __init__(self) -> None:
        eu = ViewSpec("eu", ViewKind.UNION, parse_labels("region=eu"))
        self.fleet = Fleet([eu])
        self.published = Published()
        self.ready = True
        site = Site(Checks(), Metrics(), server_address="example.com:80", openapi=None)
        documents = ViewDocuments(self.published, lambda _what, _seconds: None)
        self.gateway = Gateway(
            CurrentEncoding(Registry()),
            site,
            lambda: self.ready,
            fleet=FleetAnswers(
                self.fleet,
                site,
                ClusterAnswers(self.fleet, site, cast("ClusterDocuments", NoDocuments())),
                ViewAnswers(site, documents),
                PastAnswers(None, site),
            ),
        )
        transport = httpx2.ASGITransport(app=self.gateway)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://example.com")

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(path, headers={"accept-encoding": "identity", **given})

    async def json(self, path: str, **headers: str) -> JSONObject:
        answer = await self.get(path, **headers)
        assert answer.status_code == 200, answer.text
        return cast("JSONObject", answer.json())


@pytest.fixture(name="service")
async def fixture_service() -> AsyncIterator[Service]:
    service = Service()
    service.fleet.update(
        [
            cluster("east", group("apps", "Job"), labels={"region": "eu"}),
            cluster(
                "north", group("apps", "Job"), group("own.test", "Own"), labels={"region": "us"}
            ),
            cluster("west", group("apps", "Job"), labels={"region": "us"}),
        ]
    )
    async with service.client:
        yield service


def rows(found: JSONObject) -> list[str]:
    return [row["resource"] for row in found["rows"]]


async def test_the_root_lists_paths_of_the_fleet_where_there_is_one(service: Service) -> None:
    fleet = {"/clusters", "/fleet", "/fleet/clusters", "/fleet/matrix", "/views", "/views/eu"}

    async def paths() -> set[str]:
        return set((await service.json("/"))["paths"])

    assert fleet <= await paths()
    service.fleet.update([], gone=["east", "north", "west"])
    assert not any(path.startswith(("/fleet", "/views", "/clusters")) for path in await paths())


async def test_the_matrix_is_that_of_the_command_line(service: Service) -> None:
    answer = await service.get("/fleet/matrix")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == to_json(service.fleet.scope().matrix())
    assert answer.headers["etag"] == f'"{answer.json()["hash"]}"'
    assert answer.headers["cache-control"] == "no-cache, private"


async def test_clusters_are_the_columns_of_the_matrix(service: Service) -> None:
    clusters = await service.json("/fleet/clusters")

    assert clusters["clusters"] == to_json(service.fleet.scope().matrix())["clusters"]
    assert clusters["clusters"][0]["labels"] == {"region": "eu"}
    assert "rows" not in clusters


@pytest.mark.parametrize("path", ["/fleet/matrix", "/fleet/clusters"])
async def test_a_client_with_the_document_gets_304_until_it_changes(
    service: Service, path: str
) -> None:
    first = await service.get(path)
    etag = first.headers["etag"]

    for _ in range(2):  # from memory the second time
        same = await service.get(path, if_none_match=etag)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)

    service.fleet.update(
        [cluster("west", group("apps", "Job"), state=SourceState.STALE, error="x")]
    )
    other = await service.get(path, if_none_match=etag)
    assert other.status_code == 200
    assert other.json()["clusters"][2]["freshness"] == "Stale"
    assert other.headers["etag"] != etag


async def test_a_changed_row_is_in_the_next_answer(service: Service) -> None:
    before = await service.json("/fleet/matrix")
    service.fleet.update([cluster("west", group("apps", "Job", "New"))])
    after = await service.json("/fleet/matrix")

    assert rows(after) == ["pods", "jobs", "news", "owns"]
    assert after == to_json(service.fleet.scope().matrix())
    assert after["rows"][0] == before["rows"][0]


async def test_a_cached_row_gets_clusters_that_become_unknown(service: Service) -> None:
    """The row is the same object, but its text depends on the columns."""
    await service.get("/fleet/matrix")
    never = replace(cluster("west", state=SourceState.PENDING), core=None, named=None)
    service.fleet.update([never])

    found = await service.json("/fleet/matrix")
    assert found == to_json(service.fleet.scope().matrix())
    assert found["rows"][2]["unknown"] == ["west"]


@pytest.mark.parametrize(
    ("query", "resources", "columns"),
    [
        ("", ["pods", "jobs", "owns"], 3),
        ("group=apps", ["jobs"], 3),
        ("group=", ["pods"], 3),
        ("group=apps&group=own.test", ["jobs", "owns"], 3),
        ("group=none.such", [], 3),
        ("kind=Own", ["owns"], 3),
        ("kind=PODS&kind=job", ["pods", "jobs"], 3),
        ("different=true", ["owns"], 3),
        ("different=false", ["pods", "jobs", "owns"], 3),
        ("labelSelector=region%3Dus", ["pods", "jobs", "owns"], 2),
        ("labelSelector=region+in+(eu)", ["pods", "jobs"], 1),
        ("labelSelector=region%3Dus&different=1&group=own.test", ["owns"], 2),
        ("timeout=32s&pretty=false", ["pods", "jobs", "owns"], 3),
    ],
)
async def test_parameters_select(
    service: Service, query: str, resources: list[str], columns: int
) -> None:
    answer = await service.get(f"/fleet/matrix?{query}")
    found = answer.json()

    assert (rows(found), len(found["clusters"])) == (resources, columns)
    assert answer.headers["etag"] == f'"{found["hash"]}"'


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("different=perhaps", "different: want true or false, got 'perhaps'"),
        ("limit=-1", "limit: want a number of items, 0 or nothing for all, got '-1'"),
        ("limit=x", "limit: want a number of items, 0 or nothing for all, got 'x'"),
        ("limit=1&limit=2", "limit: want one value, got 2"),
        ("labelSelector=a%3D%3D%3Db", "labelSelector: "),
        ("continue=nonsense", "continue: want the value of metadata.continue of the previous page"),
        ("continue=e30", "continue: want the value of metadata.continue of the previous page"),
        (
            "labelselector=a",
            "'labelselector': want group, kind, labelSelector, different, limit or continue",
        ),
    ],
)
async def test_a_malformed_parameter_is_refused_with_what_was_wanted(
    service: Service, query: str, said: str
) -> None:
    answer = await service.get(f"/fleet/matrix?{query}")

    assert answer.status_code == 400
    assert (answer.json()["kind"], answer.json()["reason"]) == ("Status", "BadRequest")
    assert said in answer.json()["message"]


async def test_the_list_of_clusters_has_no_rows_to_select(service: Service) -> None:
    answer = await service.get("/fleet/clusters?kind=Pod")
    assert answer.status_code == 400
    assert "want labelSelector, limit or continue" in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "items"), [("/fleet/matrix", "rows"), ("/fleet/clusters", "clusters")]
)
async def test_pages_are_together_the_whole(service: Service, path: str, items: str) -> None:
    whole = await service.json(path)
    first = await service.json(f"{path}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 1
    second = await service.json(f"{path}?limit=2&continue={first['metadata']['continue']}")

    assert first[items] + second[items] == whole[items]
    assert "metadata" not in second
    assert first["hash"] == second["hash"] == whole["hash"]


async def test_a_page_of_an_earlier_state_is_gone(service: Service) -> None:
    first = await service.json("/fleet/matrix?limit=1")
    service.fleet.update([cluster("south", group("apps", "Job"))])

    answer = await service.get(f"/fleet/matrix?limit=1&continue={first['metadata']['continue']}")

    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    assert "Start a new list" in answer.json()["message"]


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_large_answers_are_compressed(service: Service, coding: str) -> None:
    service.fleet.update([cluster(f"more-{number}", group("apps", "Job")) for number in range(50)])
    plain = await service.get("/fleet/matrix")
    async with service.client.stream(
        "GET", "/fleet/matrix", headers={"accept-encoding": coding}
    ) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])

    assert answer.headers["content-encoding"] == coding
    assert answer.headers["vary"] == "Accept-Encoding"
    unpacked = gzip.decompress(body) if coding == "gzip" else zstandard.decompress(body)
    assert unpacked == plain.content


async def test_curl_gets_indented_json(service: Service) -> None:
    pretty = await service.get("/fleet/matrix", user_agent="curl/8")
    compact = await service.get("/fleet/matrix")

    assert pretty.text.startswith('{\n  "hash"')
    assert pretty.json() == compact.json()


async def test_paths_of_the_fleet_are_listed(service: Service) -> None:
    assert await service.json("/fleet") == {"paths": ["/fleet/clusters", "/fleet/matrix"]}
    assert await service.json("/views") == {"paths": ["/views/common", "/views/eu", "/views/union"]}
    for path in ("/clusters", "/clusters/"):
        moved = await service.client.get(path, follow_redirects=True)
        assert moved.url.path == "/fleet/clusters"
        assert len(moved.json()["clusters"]) == 3


@pytest.mark.parametrize(
    "path", ["/fleet/nope", "/views/nope", "/views/nope/apis", "/views/union/metrics"]
)
async def test_other_paths_are_not_found(service: Service, path: str) -> None:
    answer = await service.get(path)
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("path", ["/fleet/matrix", "/fleet/clusters", "/fleet", "/views"])
async def test_only_reading_json_is_allowed(service: Service, path: str) -> None:
    assert (await service.client.post(path)).status_code == 405
    assert (await service.get(path, accept="text/html")).status_code == 406
    assert (await service.client.head(path)).status_code == 200


async def test_nothing_is_answered_before_the_sources_are_read(service: Service) -> None:
    service.ready = False
    for path in ("/fleet/matrix", "/views/union/apis"):
        assert (await service.get(path)).status_code == 503


@pytest.mark.parametrize(
    ("path", "mine"),
    [
        ("/fleet", True),
        ("/fleet/matrix", True),
        ("/views/a/apis", True),
        ("/clusters", True),
        ("/clusters/east/apis", True),
        ("/fleets", False),
        ("/apis", False),
        ("*", False),
    ],
)
def test_paths_of_the_fleet_are_whole_segments(path: str, *, mine: bool) -> None:
    assert is_fleet_path(path) is mine


# Views.


def groups(found: JSONObject) -> list[str]:
    return [item["metadata"].get("name", "") for item in found["items"]]


async def test_views_are_what_any_and_what_all_serve(service: Service) -> None:
    assert groups(await service.json("/views/union/apis", accept=JSON_V2)) == ["apps", "own.test"]
    assert groups(await service.json("/views/common/apis", accept=JSON_V2)) == ["apps"]
    assert groups(await service.json("/views/eu/apis", accept=JSON_V2)) == ["apps"]
    assert groups(await service.json("/views/eu/api", accept=JSON_V2)) == [""]


@pytest.mark.parametrize("accept", [JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2])
async def test_views_come_in_every_form_with_an_etag(service: Service, accept: str) -> None:
    first = await service.get("/views/union/apis", accept=accept)
    again = await service.get(
        "/views/union/apis", accept=accept, if_none_match=first.headers["etag"]
    )

    assert first.status_code == 200
    assert first.headers["content-type"].startswith(accept.partition(";")[0])
    assert again.status_code == 304


async def test_views_have_the_documents_of_each_group(service: Service) -> None:
    listed = await service.json("/views/union/apis/own.test/v1")
    assert [each["name"] for each in listed["resources"]] == ["owns"]
    assert (await service.json("/views/union/apis/apps"))["preferredVersion"]["version"] == "v1"
    assert (await service.json("/views/union/api"))["versions"] == ["v1"]
    assert (await service.json("/views/union/api/v1"))["resources"][0]["name"] == "pods"
    assert (await service.get("/views/common/apis/own.test/v1")).status_code == 404
    assert "/apis/own.test/v1" in (await service.json("/views/union/"))["paths"]


async def test_a_view_stays_the_same_while_nothing_of_it_changes(service: Service) -> None:
    before = service.fleet.scope().view("eu")
    service.fleet.update([cluster("west", group("more.test", "More"))])
    assert service.fleet.scope().view("eu") is before


async def test_a_view_of_clusters_that_never_answered_is_not_empty_but_unavailable(
    service: Service,
) -> None:
    never = replace(cluster("east", state=SourceState.PENDING), core=None, named=None)
    service.fleet.update([replace(never, labels={"region": "eu"})])

    answer = await service.get("/views/eu/apis")
    assert answer.status_code == 503
    assert answer.json()["message"] == "no cluster of view eu has answered yet"
    assert answer.headers["retry-after"] == "5"


async def test_the_version_of_a_view_is_the_oldest_of_its_clusters(service: Service) -> None:
    east = service.fleet.clusters["east"]
    old = b'{"gitVersion":"v1.9.11"}'
    service.fleet.update([replace(east, dialect=replace(east.dialect, version=old))])

    assert (await service.get("/views/union/version")).content == old
    assert (await service.get("/views/eu/version")).content == old


def test_clusters_without_a_release_have_no_oldest_one() -> None:
    odd = [b"[]", b'{"gitVersion":"unreleased"}', b"{}", b""]
    clusters = [
        replace(cluster("a"), dialect=replace(cluster("a").dialect, version=v)) for v in odd
    ]
    assert oldest_release(clusters) is None


async def test_documents_are_those_of_the_first_cluster_that_publishes_one(
    service: Service,
) -> None:
    path = "/views/union/openapi/v3/apis/apps/v1"
    assert (await service.get(path)).status_code == 404

    service.published.put("west", "apis/apps/v1", "west")
    assert (await service.json(path))["info"]["title"] == "west"
    service.published.put("north", "apis/apps/v1", "north")
    assert (await service.json(path))["info"]["title"] == "north"
    service.published.put("north", "apis/own.test/v1", "own")
    index = await service.json("/views/union/openapi/v3")
    assert sorted(index["paths"]) == ["apis/apps/v1", "apis/own.test/v1"]
    url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    # Clients put their own prefix before a URL of this root (kubernetes/kubernetes#117463).
    assert url.startswith("/openapi/v3/apis/apps/v1?hash=")
    assert (await service.get(f"/views/union{url}")).status_code == 200
    moved = await service.get(f"{path}?hash=0")
    assert moved.headers["location"] == f"/views/union{url}"
    assert sorted((await service.json("/views/common/openapi/v3"))["paths"]) == ["apis/apps/v1"]

    service.fleet.update([], gone=["north"])
    assert (await service.json(path))["info"]["title"] == "west"
    assert sorted((await service.json("/views/union/openapi/v3"))["paths"]) == ["apis/apps/v1"]


async def test_a_new_cluster_is_served_below_its_own_path(service: Service) -> None:
    service.fleet.update([cluster("new", group("apps", "Job"))])
    assert groups(await service.json("/clusters/new/apis", accept=JSON_V2)) == ["apps"]
    assert (await service.get("/clusters/none/apis")).status_code == 404
