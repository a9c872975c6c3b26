"""Responses below /schemas and of /facts, with made-up documents."""

import gzip
import json
from typing import Any

import httpx2
import pytest
from apidiscovery_releases import facts_text
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.routes import MissingRoute, route
from schema_kinds import MadeUpDocuments, document_of

GROUP = "g.example.com"
SIZE = {"size": {"type": "integer"}}
THING = f"/schemas/{GROUP}/thing_v1.json"
FACTS = "/facts/kubernetes.json"


def made_up() -> MadeUpDocuments:
    return MadeUpDocuments(
        {
            "api/v1": document_of("", "v1", {"Pod": SIZE}),
            f"apis/{GROUP}/v1": document_of(GROUP, "v1", {"Thing": SIZE}, "d" * 2000),
            f"apis/{GROUP}/v1-strict": document_of(GROUP, "v1-strict", {"Rigid": SIZE}),
        }
    )


class Asked:
    """A gateway over made-up documents, and a client of it."""

    def __init__(
        self,
        documents: MadeUpDocuments | None = None,
        gates: str = "",
        *,
        ready: bool = True,
        extension: bool = False,
    ) -> None:
        metrics = Metrics()
        self.documents = documents or made_up()
        self.site = Site(
            Checks(metrics.observe_check),
            metrics,
            FeatureGates.parse(gates),
            openapi=OpenAPIAnswers(self.documents),
            extension=extension,
        )
        encoding = CurrentEncoding(Registry())
        self._gateway = Gateway(encoding, self.site, ready=lambda: ready)

    async def get(self, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        transport = httpx2.ASGITransport(self._gateway)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, headers={"accept-encoding": "", **named})


def paths(answer: httpx2.Response) -> list[str]:
    listed: list[dict[str, Any]] = answer.json()["schemas"]
    return [schema["url"] for schema in listed]


async def test_a_schema_has_an_etag_and_may_be_read_by_any_page() -> None:
    answer = await Asked().get(THING)
    assert answer.status_code == 200
    assert answer.json()["title"] == f"Thing {GROUP}/v1"
    told = {name: answer.headers[name] for name in ("content-type", "cache-control", "vary")}
    assert told == {
        "content-type": "application/json",
        "cache-control": "no-cache, private",
        "vary": "Accept-Encoding",
    }
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["etag"].startswith('"')


async def test_a_client_that_has_it_gets_304() -> None:
    asked = Asked()
    etag = (await asked.get(THING)).headers["etag"]
    answer = await asked.get(THING, if_none_match=etag)
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == etag
    assert answer.headers["access-control-allow-origin"] == "*"
    strict = await asked.get(f"{THING}?strict=true", if_none_match=etag)
    assert strict.status_code == 200


async def test_it_is_compressed_on_request() -> None:
    asked = Asked()
    plain = await asked.get(THING)
    packed = await asked.get(THING, accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content)
    assert packed.content in (plain.content, gzip.compress(plain.content))  # unpacked by httpx
    assert packed.headers["etag"] == plain.headers["etag"]


@pytest.mark.parametrize(
    ("path", "title", "strict"),
    [
        ("/schemas/core/pod_v1.json", "Pod v1", False),
        ("/schemas/v1/pod_v1.json", "Pod v1", False),  # as kubeconform calls the core group
        ("/schemas/v1/pod_v1-strict.json", "Pod v1", True),
        (f"/schemas/{GROUP}/Thing_v1.json", f"Thing {GROUP}/v1", False),
        (f"/schemas/{GROUP}/thing_v1-strict.json", f"Thing {GROUP}/v1", True),
        (f"{THING}?strict=true", f"Thing {GROUP}/v1", True),
        (f"{THING}?strict=false", f"Thing {GROUP}/v1", False),
        (f"/schemas/{GROUP}/rigid_v1-strict.json", f"Rigid {GROUP}/v1-strict", False),
    ],
)
async def test_a_name_leads_to_a_schema(path: str, title: str, *, strict: bool) -> None:
    schema = (await Asked().get(path)).json()
    assert schema["title"] == title
    assert ("additionalProperties" in schema["properties"]["spec"]) is strict


@pytest.mark.parametrize(
    ("path", "method", "status", "said"),
    [
        (f"/schemas/{GROUP}/none_v1.json", "GET", 404, "/schemas/ lists all schemas"),
        (f"/schemas/{GROUP}/thing_v2.json", "GET", 404, "no schema of such a kind here"),
        ("/schemas/none/thing_v1.json", "GET", 404, "there is no schema"),
        (f"{THING}?strict=perhaps", "GET", 400, "strict: want true or false, got 'perhaps'"),
        (f"{THING}?at=2026-11-20T10:00:00Z", "GET", 400, "start it with --history"),
        ("/schemas/?at=2026-11-20T10:00:00Z", "GET", 400, "start it with --history"),
        (THING, "POST", 405, "does not allow this method"),
        ("/schemas/", "DELETE", 405, "does not allow this method"),
        (FACTS, "PUT", 405, "does not allow this method"),
    ],
)
async def test_errors_have_a_status_and_a_message(
    path: str, method: str, status: int, said: str
) -> None:
    answer = await Asked().get(path, method)
    assert answer.status_code == status
    assert said in answer.json()["message"]


async def test_without_its_documents_a_schema_is_a_503() -> None:
    documents = made_up()
    documents.error = DiscoveryError("the cluster is away")
    for path in (THING, "/schemas/"):
        answer = await Asked(documents).get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["message"] == "schemas: the cluster is away"


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "g/thing",
        "g/thing.json/x",
        "g/thing.json",
        "g/_v1.json",
        "g/thing_.json",
        "g/a_v1.yaml",
    ],
)
def test_other_paths_are_no_schemas(path: str) -> None:
    assert route(f"/schemas/{path}") == MissingRoute()


async def test_the_index_lists_addresses_relative_to_itself() -> None:
    asked = Asked()
    moved = await asked.get("/schemas?strict=true")
    assert (moved.status_code, moved.headers["location"]) == (301, "schemas/?strict=true")
    answer = await asked.get("/schemas/")
    assert answer.json() == {
        "schemas": [
            {"group": "", "version": "v1", "kind": "Pod", "url": "core/pod_v1.json"},
            {
                "group": GROUP,
                "version": "v1",
                "kind": "Thing",
                "url": f"{GROUP}/thing_v1.json",
            },
            {
                "group": GROUP,
                "version": "v1-strict",
                "kind": "Rigid",
                "url": f"{GROUP}/rigid_v1-strict.json",
            },
        ],
        "failures": {},
    }
    assert paths(await asked.get("/schemas/?strict=true"))[0] == "core/pod_v1.json?strict=true"
    for path in paths(answer):
        assert (await asked.get(f"/schemas/{path}")).status_code == 200


async def test_an_answer_is_cached_until_documents_change() -> None:
    asked = Asked()
    first = await asked.get(THING)
    assert (await asked.get(THING)).content == first.content
    bodies = len(asked.documents.asked)
    asked.documents.texts[f"apis/{GROUP}/v1"] = document_of(GROUP, "v1", {"Thing": {}})
    assert (await asked.get(THING)).content == first.content  # nobody has told of a change
    assert len(asked.documents.asked) == bodies
    asked.documents.generation += 1
    assert (await asked.get(THING)).content != first.content


async def test_without_openapi_there_are_no_schemas() -> None:
    assert (await Asked(gates="OpenAPIV3=false").get(THING)).status_code == 404
    assert (await Asked(gates="OpenAPIV3=false").get("/schemas/")).status_code == 404


async def test_an_extension_server_has_neither() -> None:
    asked = Asked(extension=True)
    assert [(await asked.get(p)).status_code for p in (THING, "/schemas/", FACTS)] == [404] * 3
    assert not {"/schemas/", FACTS} & set((await asked.get("/")).json()["paths"])


async def test_schemas_wait_until_the_server_is_ready_and_facts_do_not() -> None:
    asked = Asked(ready=False)
    assert (await asked.get(THING)).status_code == 503
    assert (await asked.get(FACTS)).status_code == 200


async def test_the_facts_are_the_documented_file() -> None:
    asked = Asked()
    answer = await asked.get(FACTS)
    assert answer.content == facts_text()
    assert answer.headers["access-control-allow-origin"] == "*"
    again = await asked.get(FACTS, if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    packed = await asked.get(FACTS, accept_encoding="gzip")
    assert (packed.headers["content-encoding"], packed.content) == ("gzip", facts_text())
    assert json.loads(answer.content)["newest"] >= 36


async def test_the_root_lists_both() -> None:
    assert {"/schemas/", FACTS} <= set((await Asked().get("/")).json()["paths"])
