"""Requests to the fake API server of the package, with the standard library."""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from apidiscovery_client.testing import FakeApiServer
from waiting import WITHIN_S

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"


class Reply:
    """An answer.

    Attributes:
        headers: By name in lower case.
    """

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.body = response.read()
        self.status = response.status
        self.headers = {name.lower(): text for name, text in response.getheaders()}

    @property
    def json(self) -> Any:  # noqa: ANN401 - of any shape
        return json.loads(self.body)


def ask(  # noqa: PLR0913 - the parts of a request
    server: FakeApiServer,
    path: str,
    accept: str | None = None,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Reply:
    """Return the answer to one request, on a connection of its own."""
    host = server.url.removeprefix("http://")
    sent = {**({} if accept is None else {"Accept": accept}), **(headers or {})}
    with closing(http.client.HTTPConnection(host, timeout=WITHIN_S)) as connection:
        connection.request(method, path, body=body, headers=sent)
        return Reply(connection.getresponse())
