"""A fake API server with objects, whose discovery is that of the package's fake."""

from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection

import fake_api_server
from apidiscovery_client.testing import FakeApiServer
from fake_api_server import Answer, Request
from waiting import WITHIN_S

_FORWARDED = ("accept", "if-none-match", "authorization")
_SENT_BACK = ("etag", "retry-after")


class ObjectCluster(fake_api_server.FakeApiServer):
    """Answers requests for objects, and forwards all others to the fake of the package.

    Attributes:
        fake: The fake of the package.
        objects: The answers, by path.
        asked: The requests for objects, as `METHOD /path`.
    """

    def __init__(self, fake: FakeApiServer, objects: Mapping[str, object]) -> None:
        super().__init__(self._respond)
        self.fake = fake
        self.objects = objects
        self.asked: list[str] = []

    def _respond(self, request: Request) -> Answer:
        if request.path not in self.objects:
            return self._forward(request)
        self.asked.append(f"{request.method} {request.path}")
        return fake_api_server.document(self.objects[request.path])

    def _forward(self, request: Request) -> Answer:
        host = self.fake.url.removeprefix("http://")
        with closing(HTTPConnection(host, timeout=WITHIN_S)) as connection:
            sent = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
            connection.request(request.method, request.path, headers=sent)
            told = connection.getresponse()
            kept = {name: told.headers[name] for name in _SENT_BACK if name in told.headers}
            return Answer(told.read(), told.headers["content-type"], told.status, kept)


def deployment(name: str) -> dict[str, object]:
    """Return a Deployment that runs nothing."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "1"},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
    }


def list_of(kind: str, api_version: str, *items: object) -> dict[str, object]:
    """Return a list as a server answers it."""
    return {
        "apiVersion": api_version,
        "kind": f"{kind}List",
        "metadata": {"resourceVersion": "1"},
        "items": list(items),
    }
