"""A run has a result for each check, for any answers of a server."""

import gzip
import json

import pytest
from apidiscovery_cli.conformance import exchange, subject
from apidiscovery_cli.conformance.check import CheckOutcome, Profile
from apidiscovery_cli.conformance.exchange import (
    Asked,
    Endpoint,
    NoAnswer,
    Reply,
    Session,
)
from apidiscovery_cli.conformance.reporting import FORMATS
from apidiscovery_cli.conformance.running import CHECKS, run
from hypothesis import given, settings
from hypothesis import strategies as st
from media_types import JSON_V2, PROTOBUF_V2

# What the checks look for, so that they find more than nothing.
NAMES = [
    "kind", "apiVersion", "metadata", "name", "items", "versions", "version", "resources",
    "resource", "responseKind", "group", "scope", "verbs", "subresources", "subresource",
    "freshness", "groups", "groupVersion", "preferredVersion", "paths", "serverRelativeURL",
    "openapi", "components", "schemas", "x-kubernetes-group-version-kind", "swagger", "major",
    "minor", "gitVersion", "singularResource", "namespaced", "code",
]  # fmt: skip
WORDS = [
    "v1", "apps", "APIGroupDiscoveryList", "APIGroupList", "APIResourceList", "APIVersions",
    "Status", "Current", "Stale", "Namespaced", "1", "30+", "3.0.0", "get", "http://[",
    "/openapi/v3/apis/apps/v1?hash=A", "apis/apps/v1",
]  # fmt: skip
LEAVES = st.sampled_from([*WORDS, None, True, 3, -1.5, "", "\x1b[31m", "é/../\n"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, *WORDS]), inner)
    ),
    max_leaves=12,
)
GROUP = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": LEAVES}),
        "name": LEAVES,
        "versions": st.lists(
            st.fixed_dictionaries(
                {
                    "version": LEAVES,
                    "groupVersion": LEAVES,
                    "resources": VALUES,
                    "freshness": LEAVES,
                }
            ),
            max_size=2,
        ),
        "preferredVersion": VALUES,
    }
)
DOCUMENTS = VALUES | st.fixed_dictionaries(
    {
        "kind": LEAVES,
        "apiVersion": LEAVES,
        "items": st.lists(GROUP, max_size=2),
        "groups": st.lists(GROUP, max_size=2),
        "resources": VALUES,
        "paths": VALUES,
    }
)
BODIES = DOCUMENTS.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20)
TYPES = st.sampled_from([JSON_V2, PROTOBUF_V2, "application/json", "text/html", "", "a; b=\x00"])
STATUSES = st.sampled_from([200, 200, 200, 304, 404, 406, 500, 301])
ETAGS = st.sampled_from(['"A"', "A", "", 'W/"A"', "\r\nx: y"])


def answers(data: st.DataObject) -> type[Session]:
    class Anything(Session):
        def ask(self, asked: Asked, *, again: bool = False) -> Reply:
            known = self._known.get(asked) if not again else None
            if known is None:
                known = self._known[asked] = self._draw(asked)
            self.log.append((asked, None))
            if isinstance(known, NoAnswer):
                raise known
            return known

        def _draw(self, asked: Asked) -> Reply | NoAnswer:
            if len(self.log) > 2 and data.draw(st.integers(0, 20)) == 0:
                return NoAnswer("", asked, "cut off")
            headers = (("content-type", data.draw(TYPES)), ("etag", data.draw(ETAGS)))
            return Reply(asked, data.draw(STATUSES), headers, data.draw(BODIES), 0.0)

    return Anything


@given(st.data())
@settings(max_examples=25)
def test_every_check_has_a_result_for_any_answers(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "Session", answers(data))
        profile = data.draw(st.sampled_from(list(Profile)))
        try:
            report = run(Endpoint(url="http://a"), profile=profile)
        except subject.NoApiServer:  # a page for each of the first two questions
            return
    assert [result.check for result in report.results] == list(CHECKS)
    assert all(result.seen for result in report.results if result.outcome is not CheckOutcome.PASS)
    for form in FORMATS.values():
        assert "\x1b" not in form(report)


def test_a_body_that_is_too_large_when_unpacked_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "MAX_BODY_BYTES", 1000)
    bomb = gzip.compress(bytes(1001))
    reply = Reply(Asked("GET", "/apis"), 200, (("content-encoding", "gzip"),), bomb, 0.1)
    with pytest.raises(ValueError, match="exceeds 1000 bytes"):
        _ = reply.content


def test_a_body_of_too_many_parts_is_an_error() -> None:
    """It is read without a copy of the rest after each part."""
    bomb = gzip.compress(b"", mtime=0) * 500_000
    reply = Reply(Asked("GET", "/apis"), 200, (("content-encoding", "gzip"),), bomb, 0.1)
    with pytest.raises(ValueError, match="more than 4096 parts"):
        _ = reply.content
