"""Documents are fetched by hash from any API server, and kept on disk without being trusted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from apidiscovery_cli.openapi.documents import DocumentCache, Name, OpenApiClient, default_folder
from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import FetchedDocument
from command_line import Outcome, run
from explained_cluster import discovery
from fake_api_server import Answer, FakeApiServer, Routes, document, openapi_routes, sha512

Ask = Callable[..., Outcome]

BODY = b'{"openapi":"3.0.0","info":{"title":"t","version":"v"},"paths":{}}'
OTHER = BODY.replace(b'"t"', b'"u"')
KEY = "apis/example.com/v1"
ROUTES = openapi_routes({KEY: BODY})


async def fetched(
    server: FakeApiServer, cache: DocumentCache | None = None, path: str = ""
) -> FetchedDocument:
    async with OpenApiClient(Server(url=server.url + path), cache) as client:
        return await client.document((await client.index())[KEY])


def files(cache: Path) -> list[str]:
    return [file.name for file in cache.glob("*")]


def with_url(url: object) -> Routes:
    return {**ROUTES, "/openapi/v3": document({"paths": {KEY: {"serverRelativeURL": url}}})}


async def test_document_comes_once_and_then_from_the_cache(cache: Path) -> None:
    with FakeApiServer(ROUTES) as server:
        first = await fetched(server, DocumentCache(cache))
        second = await fetched(server, DocumentCache(cache))
    assert (first.data, second.data) == (BODY, BODY)
    assert (first.is_cached, second.is_cached) == (False, True)
    assert server.paths == ["/openapi/v3", f"/openapi/v3/{KEY}", "/openapi/v3"]


def test_second_explain_downloads_no_document(real: FakeApiServer, ask: Ask) -> None:
    first = ask(real, "explain", "deployment.spec")
    before = len(real.requests)
    second = ask(real, "explain", "deployment.spec")
    assert first == second
    assert sorted(real.paths[before:]) == ["/api", "/apis", "/openapi/v3"]


def test_no_cache_writes_nothing(
    real: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path))
    assert run(capsys, "explain", "pods", "--no-cache", "--server", real.url).exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert run(capsys, "explain", "pods", "--server", real.url).exit_code == 0
    assert len(list(default_folder().iterdir())) == 1


def test_files_are_only_for_their_owner(cache: Path) -> None:
    kept = DocumentCache(cache / "deeper")
    kept.put(Name("s", "k", sha512(BODY)), BODY)
    (file,) = kept.folder.iterdir()
    assert (kept.folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert file.name == f"{sha512(BODY)}.json"


HASHES = pytest.mark.parametrize("stated", [sha512(BODY), "W/7", "../../x", "é"])


@HASHES
@pytest.mark.parametrize("planted", [OTHER, b"", BODY[:-1], b"0" * 128 + b"\n" + OTHER])
def test_planted_or_damaged_file_is_not_used(cache: Path, stated: str, planted: bytes) -> None:
    kept, name = DocumentCache(cache), Name("https://a", KEY, stated)
    kept.put(name, BODY)
    assert kept.get(name) == BODY
    (file,) = cache.iterdir()
    file.write_bytes(planted)
    assert kept.get(name) is None
    assert list(cache.iterdir()) == []


@HASHES
def test_a_file_that_others_can_write_is_not_used(cache: Path, stated: str) -> None:
    kept, name = DocumentCache(cache), Name("https://a", KEY, stated)
    kept.put(name, BODY)
    (file,) = cache.iterdir()
    file.chmod(0o666)
    assert kept.get(name) is None
    file.chmod(0o600)
    cache.chmod(0o777)
    assert kept.get(name) is None
    cache.chmod(0o700)
    assert kept.get(name) == BODY


def test_link_in_the_cache_is_not_followed(cache: Path, tmp_path: Path) -> None:
    kept, name = DocumentCache(cache), Name("https://a", KEY, sha512(BODY))
    cache.mkdir(0o700)
    (tmp_path / "elsewhere").write_bytes(BODY)
    (cache / name.file).symlink_to(tmp_path / "elsewhere")
    assert kept.get(name) is None


def test_documents_of_servers_with_weak_hashes_are_kept_apart(cache: Path) -> None:
    kept = DocumentCache(cache)
    kept.put(Name("https://a", KEY, "1"), BODY)
    assert kept.get(Name("https://b", KEY, "1")) is None
    assert kept.get(Name("https://a", "api/v1", "1")) is None
    assert kept.get(Name("https://a", KEY, "1")) == BODY


def test_least_recently_used_files_go_first(cache: Path) -> None:
    kept = DocumentCache(cache, max_files=2)
    names = [Name("https://a", KEY, str(number)) for number in range(3)]
    for age, name in enumerate(names[:2]):
        kept.put(name, BODY)
        os.utime(cache / name.file, (100 + age, 100 + age))
    assert kept.get(names[0]) == BODY
    kept.put(names[2], BODY)
    assert [kept.get(name) is None for name in names] == [False, True, False]


def test_cache_is_bounded_in_bytes(cache: Path) -> None:
    kept = DocumentCache(cache, max_bytes=3 * len(BODY) + 500)
    for number in range(9):
        kept.put(Name("https://a", KEY, str(number)), BODY)
    assert 1 <= len(list(cache.iterdir())) <= 3


async def test_unusable_cache_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with FakeApiServer(ROUTES) as server:
        assert (await fetched(server, DocumentCache(file / "below"))).data == BODY


async def test_document_with_another_hash_is_used_but_not_cached(cache: Path) -> None:
    routes = {**ROUTES, f"/openapi/v3/{KEY}": Answer(OTHER)}
    with FakeApiServer(routes) as server:
        assert (await fetched(server, DocumentCache(cache))).data == OTHER
    assert files(cache) == []


async def test_redirect_to_the_current_hash_is_followed(cache: Path) -> None:
    url = f"/openapi/v3/{KEY}?hash={sha512(OTHER)}"
    moved = Answer(status=301, headers={"Location": url}, then=Answer(OTHER))
    with FakeApiServer({**ROUTES, f"/openapi/v3/{KEY}": moved}) as server:
        found = await fetched(server, DocumentCache(cache))
    assert (found.data, found.location.hash) == (OTHER, sha512(OTHER))
    assert files(cache) == [f"{sha512(OTHER)}.json"]


@pytest.mark.parametrize("location", ["https://elsewhere.example.com/x", "//elsewhere/x"])
async def test_redirect_to_another_server_is_refused(location: str) -> None:
    moved = Answer(status=301, headers={"Location": location})
    with (
        FakeApiServer({**ROUTES, f"/openapi/v3/{KEY}": moved}) as server,
        pytest.raises(DiscoveryError, match="another server"),
    ):
        await fetched(server)


async def test_redirects_end() -> None:
    moved = Answer(status=301, headers={"Location": f"/openapi/v3/{KEY}"})
    with FakeApiServer({**ROUTES, f"/openapi/v3/{KEY}": moved}) as server:
        with pytest.raises(DiscoveryError, match="redirects are not followed"):
            await fetched(server)
        assert len(server.paths) == 5


@pytest.mark.parametrize(
    "url",
    ["//evil.example.com/x", "@evil.example.com/", "https://evil.example.com/", "/a b", "", 7],
)
async def test_a_document_on_another_server_is_refused(url: object) -> None:
    with FakeApiServer(with_url(url)) as server:
        with pytest.raises(DiscoveryError):
            await fetched(server)
        assert server.paths == ["/openapi/v3"]


async def test_prefix_of_a_proxy_is_kept_for_openapi_paths_only() -> None:
    url = f"/openapi/v3/{KEY}?hash=1"
    index = document({"paths": {KEY: {"serverRelativeURL": url}}})
    below = {"/proxy/openapi/v3": index, f"/proxy/openapi/v3/{KEY}": Answer(BODY)}
    with FakeApiServer(below) as server:
        assert (await fetched(server, path="/proxy")).data == BODY
    index = document({"paths": {KEY: {"serverRelativeURL": "/elsewhere?hash=1"}}})
    with FakeApiServer({"/proxy/openapi/v3": index, "/elsewhere": Answer(BODY)}) as server:
        assert (await fetched(server, path="/proxy")).data == BODY


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"[]", "an array, not an object"),
        (b"{}", "paths is null"),
        (b'{"paths":{"a":7}}', "serverRelativeURL is null"),
        (b'{"paths":' * 90_000, "nested too deeply"),
    ],
)
async def test_an_invalid_index_is_an_error(body: bytes, said: str) -> None:
    with (
        FakeApiServer({"/openapi/v3": Answer(body)}) as server,
        pytest.raises(DiscoveryError, match=said),
    ):
        await fetched(server)


def test_a_server_without_openapi_is_an_error(ask: Ask) -> None:
    with FakeApiServer(discovery()) as server:
        outcome = ask(server, "explain", "pods")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "/openapi/v3: 404: it has no OpenAPI v3 documents, " in outcome.stderr
