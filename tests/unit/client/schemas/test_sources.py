"""Sources of schemas: files, servers, releases, and the file of a snapshot."""

import base64
import json
import zlib
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from apidiscovery_client import InvalidConfiguration, RequestRefused
from apidiscovery_client._server import Server
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.schemas import (
    GivenSchemas,
    ReleasedSchemas,
    ServedSchemas,
    all_of,
    compare_sources,
    load_schemas,
    stored_schemas,
)
from apidiscovery_client.snapshots.file import dump, load
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.transports.http import HttpTransport
from fake_api_server import NOT_FOUND, Answer, FakeApiServer, Request, Respond, document, status
from schema_samples import DEFINITIONS, components, files, served, widget

V1 = GroupVersion("example.com", "v1")
V2 = GroupVersion("other.com", "v1")
TEXT: Mapping[str, object] = {"a": {"type": "string"}}
KEY = "apis/example.com/v1"
OTHER_KEY = "apis/other.com/v1"
BOTH = {KEY: components("example.com", "v1"), OTHER_KEY: components("other.com", "v1")}


@contextmanager
def asked(routes: Respond) -> Generator[tuple[FakeApiServer, ServedSchemas]]:
    with FakeApiServer(routes) as server:
        transport = HttpTransport(Server(server.url))
        try:
            yield server, ServedSchemas(transport, "the server")
        finally:
            transport.close()


# --------------------------------------------------------------------------------------------------
# Files.


def test_definitions_are_known_by_the_name_that_a_server_gives_them() -> None:
    found = files(widget(TEXT), widget(TEXT, kind="Gadget"))
    assert sorted(found.definitions) == ["gadgets.example.com", "widgets.example.com"]
    assert found.is_partial
    assert not found.covers("example.com")


def test_files_without_definitions_say_what_is_wanted() -> None:
    with pytest.raises(InvalidConfiguration, match="there is no CustomResourceDefinition in it"):
        files({"apiVersion": "v1", "kind": "ConfigMap"})


def test_a_definition_that_is_there_twice_is_told_with_both_places() -> None:
    with pytest.raises(InvalidConfiguration, match=r"files:\d+: widgets.example.com is also in"):
        files(widget(TEXT), widget(TEXT))


def test_names_that_a_server_adds_are_no_difference() -> None:
    of_server = widget(TEXT)
    of_server["spec"]["names"] |= {"singular": "widget", "listKind": "WidgetList"}
    assert compare_sources(files(widget(TEXT)), files(of_server)).changes == ()


# --------------------------------------------------------------------------------------------------
# Servers.


def test_definitions_are_read_in_pages_and_have_no_documents() -> None:
    both = [widget(TEXT), widget(TEXT, kind="Gadget")]
    with asked(served(BOTH, both)) as (server, found):
        assert sorted(found.definitions) == ["gadgets.example.com", "widgets.example.com"]
        assert found.group_versions == {V2}
        assert [path for path in server.paths if path == DEFINITIONS] == [DEFINITIONS] * 2


def test_where_definitions_are_forbidden_documents_count() -> None:
    docs = {KEY: components("example.com", "v1", Widget=TEXT)}
    with asked(served(docs)) as (_, found):
        assert found.definitions == {}
        assert found.group_versions == {V1}
        assert list(found.documents([V1]).found[V1].kinds(V1)) == ["Widget"]


def test_only_documents_that_both_have_are_fetched() -> None:
    one, other = served(BOTH), served({KEY: components("example.com", "v1", Widget=TEXT)})
    with asked(one) as (first, old), asked(other) as (_, new):
        changes = compare_sources(old, new).changes
        assert f"/openapi/v3/{OTHER_KEY}" not in first.paths
    assert [(one.group, one.change) for one in changes] == [
        ("example.com", "version-added"),
        ("other.com", "version-removed"),
    ]


def test_a_list_of_definitions_that_breaks_off_is_an_error() -> None:
    """An incomplete list would look like removals."""

    def respond(request: Request) -> Answer:
        if "continue" in request.query:
            return status(410, "Expired", "the continue token has expired")
        return document({"metadata": {"continue": "x"}, "items": [widget(TEXT)]})

    with pytest.raises(RequestRefused, match="expired"), asked(respond):
        pass


def test_one_document_that_fails_does_not_fail_others() -> None:
    broken = {f"/openapi/v3/{KEY}": status(503, "ServiceUnavailable", "down")}
    with asked(served(BOTH, broken=broken)) as (_, found):
        told = found.documents([V1, V2])
    assert list(told.found) == [V2]
    assert "503" in told.failures[V1]


@pytest.mark.parametrize("repeated", [True, False])
def test_a_server_may_be_below_a_path(*, repeated: bool) -> None:
    """The index behind a proxy may have paths with or without the prefix."""
    prefix = "/clusters/east"
    answers = served({KEY: components("example.com", "v1", Widget=TEXT)})

    def respond(request: Request) -> Answer:
        if not request.path.startswith(f"{prefix}/"):
            return NOT_FOUND
        answer = answers(replace(request, path=request.path.removeprefix(prefix)))
        body = answer.body.replace(b'"/openapi', f'"{prefix}/openapi'.encode())
        return replace(answer, body=body) if repeated else answer

    with (
        FakeApiServer(respond) as server,
        closing(HttpTransport(Server(f"{server.url}{prefix}"))) as transport,
    ):
        found = ServedSchemas(transport, "the server").documents([V1])
    assert list(found.found) == [V1], found.failures


def test_a_document_that_was_made_from_discovery_has_no_fields() -> None:
    made = {**components("example.com", "v1"), "x-apidiscovery-generated": "no document"}
    with asked(served({KEY: made})) as (_, found):
        assert "made from discovery" in found.documents([V1]).failures[V1]


# --------------------------------------------------------------------------------------------------
# Releases.


def test_releases_have_the_schemas_of_their_kinds() -> None:
    found = ReleasedSchemas("v1.31.4")
    apps = GroupVersion("apps", "v1")
    assert found.name == "kubernetes:1.31"
    assert "Deployment" in found.documents([apps]).found[apps].kinds(apps)
    assert found.covers("batch")
    assert not found.covers("example.com")


def test_kinds_of_a_release_are_those_that_discovery_lists() -> None:
    """Of all group-versions: none is missed, and none is a list or a parameter."""
    schemas = ReleasedSchemas("1.36")
    told = schemas.documents(schemas.group_versions).found
    found = {(str(gv), kind) for gv, components in told.items() for kind in components.kinds(gv)}
    listed = {
        (str(version.gv), resource.kind)
        for version in release("1.36").versions
        for resource in version.resources
    }
    assert listed - found == set()
    assert {kind for _, kind in found - listed} <= {"Eviction", "Binding", "TokenRequest"}


def test_a_release_that_is_not_recorded_says_which_are() -> None:
    with pytest.raises(InvalidConfiguration, match=r"kubernetes:1.9: schemas: .*want one of 1\.25"):
        ReleasedSchemas("1.9")


# --------------------------------------------------------------------------------------------------
# Files of snapshots.


@pytest.fixture(scope="module")
def saved() -> GivenSchemas:
    """Return the schemas of a server, of which one document failed."""
    docs = {KEY: components("example.com", "v1", Widget=TEXT), OTHER_KEY: {}}
    defined = [widget(TEXT, group="defined.com")]
    broken = {f"/openapi/v3/{OTHER_KEY}": status(503, "ServiceUnavailable", "down")}
    with asked(served(docs, defined, broken=broken)) as (_, found):
        return all_of(found)


def test_what_is_saved_is_read_back(saved: GivenSchemas) -> None:
    data = dump(release("1.30"), schemas=stored_schemas(saved))
    after = load_schemas(data, "a.json")
    assert load(data, "a.json") == release("1.30"), "schemas change nothing else"
    assert after.known == saved.known
    assert after.definitions == saved.definitions
    assert list(after.failures) == [V2]
    assert after.name == "a.json"


def test_what_many_documents_share_is_there_once() -> None:
    schemas = ReleasedSchemas("1.36")
    told = schemas.documents(schemas.group_versions)
    stored = stored_schemas(GivenSchemas("a", {}, told.found))
    assert len(json.dumps(stored)) < 500_000, "all documents of a release have 8 MB"


def test_a_snapshot_without_schemas_says_what_to_do() -> None:
    with pytest.raises(InvalidConfiguration, match=r"a.json: it has no schemas; .*--schemas"):
        load_schemas(dump(release("1.30")), "a.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"objects": {"00": {}}}, "its digest is another"),
        ({"objects": {}}, "has no object of"),
        ({"documents": {"apis/apps": {}}}, "is not a group-version"),
        ({"definitions": []}, "is an array"),
    ],
)
def test_damaged_schemas_are_told(
    saved: GivenSchemas, change: Mapping[str, object], problem: str
) -> None:
    stored = stored_schemas(saved)
    content = json.loads(zlib.decompress(base64.b64decode(str(stored["data"]))))
    packed = base64.b64encode(zlib.compress(json.dumps(content | change).encode())).decode()
    data = dump(release("1.30"), schemas={**stored, "data": packed})
    with pytest.raises(InvalidConfiguration, match=f"a.json: schemas: .*{problem}.*save it again"):
        load_schemas(data, "a.json")


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ({"encoding": "none", "data": ""}, "encoding is 'none'"),
        ({"encoding": "zlib+base64", "data": "?"}, "is damaged"),
        ({"encoding": "zlib+base64", "data": "eJw="}, "ends in the middle"),
        ([], "is an array"),
    ],
)
def test_schemas_that_cannot_be_unpacked_are_told(stored: Any, problem: str) -> None:  # noqa: ANN401
    data = dump(release("1.30"), schemas=stored)
    with pytest.raises(InvalidConfiguration, match=problem):
        load_schemas(data, "a.json")
