"""Authentication, authorization and limits of requests over HTTPS, for HTTP/1.1 and HTTP/2."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import structlog
from apidiscovery_service.access import Grant, Role
from apidiscovery_service.access.limits import CallerLimits
from certificates import Authority
from media_types import JSON_V2
from secured import GRANTS, TOKENS, Secured, bearer, secured
from waiting import until

# Statuses are in this order; the token of the stranger is unknown.
CALLERS = ("", "stranger", "nemo", "rita", "paul", "ada")
PUBLIC = (200, 401, 200, 200, 200, 200)
READERS = (401, 401, 403, 200, 200, 200)
ADMINS = (401, 401, 403, 403, 403, 200)
EXPECTED = {
    "/healthz": PUBLIC,
    "/livez": PUBLIC,
    "/readyz": PUBLIC,
    "/readyz?exclude=ping": PUBLIC,
    "/version": PUBLIC,
    "/version/": PUBLIC,
    "/readyz?verbose": ADMINS,
    "/livez?%76erbose=1": ADMINS,
    "/readyz/ping": ADMINS,
    "/metrics": ADMINS,
    "/": READERS,
    "/index.html": READERS,
    "/api": READERS,
    "/apis": READERS,
    "/apis/": READERS,
    "/apis/apps": READERS,
    "/apis/apps/v1": READERS,
    "/api/v1": READERS,
    "/openapi/v2": READERS,
    "/openapi/v3": READERS,
    "/openapi/v3/": (401, 401, 403, 404, 404, 404),
    "/openapi/v3/apis/apps/v1": READERS,
    "/openapi/v3/apis/apps/v1?hash=0": (401, 401, 403, 301, 301, 301),
    "/openapi/v3/apis/none/v1": (401, 401, 403, 404, 404, 404),
    "/openapi": (401, 401, 403, 404, 404, 404),
    "/apis/none.example.com/v1": (401, 401, 403, 404, 404, 404),
    "/%2Fhealthz": (401, 401, 403, 404, 404, 404),
    "/healthz/": (401, 401, 403, 403, 403, 404),
}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        yield running


async def until_status(client: httpx2.AsyncClient, path: str, status: int) -> None:
    """Ask again until the status is this; a reload takes half a second."""

    async def is_answered_so() -> bool:
        return (await client.get(path)).status_code == status

    await until(is_answered_so, f"{status} for {path}")


@pytest.mark.parametrize("http2", [False, True])
async def test_each_endpoint_is_for_callers_with_its_role(served: Secured, http2: bool) -> None:  # noqa: FBT001
    async with served.client(http2=http2) as client:
        found = {
            path: tuple(
                [(await client.get(path, headers=bearer(user))).status_code for user in CALLERS]
            )
            for path in EXPECTED
        }
        last = await client.get("/version")
    assert found == EXPECTED
    assert last.http_version == ("HTTP/2" if http2 else "HTTP/1.1")


@pytest.mark.parametrize("http2", [False, True])
async def test_a_certificate_identifies_the_caller(served: Secured, http2: bool) -> None:  # noqa: FBT001
    reader = served.authority.client("someone", ["readers"])
    nobody = served.authority.client("someone", ["writers"])
    admin = served.authority.client("ada", [])
    expected = [(reader, "/apis", 200), (reader, "/metrics", 403), (nobody, "/apis", 403)]
    for pair, path, status in [*expected, (admin, "/metrics", 200)]:
        async with served.client(certificate=pair, http2=http2) as client:
            assert (await client.get(path)).status_code == status
            # A certificate goes before a token, as with kube-apiserver.
            answer = await client.get(path, headers=bearer("stranger"))
            assert answer.status_code == status


async def test_foreign_and_expired_certificates_are_refused(
    served: Secured, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path / "other", "other").client("ada", [])
    expired = served.authority.client("ada", [], expired=True)
    with structlog.testing.capture_logs() as logs:
        for pair in (foreign, expired):
            async with served.client(certificate=pair) as client:
                with pytest.raises(httpx2.TransportError):
                    await client.get("/healthz")
    reasons = [entry["reason"] for entry in logs if entry["event"] == "no TLS"]
    assert len(reasons) == 2
    assert reasons[1] == "certificate has expired"


async def test_a_certificate_that_expires_on_an_open_connection_counts_no_more(
    served: Secured,
) -> None:
    async with served.client(certificate=served.authority.client("ada", [])) as client:
        assert (await client.get("/apis")).status_code == 200
        for peer in served.access.peers:
            peer.valid_until = 0.0
            peer.admitted.clear()
        assert (await client.get("/apis")).status_code == 401
        assert (await client.get("/healthz")).status_code == 401


async def test_refusals_have_the_form_of_kube_apiserver(served: Secured) -> None:
    async with served.client() as client:
        no_one = await client.get("/apis")
        nemo = await client.get("/apis", headers=bearer("nemo"))
        odd = await client.request("PUT", '/a"<%C3%A9%01', headers=bearer("nemo"))
    assert no_one.text == (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        '"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
    )
    assert "www-authenticate" not in no_one.headers
    assert no_one.headers["content-type"] == "application/json"
    assert nemo.text == (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        '"message":"forbidden: User \\"nemo\\" cannot get path \\"/apis\\"",'
        '"reason":"Forbidden","details":{},"code":403}\n'
    )
    assert nemo.headers["x-content-type-options"] == "nosniff"
    message = odd.json()["message"]
    assert message == 'forbidden: User "nemo" cannot put path "/a\\"&lt;é\\x01"'


async def test_anonymous_callers_may_read_only_with_a_grant(tmp_path: Path) -> None:
    grants = (*GRANTS, Grant(Role.READER, groups=frozenset({"system:unauthenticated"})))
    async with secured(tmp_path, grants=grants) as served, served.client() as client:
        assert (await client.get("/apis")).status_code == 200
        refused = await client.get("/metrics")
        wrong = await client.get("/apis", headers=bearer("stranger"))
    assert refused.status_code == 403
    assert 'User \\"system:anonymous\\" cannot' in refused.text
    assert wrong.status_code == 401


async def test_all_readers_get_the_same_documents_and_304s(served: Secured) -> None:
    async with served.client() as client:
        headers = {"accept": JSON_V2}
        first = await client.get("/apis", headers=headers | bearer("rita"))
        headers["if-none-match"] = first.headers["etag"]
        second = await client.get("/apis", headers=headers | bearer("paul"))
        denied = await client.get("/apis", headers=headers | bearer("nemo"))
        nobody = await client.get("/apis", headers=headers)
    assert [r.status_code for r in (first, second, denied, nobody)] == [200, 304, 403, 401]
    assert first.headers["cache-control"] == "public"


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"])
async def test_cached_documents_are_for_readers_alone(served: Secured, path: str) -> None:
    async with served.client() as client:
        first = await client.get(path, headers=bearer("rita"))
        condition = {"if-none-match": first.headers["etag"]}
        found = [
            (await client.get(path, headers=condition | bearer(user))).status_code
            for user in CALLERS
        ]
        refused = await client.get(path, headers=bearer("nemo"))
    assert found == [401, 401, 403, 304, 304, 304]
    assert "etag" not in refused.headers
    assert refused.json()["reason"] == "Forbidden"


async def test_the_server_answers_only_the_front(served: Secured) -> None:
    """Not even this user, who alone can reach its socket."""
    transport = httpx2.AsyncHTTPTransport(uds=str(served.http_front.server_path))
    async with httpx2.AsyncClient(transport=transport, headers=bearer("ada")) as client:
        for path in ("/apis", "/healthz", "/version"):
            assert (await client.get(f"http://a{path}")).status_code == 401


async def test_a_revoked_token_is_refused_and_a_broken_file_changes_nothing(
    served: Secured,
) -> None:
    """The token is refused on the open connection; the file is reported, logged and counted."""
    async with served.client("rita") as client, served.client("ada") as admin:
        assert (await client.get("/apis")).status_code == 200
        served.write_tokens(["ada"])
        await until_status(client, "/apis", 401)
        served.write_tokens(["ada", "rita"])
        await until_status(client, "/apis", 200)
        with structlog.testing.capture_logs() as logs:
            served.token_file.write_text(f"{TOKENS['ada']},ada\n")
            await until(served.tokens.warnings, "a warning about the file")
        assert (await client.get("/apis")).status_code == 200
        report = (await admin.get("/readyz?verbose")).text
        metrics = (await admin.get("/metrics")).text
    problem = "tokens.csv:1: want at least 3 columns (token, user name, user id), got 2"
    assert problem in report
    assert any(problem in str(entry) for entry in logs)
    assert 'apidiscovery_reload_error{file="token-auth-file"} 1.0' in metrics
    assert 'apidiscovery_reloads_total{file="token-auth-file",result="success"} 2.0' in metrics
    assert not [token for token in TOKENS.values() if token in f"{report}{logs}{metrics}"]


async def test_requests_are_limited_by_user_and_by_address(tmp_path: Path) -> None:
    limits = CallerLimits(requests_per_second=0.05, burst_s=60.0)
    async with secured(tmp_path, limits=limits) as served, served.client() as client:
        codes = [(await client.get("/apis", headers=bearer("rita"))).status_code for _ in range(4)]
        refused = await client.get("/apis", headers=bearer("rita"))
        other = await client.get("/apis", headers=bearer("ada"))
        guesses = [
            (await client.get("/apis", headers=bearer("stranger"))).status_code for _ in range(4)
        ]
    assert codes == [200, 200, 200, 429]
    assert refused.text == "Too many requests, please try again later.\n"
    assert refused.headers["content-type"] == "text/plain; charset=utf-8"
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert other.status_code == 200
    assert guesses == [401, 401, 401, 429]


async def test_no_answer_log_or_metric_shows_a_secret(served: Secured) -> None:
    with structlog.testing.capture_logs() as logs:
        async with served.client("ada") as client:
            for path in EXPECTED:
                for user in CALLERS:
                    answer = await client.get(path, headers=bearer(user))
                    assert "token-of" not in f"{answer.text}{answer.headers}"
            metrics = (await client.get("/metrics")).text
    shown = f"{logs}{metrics}{served.tokens!r}{served.tokens.value!r}{served.access!r}"
    assert [secret for secret in (*TOKENS.values(), "unheard-of") if secret in shown] == []
