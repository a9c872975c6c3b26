"""What callers are told of a history that cannot be read, and what only the log has."""

import asyncio
import html
import sqlite3
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import grpc
import pytest
from apidiscovery.service.v1 import history_pb2, history_pb2_grpc
from apidiscovery_service.access.authenticator import OpenAccess
from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import Retention
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.grpc.history import HistoryService
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Site
from apidiscovery_service.serving.http.admission import Credentials
from apidiscovery_service.serving.http.messages import Headers, Request, Response
from apidiscovery_service.serving.http.pages_interface import Events, PageExchange
from apidiscovery_service.serving.http.past import PastAnswers
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import ClusterDocuments
from apidiscovery_service.web.application import WebInterface
from apidiscovery_service.web.view import Served
from fleet_clusters import group
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_errors import refusal
from grpc_server import GrpcServed
from structlog.testing import capture_logs
from structlog.typing import EventDict
from waiting import until

UNREADABLE = "the history cannot be read now, try again; the log of the server has the reason"
PAST_OF_EAST = "/ui/diff?from=cluster:east@{now}&to=kubernetes:1.31"


class NoDocuments:
    """No OpenAPI documents of clusters."""

    revision = 0


class Broken:
    """A history in a file that others break."""

    def __init__(self, history: History, path: Path) -> None:
        self.history = history
        self.path = path
        self.now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._site = Site(Checks(), Metrics(), openapi=None)

    def execute(self, statement: str) -> None:
        with sqlite3.connect(self.path) as file:
            file.execute(statement)

    def lose_changes(self) -> None:
        self.execute("DROP TABLE changes")

    def damage_contents(self) -> None:
        self.execute("UPDATE contents SET packed = x'00'")

    async def past(self, cluster: str = "east") -> Response:
        """Ask for the documents of a cluster now, as `?at=` does."""
        request = Request("GET", "/apis", f"at={self.now}", accept="application/json")
        return await PastAnswers(self.history, self._site).cluster(request, cluster, "/apis")

    async def page(self, target: str) -> tuple[int, str]:
        """Return the status of a page and its HTML without escapes."""
        encoding = CurrentEncoding(Registry())
        served = Served(
            Registry(),
            encoding,
            Fleet([]),
            cast("ClusterDocuments", NoDocuments()),
            self._site,
            list,
            Checks(),
            history=self.history,
        )
        answers: list[Response] = []

        async def answer(_limit_key: str, response: Response) -> None:
            answers.append(response)

        async def stream(_limit_key: str, _headers: Headers, _events: Events) -> None:
            raise AssertionError("no page is a stream")

        async def receive() -> dict[str, object]:
            raise AssertionError("no page has a body")

        path, _, query = target.format(now=self.now).partition("?")
        request = Request("GET", path, query, accept="text/html")
        exchange = PageExchange(request, {}, Credentials("", None), "", receive, answer, stream)
        pages = WebInterface(served, OpenAccess())
        await pages.serve(exchange)
        pages.stop()
        return answers[0].status, html.unescape(bytes(cast("bytes", answers[0].body)).decode())


@pytest.fixture(name="broken")
async def fixture_broken(tmp_path: Path) -> AsyncGenerator[Broken]:
    """The history has one cluster."""

    async def openapi_of(_name: str) -> dict[str, Recipe]:
        return {}

    path = tmp_path / "history.sqlite"
    history = await History.open(path, Retention(), lambda _: "ETAG", openapi_of)
    recording = asyncio.create_task(history.record())
    status = SourceStatus("east")
    cluster = Cluster("east", status, {}, (), (group("a.test"),), dialect=Dialect())
    history.clusters_changed([cluster], ())

    async def is_written() -> bool:
        return await history.last_id() >= 3

    await until(is_written, "the cluster is written")
    recording.cancel()
    await asyncio.wait([recording])
    yield Broken(history, path)
    await history.close()


def reasons(logs: list[EventDict]) -> list[str]:
    return [str(log["reason"]) for log in logs if log["event"] == "history cannot be read"]


async def test_only_the_log_has_the_details_of_a_history_that_cannot_be_read(
    broken: Broken,
) -> None:
    broken.lose_changes()
    why = [f"history {broken.path}: no such table: changes"]
    with capture_logs() as logs:
        response = await broken.past()
    assert (response.status, dict(response.headers)[b"retry-after"]) == (503, b"5")
    assert UNREADABLE.encode() in cast("bytes", response.body)
    assert str(broken.path).encode() not in cast("bytes", response.body)
    assert reasons(logs) == why
    for target, status in (("/ui/history", 503), (PAST_OF_EAST, 503), ("/ui/", 200)):
        with capture_logs() as logs:
            found, text = await broken.page(target)
        assert (found, UNREADABLE in text, str(broken.path) in text) == (status, True, False)
        assert reasons(logs) == why


async def test_grpc_hides_the_details_too(broken: Broken) -> None:
    served = GrpcServed()
    broken.lose_changes()
    async with (
        served.running(HistoryService(broken.history, served.metrics)),
        served.connected(history_pb2_grpc.HistoryServiceStub) as stub,
    ):
        with capture_logs() as logs:
            error = await refusal(stub.ListChanges(history_pb2.ListChangesRequest()))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, UNREADABLE)
        assert len(reasons(logs)) == 1
        long_ago = history_pb2.GetAtRequest(cluster="east", time=Timestamp(seconds=1))
        assert (await refusal(stub.GetAt(long_ago))).code() is grpc.StatusCode.UNAVAILABLE


async def test_nobody_is_told_to_retry_where_the_history_is_damaged(broken: Broken) -> None:
    broken.damage_contents()
    with capture_logs() as logs:
        response = await broken.past()
    assert (response.status, b"retry-after" in dict(response.headers)) == (500, False)
    assert b"cannot be unpacked" in cast("bytes", response.body)
    assert len(reasons(logs)) == 1
    status, text = await broken.page(PAST_OF_EAST)
    assert (status, "cannot be unpacked" in text) == (500, True)


async def test_what_was_never_recorded_is_not_found_and_not_logged(broken: Broken) -> None:
    with capture_logs() as logs:
        response = await broken.past("west")
        status, text = await broken.page(PAST_OF_EAST.replace("east", "west"))
    assert (response.status, status, reasons(logs)) == (404, 404, [])
    assert "cluster:west@" in text
