"""OpenAPI over HTTPS is there for readers alone, by whatever method, also what is remembered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from certificates import Authority
from secured import DOCUMENT, Secured, bearer, secured

CALLERS = ("", "nemo", "rita", "paul", "ada")
READERS = (401, 403, 200, 200, 200)
PATHS = ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        yield running


async def statuses(client: httpx2.AsyncClient, method: str, path: str) -> tuple[int, ...]:
    return tuple(
        [(await client.request(method, path, headers=bearer(user))).status_code for user in CALLERS]
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_by_whatever_method_it_is_for_readers(served: Secured, method: str) -> None:
    """The reference answers POST as it answers GET."""
    async with served.client() as client:
        found = {path: await statuses(client, method, path) for path in PATHS}
    assert found == dict.fromkeys(PATHS, READERS)


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_remembered_for_one_is_not_for_all(served: Secured, path: str) -> None:
    async with served.client() as client:
        first = await client.get(path, headers=bearer("rita"))
        condition = {"if-none-match": first.headers["etag"]}
        found = [
            (await client.get(path, headers=condition | bearer(user))).status_code
            for user in CALLERS
        ]
        refused = await client.get(path, headers=bearer("nemo"))
    assert found == [401, 403, 304, 304, 304]
    assert "etag" not in refused.headers
    assert refused.json()["reason"] == "Forbidden"


async def test_certificates_count_as_for_all_else(served: Secured, tmp_path: Path) -> None:
    authority = served.authority
    certificates = [
        (authority.client("someone", ["readers"]), 200),
        (authority.client("someone", ["writers"]), 403),
    ]
    for pair, status in certificates:
        async with served.client(certificate=pair) as client:
            found = [(await client.get(path)).status_code for path in PATHS]
        assert found == [status] * len(PATHS)
    foreign = Authority(tmp_path / "other", "other").client("ada", [])
    for path in PATHS:
        async with served.client(certificate=foreign) as client:
            with pytest.raises(httpx2.TransportError):
                await client.get(path)


async def test_a_revoked_token_counts_no_more_on_the_open_connection(served: Secured) -> None:
    path = PATHS[-1]
    async with served.client("rita") as client:
        assert (await client.get(path)).content == DOCUMENT
        served.write_tokens(["ada"])
        async with asyncio.timeout(3):
            while (await client.get(path)).status_code != 401:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.02)
        assert [(await client.get(one)).status_code for one in PATHS] == [401] * len(PATHS)
