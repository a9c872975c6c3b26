"""TLS, callers and roles of a real server, all by flags and the configuration file."""

import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
import httpx2
import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc, openapi_pb2
from apidiscovery.service.v1.openapi_pb2_grpc import OpenAPIServiceStub
from certificates import Authority, KeyPair
from command_line import Outcome, run
from etcd import EtcdServer
from fake_api_server import FakeApiServer, builtin
from programs import curl, kubectl, refused
from server import STOP_S, Serve, Server, serving
from waiting import WITHIN_S, eventually

TOKENS = {
    "rita": "secret-of-rita",
    "paul": "secret-of-paul",
    "ada": "secret-of-ada",
    "temp": "secret-of-temp",
    "nemo": "secret-of-nemo",  # without a role
    "nobody": "secret-of-nobody",  # in no file
}
KNOWN = ("rita", "paul", "ada", "temp", "nemo")
ACCESS = """\
access:
- role: reader
  groups: [readers]
- role: publisher
  users: [paul]
  groups: [publishers]
  api-groups: ["*.example.com"]
- role: admin
  users: [ada]
"""
LIST = """\
apiVersion: apidiscovery.k8s.io/v2
kind: APIGroupDiscoveryList
items:
- metadata: {name: GROUP}
  versions:
  - {version: v1, freshness: Current, resources: []}
"""
SERVER_NAMES = ["127.0.0.1", "localhost"]
# Files are looked at twice a second.
# Sooner than the lease of a server that is gone can expire.
HANDED_OVER_S = 3.0

OK, UNKNOWN = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
HTTP_STATUS = {OK: 200, UNKNOWN: 401, grpc.StatusCode.PERMISSION_DENIED: 403}
# What somebody who wants to read gets.
READING = {
    "": UNKNOWN,
    "nobody": UNKNOWN,
    "nemo": grpc.StatusCode.PERMISSION_DENIED,
    "rita": OK,
    "reader-certificate": OK,
    "publisher-certificate": OK,
    "paul": OK,
    "ada": OK,
}
OPENAPI_PATHS = ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1")
OPENAPI_METHODS: dict[str, Callable[[OpenAPIServiceStub], object]] = {
    "GetIndex": lambda stub: stub.GetIndex(openapi_pb2.GetIndexRequest()),
    "GetDocument": lambda stub: list(
        stub.GetDocument(openapi_pb2.GetDocumentRequest(key="apis/apps/v1"))
    ),
    "GetBundle": lambda stub: list(
        stub.GetBundle(openapi_pb2.GetBundleRequest(keys=["apis/apps/v1"]))
    ),
}


@dataclass(frozen=True, slots=True)
class Secured:
    """A server that asks who calls, on all addresses of the machine.

    Attributes:
        certificates: Client certificates of a reader, of a publisher for `*.example.com`, and of
            one that another authority made, by what they are called in tests.
    """

    server: Server
    folder: Path
    authority: Authority
    pair: KeyPair
    certificates: Mapping[str, KeyPair]

    @property
    def http_port(self) -> int:
        return self.server.http_port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.http_port}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.server.grpc.rpartition(':')[2]}"

    def get(self, path: str, who: str = "", *args: str) -> Outcome:
        """Return what curl gives, with the version of HTTP and the status in a line at the end.

        Args:
            path: What is asked for.
            who: Whose token is sent, or the name of a certificate; empty for nobody's.
            args: More flags.
        """
        shown = ("--write-out", "\n%{http_version} %{http_code}")
        authority = ("--cacert", str(self.authority.ca_file))
        if pair := self.certificates.get(who):
            args += ("--cert", str(pair.cert_file), "--key", str(pair.key_file))
        elif who:
            args += ("--header", f"Authorization: Bearer {TOKENS[who]}")
        return curl(self.folder, *authority, *shown, *args, self.url + path)

    def status(self, path: str, who: str = "", *args: str) -> int:
        return int(self.get(path, who, *args).stdout.rpartition(" ")[2])

    def credentials(self, who: str) -> list[str]:
        """Return the flags of kubectl and of ours: as whom, and whom to trust."""
        flags = ["--certificate-authority", str(self.authority.ca_file)]
        if pair := self.certificates.get(who):
            return [
                *flags,
                *("--client-certificate", str(pair.cert_file)),
                *("--client-key", str(pair.key_file)),
            ]
        return [*flags, "--token", TOKENS[who]] if who else flags


def write_tokens(file: Path, *users: str) -> None:
    groups = {"rita": "readers", "temp": "readers"}
    lines = [f'{TOKENS[user]},{user},{user}-id,"{groups.get(user, "")}"\n' for user in users]
    beside = file.with_suffix(".new")
    beside.write_text("".join(lines))
    beside.replace(file)


def security_flags(folder: Path, pair: KeyPair, authority: Authority) -> tuple[str, ...]:
    """Write tokens and grants; return the flags that name them all."""
    write_tokens(folder / "tokens.csv", *KNOWN)
    (folder / "config.yaml").write_text(ACCESS)
    return (
        *("--tls-cert-file", str(pair.cert_file)),
        *("--tls-private-key-file", str(pair.key_file)),
        *("--client-ca-file", str(authority.ca_file)),
        *("--token-auth-file", str(folder / "tokens.csv")),
        *("--config", str(folder / "config.yaml")),
    )


@pytest.fixture(scope="module", name="secured")
def fixture_secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, other = Authority(folder / "ca"), Authority(folder / "other")
    pair = authority.server(SERVER_NAMES)
    everywhere = ("--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0")
    flags = (*everywhere, "--store", "memory", *security_flags(folder, pair, authority))
    with serving(folder, *flags, addresses=False) as server:
        certificates = {
            "reader-certificate": authority.client("cara", ["readers"]),
            "publisher-certificate": authority.client("carl", ["publishers"]),
            "foreign-certificate": other.client("carl", ["publishers"]),
        }
        yield Secured(server, folder, authority, pair, certificates)


@pytest.fixture(name="call")
def fixture_call(secured: Secured, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return what calls a command as somebody, over gRPC with TLS."""

    def call(who: str, *args: str) -> Outcome:
        return run(capsys, *args, "--grpc-server", secured.grpc, *secured.credentials(who))

    return call


@pytest.fixture(name="apply")
def fixture_apply(call: Callable[..., Outcome], tmp_path: Path) -> Callable[[str, str], Outcome]:
    """Return what registers a group as somebody."""

    def apply(group: str, who: str) -> Outcome:
        file = tmp_path / "list.yaml"
        file.write_text(LIST.replace("GROUP", group))
        return call(who, "apply", "-f", str(file), "--name", group.partition(".")[0])

    return apply


# Reading.


VERSIONS = pytest.mark.parametrize(("flag", "version"), [("--http1.1", "1.1"), ("--http2", "2")])


@VERSIONS
@pytest.mark.parametrize("who", ["rita", "reader-certificate"])
def test_who_may_read_reads(secured: Secured, who: str, flag: str, version: str) -> None:
    outcome = secured.get("/apis", who, flag)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.endswith(f"\n{version} 200")
    assert '"kind": "APIGroupList"' in outcome.stdout


@VERSIONS
def test_who_is_not_known_learns_only_whether_the_server_is_well(
    secured: Secured, flag: str, version: str
) -> None:
    for who in ("", "nobody"):
        outcome = secured.get("/apis", who, flag)
        assert outcome.stdout.endswith(f"\n{version} 401")
        assert "APIGroupList" not in outcome.stdout
    assert secured.get("/readyz", "", flag).stdout == f"ok\n{version} 200"


def test_a_certificate_of_another_authority_gets_no_connection(secured: Secured) -> None:
    outcome = secured.get("/readyz", "foreign-certificate")
    assert outcome.exit_code != 0
    assert outcome.stdout == "\n0 000"


@pytest.mark.parametrize("who", ["rita", "reader-certificate"])
def test_kubectl_reads(secured: Secured, who: str, tmp_path: Path) -> None:
    flags = ("--server", secured.url, *secured.credentials(who))
    listed = kubectl(tmp_path, *flags, "api-resources", "-o", "name")
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert "deployments.apps" in listed.stdout.split()


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("nobody", "the server has asked for the client to provide credentials"),
        ("nemo", "Error from server (Forbidden)"),
    ],
)
def test_kubectl_is_refused(secured: Secured, who: str, error: str, tmp_path: Path) -> None:
    flags = ("--server", secured.url, *secured.credentials(who))
    listed = kubectl(tmp_path, *flags, "api-resources")
    assert listed.exit_code == 1
    assert error in listed.stderr


# Publishing.


@pytest.mark.parametrize(
    ("who", "group"),
    [
        ("paul", "token.example.com"),
        ("publisher-certificate", "certificate.example.com"),
        ("ada", "any.example.org"),
    ],
)
def test_who_may_publish_a_group_publishes_it(
    secured: Secured, apply: Callable[[str, str], Outcome], who: str, group: str
) -> None:
    name = group.partition(".")[0]
    assert apply(group, who) == Outcome(0, f"groups/{name} created\n", "")
    eventually(
        lambda: f'"{group}"' in secured.get("/apis", "rita").stdout,
        f"{group} is served",
    )


@pytest.mark.parametrize(
    ("who", "group", "reason"),
    [
        ("paul", "other.example.net", "Forbidden"),
        ("publisher-certificate", "other.example.net", "Forbidden"),
        ("rita", "other.example.com", "Forbidden"),
        ("reader-certificate", "other.example.com", "Forbidden"),
        ("", "other.example.com", "Unauthorized"),
        ("nobody", "other.example.com", "Unauthorized"),
    ],
)
def test_who_may_not_publish_a_group_is_refused(
    secured: Secured, apply: Callable[[str, str], Outcome], who: str, group: str, reason: str
) -> None:
    outcome = apply(group, who)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith(f"Error from server ({reason}): ")
    assert group not in secured.get("/apis", "rita").stdout


def test_a_reader_may_list_and_nobody_may_not(call: Callable[..., Outcome]) -> None:
    assert call("rita", "get", "sources").exit_code == 0
    refused_listing = call("", "get", "sources")
    assert refused_listing.exit_code == 1
    assert "Unauthorized" in refused_listing.stderr


# OpenAPI.


@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_openapi_over_http_is_for_readers(secured: Secured, method: str) -> None:
    found = {who: statuses(secured, who, method, OPENAPI_PATHS) for who in READING}
    assert found == {who: [HTTP_STATUS[may]] * len(OPENAPI_PATHS) for who, may in READING.items()}


def statuses(secured: Secured, who: str, method: str, paths: Iterable[str]) -> list[int]:
    """Return with what requests of somebody are answered, all on one connection."""
    pair, headers = secured.certificates.get(who), dict[str, str]()
    tls = secured.authority.trusted(pair)
    if who and not pair:
        headers["authorization"] = f"Bearer {TOKENS[who]}"
    with httpx2.Client(
        base_url=secured.url, verify=tls, headers=headers, trust_env=False, timeout=WITHIN_S
    ) as http:
        return [http.request(method, path).status_code for path in paths]


def channel_of(secured: Secured, who: str) -> grpc.Channel:
    """Return a channel on which somebody calls."""
    pair = secured.certificates.get(who)
    own = (pair.key_file.read_bytes(), pair.cert_file.read_bytes()) if pair else (None, None)
    tls = grpc.ssl_channel_credentials(secured.authority.ca_file.read_bytes(), *own)
    if who and not pair:
        token = grpc.access_token_call_credentials(TOKENS[who])
        tls = grpc.composite_channel_credentials(tls, token)
    return grpc.secure_channel(secured.grpc, tls)


def code(secured: Secured, method: str, who: str) -> grpc.StatusCode:
    """Return with what a call of OpenAPIService ends."""
    with channel_of(secured, who) as channel:
        try:
            OPENAPI_METHODS[method](OpenAPIServiceStub(channel))
        except grpc.RpcError as error:
            return cast("grpc.Call", error).code()
    return OK


def test_clients_read_documents_with_what_says_who_they_are(
    secured: Secured, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for who in ("rita", "reader-certificate"):
        flags = ("--server", secured.url, *secured.credentials(who))
        told = kubectl(tmp_path, *flags, "explain", "deployment.spec.replicas")
        assert (told.exit_code, told.stderr) == (0, "")
        assert run(capsys, "explain", "deployment.spec.replicas", *flags) == told
    flags = ("--server", secured.url, *secured.credentials("nemo"), "--no-cache")
    refused_one = run(capsys, "openapi", "get", "apps/v1", *flags)
    assert (refused_one.exit_code, refused_one.stdout) == (1, "")
    assert '403: forbidden: User "nemo" cannot get path "/openapi/v3"' in refused_one.stderr


# Changing while it runs.


def test_a_token_that_is_taken_from_the_file_is_nobodys_from_then_on(secured: Secured) -> None:
    paths = ("/apis", *OPENAPI_PATHS)
    assert statuses(secured, "temp", "GET", paths) == [200] * len(paths)
    write_tokens(secured.folder / "tokens.csv", "rita", "paul", "ada")
    eventually(lambda: secured.status("/apis", "temp") == 401, "temp is unknown")
    assert statuses(secured, "temp", "GET", paths) == [401] * len(paths)
    assert {code(secured, method, "temp") for method in OPENAPI_METHODS} == {UNKNOWN}
    assert secured.status("/apis", "rita") == 200


def serial(secured: Secured, port: int) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    context = secured.authority.trusted()
    with (
        socket.create_connection(("127.0.0.1", port), WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        shown = connection.getpeercert()
        assert shown
        return int(str(shown["serialNumber"]), 16)


def test_a_certificate_that_is_replaced_is_shown_by_both_servers(secured: Secured) -> None:
    ports = (secured.http_port, int(secured.grpc.rpartition(":")[2]))
    before = {serial(secured, port) for port in ports}
    assert len(before) == 1
    fresh = secured.authority.server(SERVER_NAMES)
    for new, old in zip(fresh, secured.pair, strict=True):
        new.replace(old)
    eventually(
        lambda: before.isdisjoint({serial(secured, port) for port in ports}),
        "both show another",
    )
    assert secured.status("/apis", "rita") == 200


def test_no_secret_is_shown(secured: Secured) -> None:
    for user in TOKENS:
        secured.status("/apis", user)
    metrics = secured.get("/metrics", "ada")
    assert metrics.stdout.endswith(" 200")
    assert "apidiscovery_http_requests_total" in metrics.stdout
    key_lines = secured.pair.key_file.read_text().splitlines()[1:-1]
    ready = secured.get("/readyz?verbose").stdout
    for shown in (secured.server.log(), metrics.stdout, ready):
        for secret in (*TOKENS.values(), *key_lines):
            assert secret not in shown


# Limits.


def test_one_caller_who_asks_too_often_waits_and_others_do_not(
    serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    flags = security_flags(tmp_path, authority.server(SERVER_NAMES), authority)
    server = serve("--store", "memory", "--max-requests-per-second", "2", *flags)
    tls = authority.trusted()
    with httpx2.Client(
        base_url=f"https://{server.http}", verify=tls, trust_env=False, timeout=WITHIN_S
    ) as client:

        def ask(user: str) -> httpx2.Response:
            return client.get("/api", headers={"authorization": f"Bearer {TOKENS[user]}"})

        assert ask("rita").status_code == 200
        refused = next(told for told in iter(lambda: ask("rita"), None) if told.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert ask("ada").status_code == 200


# Starting and ending.


def test_tls_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair, other = authority.server(SERVER_NAMES), authority.server(SERVER_NAMES)
    files = ("--tls-cert-file", str(pair.cert_file), "--tls-private-key-file", str(other.key_file))
    code, log = refused(tmp_path, "--http", "127.0.0.1:0", "--grpc", "off", *files)
    assert code == 2, log
    assert str(pair.cert_file) in log
    assert "Traceback" not in log


def test_a_token_file_that_cannot_be_used_is_named_without_its_tokens(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    flags = security_flags(tmp_path, authority.server(SERVER_NAMES), authority)
    (tmp_path / "tokens.csv").write_text("secret-of-ada,ada\n")
    code, log = refused(tmp_path, "--http", "127.0.0.1:0", "--grpc", "off", *flags)
    assert code == 2, log
    assert f"{tmp_path / 'tokens.csv'}:1: want at least 3 columns" in log
    assert "secret" not in log


def test_a_server_that_is_told_to_end_ends_well_and_hands_over_at_once(
    serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    flags = security_flags(tmp_path, authority.server(SERVER_NAMES), authority)
    with (
        EtcdServer(tmp_path / "etcd") as etcd,
        FakeApiServer(builtin()) as upstream,
        ExitStack() as clients,
    ):
        flags += ("--store", f"etcd://{etcd.endpoint}/a", "--upstream", f"east={upstream.url}")
        first = serve(*flags)
        eventually(lambda: upstream.requests, "the first one asks")
        second = serve(*flags)
        connect(clients, first, authority)
        upstream.requests.clear()
        first.process.send_signal(signal.SIGTERM)
        eventually(lambda: upstream.requests, "the second one asks", HANDED_OVER_S)
        first.process.wait(STOP_S)
        assert (first.process.returncode, second.process.poll()) == (0, None)
        assert "Traceback" not in first.log()
        for secret in TOKENS.values():
            assert secret not in first.log()
        second.stop()


def connect(clients: ExitStack, server: Server, authority: Authority) -> None:
    """Have clients of every kind at a server, none of which goes by itself."""
    tls = authority.trusted()
    token = f"Bearer {TOKENS['rita']}"
    for http2 in (False, True):
        client = clients.enter_context(
            httpx2.Client(
                base_url=f"https://{server.http}",
                verify=tls,
                http1=not http2,
                http2=http2,
                headers={"authorization": token},
                trust_env=False,
                timeout=WITHIN_S,
            )
        )
        assert client.get("/apis").status_code == 200
    credentials = grpc.ssl_channel_credentials(authority.ca_file.read_bytes())
    channel = clients.enter_context(grpc.secure_channel(server.grpc, credentials))
    watch = discovery_pb2_grpc.DiscoveryServiceStub(channel).WatchDiscovery(
        discovery_pb2.WatchDiscoveryRequest(), metadata=(("authorization", token),)
    )
    assert next(iter(watch)).changes.etag
    for port in (server.http_port, int(server.grpc.rpartition(":")[2])):
        plain = clients.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN_S))
        clients.enter_context(tls.wrap_socket(plain, server_hostname="localhost"))
