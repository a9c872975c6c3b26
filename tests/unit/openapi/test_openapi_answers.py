"""Responses below /openapi, with made-up documents."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zstandard
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding, compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.metrics import Metrics, RequestLabels
from apidiscovery_service.openapi.body import Body, DocumentForm, Index
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.conditional import ModificationTimes
from apidiscovery_service.serving.http.messages import PreparedResponse
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers, negotiated
from apidiscovery_service.serving.http.response_cache import ResponseCache

DOCUMENT = json.dumps({"openapi": "3.0.0", "info": {}, "paths": {}, "x": "y" * 2000}).encode()
PROTOBUF = b"\n\x053.0.0" + b"p" * 2000
HASH = hashlib.sha512(DOCUMENT).hexdigest().upper()
KEY = "apis/apps/v1"
PATH = f"/openapi/v3/{KEY}"
V3_OLD = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


@dataclass
class MadeUp:
    """Documents of which there is one."""

    hash: str = HASH
    error: DiscoveryError | None = None
    generation: int = 0
    made: list[tuple[DocumentForm, Coding]] = field(
        default_factory=list[tuple[DocumentForm, Coding]]
    )

    async def index(self) -> Index:
        self._fail()
        url = {"serverRelativeURL": f"{PATH}?hash={self.hash}"}
        body = json.dumps({"paths": {KEY: url}}).encode() + b" " * 2000
        return Index({KEY: self.hash}, body, hashlib.sha512(body).hexdigest().upper(), {})

    async def hash_of(self, key: str) -> str | None:
        self._fail()
        return self.hash if key == KEY else None

    async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        return self._body(form, coding) if key == KEY else None

    async def merged_v2(self, form: DocumentForm, coding: Coding) -> Body:
        self._fail()
        return self._body(form, coding)

    def _body(self, form: DocumentForm, coding: Coding) -> Body:
        self.made.append((form, coding))
        data = DOCUMENT if form is DocumentForm.JSON else PROTOBUF
        return Body(KEY, self.hash, compression.compress(data, coding), coding)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def gateway_of(documents: MadeUp, gates: str = "") -> Gateway:
    metrics = Metrics()
    answers = OpenAPIAnswers(documents, ModificationTimes(lambda: 1000.5))
    site = Site(Checks(metrics.observe_check), metrics, FeatureGates.parse(gates), openapi=answers)
    return Gateway(CurrentEncoding(Registry()), site)


async def ask(
    path: str,
    documents: MadeUp | Gateway | None = None,
    method: str = "GET",
    gates: str = "",
    **headers: str,
) -> Answer:
    """Send a request to a gateway in this process.

    Names of headers are written with underscores, several values of one on a line each.
    """
    asked = documents or MadeUp()
    gateway = asked if isinstance(asked, Gateway) else gateway_of(asked, gates)
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (k.replace("_", "-").encode(), value.encode())
            for k, v in headers.items()
            for value in v.split("\n")
        ],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("no body is wanted")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await gateway(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, sent[1]["body"])


async def test_a_document_without_hash_is_not_to_be_cached() -> None:
    answer = await ask(PATH)
    assert (answer.status, answer.body) == (200, DOCUMENT)
    assert answer.headers == {
        "content-type": "application/json",
        "vary": "Accept",
        "etag": f'"{HASH}"',
        "cache-control": "no-cache, private",
        "accept-ranges": "bytes",
        "last-modified": "Thu, 01 Jan 1970 00:16:40 GMT",
        "content-length": str(len(DOCUMENT)),
    }


@pytest.mark.parametrize("name", ["hash", "etag"])
async def test_a_document_with_its_hash_is_immutable(name: str) -> None:
    answer = await ask(f"{PATH}?{name}={HASH}")
    assert (answer.status, answer.body) == (200, DOCUMENT)
    assert answer.headers["cache-control"] == "public, immutable"
    expires = f"{answer.headers['expires']}+0000"
    at = datetime.strptime(expires, "%a, %d %b %Y %H:%M:%S UTC%z")
    assert timedelta(days=364) < at - datetime.now(UTC) < timedelta(days=367)


@pytest.mark.parametrize("stale", ["DEAD", HASH.lower(), f'"{HASH}"'])
async def test_another_hash_is_redirected_to_the_current_document(stale: str) -> None:
    documents = MadeUp()
    answer = await ask(f"{PATH}?hash={stale}&timeout=32s", documents)
    assert (answer.status, answer.body) == (301, b"")
    assert answer.headers["location"] == f"{PATH}?hash={HASH}"
    assert answer.headers["etag"] == f'"{HASH}"'
    assert answer.headers["vary"] == "Accept"
    assert "immutable" not in answer.headers["cache-control"]
    assert not documents.made


async def test_hash_takes_precedence_over_etag() -> None:
    assert (await ask(f"{PATH}?etag=DEAD&hash={HASH}")).status == 200
    assert (await ask(f"{PATH}?etag=DEAD")).status == 301


async def test_a_document_that_changes_during_a_request_is_not_served_under_its_old_hash() -> None:
    class Changing(MadeUp):
        async def hash_of(self, key: str) -> str | None:
            return "OLD" if key == KEY else None

    answer = await ask(f"{PATH}?hash=OLD", Changing())
    assert (answer.status, answer.headers["location"]) == (301, f"{PATH}?hash={HASH}")


@pytest.mark.parametrize("key", ["apis/unknown.example.com/v1", "apis/apps/v1/", "", "api", "/"])
async def test_an_unknown_document_is_a_404_with_a_status(key: str) -> None:
    for query in ("", "?hash=DEAD"):
        answer = await ask(f"/openapi/v3/{key}{query}")
        assert answer.status == 404
        assert json.loads(answer.body)["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("accept", "content_type", "form"),
    [
        ("", "application/json", DocumentForm.JSON),
        ("*/*", "application/json", DocumentForm.JSON),
        ("application/*", "application/json", DocumentForm.JSON),
        ("application/json;as=Table;g=x", "application/json", DocumentForm.JSON),
        ("text/html, application/json;q=0.1", "application/json", DocumentForm.JSON),
        (V3, V3, DocumentForm.PROTOBUF),
        (V3_OLD, V3, DocumentForm.PROTOBUF),
        (f"application/json;q=0.5, {V3_OLD}", V3, DocumentForm.PROTOBUF),
        (f"{V3};q=0.5, application/json", "application/json", DocumentForm.JSON),
        (f"{V3};q=0", V3, DocumentForm.PROTOBUF),
    ],
)
async def test_the_form_is_negotiated(accept: str, content_type: str, form: DocumentForm) -> None:
    documents = MadeUp()
    answer = await ask(PATH, documents, accept=accept)
    assert answer.status == 200
    assert answer.headers["content-type"] == content_type
    assert answer.headers["etag"] == f'"{HASH}"'
    assert documents.made == [(form, "identity")]
    assert answer.body == (DOCUMENT if form is DocumentForm.JSON else PROTOBUF)


@pytest.mark.parametrize("accept", ["text/html", "application/yaml", V2, "nonsense", "text/*"])
async def test_another_form_is_not_acceptable(accept: str) -> None:
    answer = await ask(PATH, accept=accept)
    assert (answer.status, answer.body) == (406, b"")


def test_the_merged_document_has_media_types_of_its_own() -> None:
    found = negotiated("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "v2")
    assert found is not None
    assert (found.form, found.content_type) == (DocumentForm.PROTOBUF, V2)
    assert negotiated(V3, "v2") is None


@pytest.mark.parametrize(
    ("accept", "content_type", "form"),
    [
        ("", "text/plain; charset=utf-8", DocumentForm.JSON),
        ("application/json", "text/plain; charset=utf-8", DocumentForm.JSON),
        (
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            "application/octet-stream",
            DocumentForm.PROTOBUF,
        ),
    ],
)
def test_old_kube_apiservers_name_no_media_types(
    accept: str, content_type: str, form: DocumentForm
) -> None:
    found = negotiated(accept, "v3", untyped=True)
    assert found is not None
    assert (found.content_type, found.form) == (content_type, form)
    assert negotiated(V3, "v3", untyped=True) is None


@pytest.mark.parametrize("query", ["", f"?hash={HASH}"])
async def test_a_matching_etag_gets_304(query: str) -> None:
    answer = await ask(PATH + query, if_none_match=f'"{HASH}"')
    assert (answer.status, answer.body) == (304, b"")
    assert "content-type" not in answer.headers
    assert "last-modified" not in answer.headers
    assert answer.headers["etag"] == f'"{HASH}"'
    assert answer.headers["vary"] == "Accept"
    assert ("immutable" in answer.headers["cache-control"]) == bool(query)


async def test_head_tells_the_length_without_a_body() -> None:
    answer = await ask(PATH, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len(DOCUMENT))


async def test_any_other_method_is_treated_like_get() -> None:
    assert (await ask(PATH, method="POST")).body == DOCUMENT


@pytest.mark.parametrize("path", [PATH, "/openapi/v3", "/openapi/v2"])
async def test_bodies_are_compressed_for_clients_that_accept_it(path: str) -> None:
    plain = (await ask(path)).body
    zipped = await ask(path, accept_encoding="gzip")
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain
    packed = await ask(path, accept_encoding="gzip, zstd")
    assert packed.headers["content-encoding"] == "zstd"
    assert zstandard.decompress(packed.body) == plain
    off = await ask(path, gates="APIResponseCompression=false", accept_encoding="gzip")
    assert "content-encoding" not in off.headers


async def test_a_part_is_a_part_of_the_plain_text() -> None:
    answer = await ask(PATH, range="bytes=2-8", accept_encoding="gzip")
    assert (answer.status, answer.body) == (206, DOCUMENT[2:9])
    assert answer.headers["content-range"] == f"bytes 2-8/{len(DOCUMENT)}"
    assert "content-encoding" not in answer.headers
    beyond = await ask(PATH, range="bytes=100000-")
    assert (beyond.status, beyond.body) == (416, b"invalid range: failed to overlap\n")
    assert beyond.headers["content-range"] == f"bytes */{len(DOCUMENT)}"


async def test_the_first_of_several_ranges_counts() -> None:
    answer = await ask(PATH, range="bytes=0-1\nbytes=2-9")
    assert (answer.status, answer.body) == (206, DOCUMENT[:2])


async def test_the_index_is_compressed_once_for_concurrent_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Coding] = []

    def compress(content: bytes, coding: Coding) -> bytes:
        calls.append(coding)
        return gzip.compress(content)

    monkeypatch.setattr(compression, "compress", compress)
    gateway = gateway_of(MadeUp())
    asked = [ask("/openapi/v3", gateway, accept_encoding="gzip") for _ in range(5)]
    answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} == {200}
    assert calls == ["gzip"]


async def test_the_index_is_json_whatever_is_accepted() -> None:
    answer = await ask("/openapi/v3", accept="text/html")
    index = await MadeUp().index()
    assert (answer.status, answer.body) == (200, index.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["etag"] == f'"{index.etag}"'
    again = await ask("/openapi/v3", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


async def test_the_merged_document_has_the_hash_of_its_json() -> None:
    answer = await ask("/openapi/v2", accept=V2)
    assert (answer.body, answer.headers["content-type"]) == (PROTOBUF, V2)
    assert answer.headers["etag"] == f'"{HASH}"'
    assert (await ask("/openapi/v2", accept="text/html")).status == 406


@pytest.mark.parametrize("path", [PATH, "/openapi/v3", "/openapi/v2"])
async def test_an_unavailable_document_is_a_503(path: str) -> None:
    answer = await ask(path, MadeUp(error=DiscoveryError("the store is away")))
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert json.loads(answer.body)["message"] == "OpenAPI: the store is away"


@pytest.mark.parametrize("path", [PATH, "/openapi/v3", "/openapi/v2"])
async def test_nothing_is_there_when_it_is_switched_off(path: str) -> None:
    answer = await ask(path, gates="OpenAPIV3=false")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_an_answer_is_cached_until_something_changes() -> None:
    documents = MadeUp()
    gateway = gateway_of(documents)
    first = await ask(PATH, gateway)
    assert await ask(PATH, gateway) == first
    assert len(documents.made) == 1
    part = await ask(PATH, gateway, range="bytes=0-0")
    assert (part.status, part.body) == (206, DOCUMENT[:1])
    assert (await ask(PATH, gateway, if_match='"other"')).status == 412
    assert (await ask(PATH, gateway, accept=V3)).body == PROTOBUF
    assert await ask(PATH, gateway) == first
    documents.hash, documents.generation = "OTHER", 1
    assert (await ask(PATH, gateway)).headers["etag"] == '"OTHER"'


async def test_an_answer_made_during_a_change_is_not_cached() -> None:
    class Changing(MadeUp):
        async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
            found = await super().body(key, form, coding)
            self.generation, self.hash = 1, "OTHER"
            return found

    gateway = gateway_of(Changing())
    assert (await ask(PATH, gateway)).headers["etag"] == f'"{HASH}"'
    assert (await ask(PATH, gateway)).headers["etag"] == '"OTHER"'


async def test_an_error_is_not_cached() -> None:
    documents = MadeUp(error=DiscoveryError("away"))
    gateway = gateway_of(documents)
    assert (await ask(PATH, gateway)).status == 503
    documents.error = None
    assert (await ask(PATH, gateway)).status == 200


def kept_answer(size: int) -> PreparedResponse:
    stats = Metrics().request_stats(RequestLabels("GET", "/", "", "identity", 200))
    return PreparedResponse({}, {"body": b"x" * size}, stats)


def test_kept_answers_are_bounded_by_their_bytes() -> None:
    kept: ResponseCache[str] = ResponseCache(max_bytes=100)
    assert kept.get("a", 1) is None
    large, small = kept_answer(101), kept_answer(60)
    kept.put("a", 1, large)
    assert kept.get("a", 1) is None
    kept.put("a", 1, small)
    assert kept.get("a", 1) is small
    kept.put("b", 1, small)
    assert (kept.get("a", 1), kept.get("b", 1)) == (None, small)


def test_kept_answers_are_for_one_state_and_for_some_time() -> None:
    kept: ResponseCache[str] = ResponseCache(max_age_s=0.0)
    assert kept.get("a", 1) is None
    kept.put("a", 2, kept_answer(1))
    assert kept.get("a", 1) is None
    lasting: ResponseCache[str] = ResponseCache(max_age_s=60.0)
    assert lasting.get("a", 1) is None
    lasting.put("a", 1, answer := kept_answer(1))
    assert lasting.get("a", 1) is answer
    assert lasting.get("a", 2) is None
    assert lasting.get("a", 1) is None
