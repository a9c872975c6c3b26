"""The store behind a real server: nothing acknowledged is lost, and nothing foreign is touched."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from apidiscovery_etcd.rpc_pb2 import (
    AuthEnableRequest,
    AuthRoleAddRequest,
    AuthUserAddRequest,
    AuthUserGrantRoleRequest,
)
from apidiscovery_etcd.rpc_pb2_grpc import AuthStub
from certificates import Authority, KeyPair
from command_line import run
from etcd import EtcdServer
from media_types import JSON_V2
from openapi_process import groups, publish
from programs import beginning, free_port, refused, unprivileged
from raw_http import get
from server import START_S, STOP_S, Serve
from waiting import WITHIN_S, eventually

NONE = ("--catalog", "none")
# Until what one process has written is served by another, as docs/reliability.md guarantees.
SHARED_S = 10.0


# SQLite.


def test_without_a_flag_the_store_is_in_the_users_state_folder(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(*NONE, env={"XDG_STATE_HOME": str(tmp_path)})
    publish(server, "kept.example.com")
    file = tmp_path / "apidiscovery" / "store.sqlite"
    assert file.read_bytes().startswith(b"SQLite format 3\0")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_is_not_ours_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE entries (key TEXT)")
        database.commit()
    before = file.read_bytes()
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    code, log = refused(tmp_path, *free, *NONE, "--store", f"sqlite:{file}")
    (line,) = log.splitlines()
    assert code == 1
    assert line.startswith("error: ")
    assert str(file) in line
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_store_in_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    store = folder / "store.sqlite"
    done = unprivileged(tmp_path, "serve", "--http", "127.0.0.1:0", "--store", f"sqlite:{store}")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert str(store) in line
    assert not list(folder.iterdir())


# etcd.


def test_a_server_without_its_etcd_listens_says_so_and_becomes_ready_when_it_comes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    etcd = EtcdServer(tmp_path / "etcd")
    http, rpc = free_port(), free_port()
    flags = ("--http", f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{rpc}")
    store = f"etcd://{etcd.endpoint}/absent"
    with beginning(tmp_path, *flags, "--store", store) as (process, log):
        eventually(lambda: answer(http, "/livez") == 200, "it listens", START_S)
        assert answer(http, "/readyz") == 500
        early = get(http, "/apis", JSON_V2)
        assert early.status == 503
        assert early.values("retry-after")
        assert discovery_code(rpc) is grpc.StatusCode.UNAVAILABLE
        outcome = run(capsys, "get", "groups", "--grpc-server", f"127.0.0.1:{rpc}")
        assert outcome.exit_code == 1
        assert "ServiceUnavailable" in outcome.stderr
        eventually(lambda: etcd.endpoint in log.read_text(), "the log names etcd", START_S)
        with etcd:
            eventually(lambda: answer(http, "/readyz") == 200, "it is ready", START_S)
            assert get(http, "/apis", JSON_V2).status == 200
            assert discovery_code(rpc) is grpc.StatusCode.OK
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S) == 0
        assert "Traceback" not in log.read_text()


def answer(port: int, path: str) -> int:
    """Return the status of an answer, 0 when nobody listens."""
    try:
        return get(port, path).status
    except ConnectionError:
        return 0


def discovery_code(port: int) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        request = discovery_pb2.GetDiscoveryRequest()
        return stub.GetDiscovery.future(request, timeout=WITHIN_S).code()


def test_a_server_that_waits_for_its_etcd_ends_when_it_is_told_to(tmp_path: Path) -> None:
    http = free_port()
    flags = ("--http", f"127.0.0.1:{http}", "--grpc", "127.0.0.1:0")
    store = f"etcd://127.0.0.1:{free_port()}/absent"
    with beginning(tmp_path, *flags, "--store", store) as (process, log):
        eventually(lambda: answer(http, "/livez") == 200, "it listens", START_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        assert "Traceback" not in log.read_text()


def test_etcd_with_tls_and_a_password_is_reached_by_flags(serve: Serve, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server_pair, pair = authority.server(["127.0.0.1"]), authority.client("replica", [])
    password, wrong = tmp_path / "password", tmp_path / "wrong"
    password.write_text("s3cret\n")
    wrong.write_text("wr0ng\n")
    tls = (
        *("--cert-file", str(server_pair.cert_file), "--key-file", str(server_pair.key_file)),
        *("--trusted-ca-file", str(authority.ca_file), "--client-cert-auth"),
    )
    with EtcdServer(tmp_path / "etcd", tls, scheme="https") as etcd:
        demand_password(etcd.endpoint, authority, pair, "s3cret")
        flags = (
            *("--store", f"etcd://{etcd.endpoint}/a", "--etcd-cafile", str(authority.ca_file)),
            *("--etcd-certfile", str(pair.cert_file), "--etcd-keyfile", str(pair.key_file)),
            *("--etcd-username", "root", "--etcd-password-file"),
        )
        server = serve(*NONE, *flags, str(password))
        publish(server, "kept.example.com")
        eventually(lambda: groups(server) == {"kept"}, "it is served", SHARED_S)
        free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        code, log = refused(tmp_path, *free, *NONE, *flags, str(wrong))
        assert code == 1, log
        assert "authentication failed" in log.splitlines()[-1]
        assert "Traceback" not in log
        for shown in (log, server.log()):
            assert "wr0ng" not in shown
            assert "s3cret" not in shown
        server.stop()


def demand_password(endpoint: str, authority: Authority, pair: KeyPair, password: str) -> None:
    """Switch the authentication of an etcd on."""
    credentials = grpc.ssl_channel_credentials(
        authority.ca_file.read_bytes(), pair.key_file.read_bytes(), pair.cert_file.read_bytes()
    )
    with grpc.secure_channel(endpoint, credentials) as channel:
        auth = AuthStub(channel)
        auth.UserAdd(AuthUserAddRequest(name="root", password=password))
        auth.RoleAdd(AuthRoleAddRequest(name="root"))
        auth.UserGrantRole(AuthUserGrantRoleRequest(user="root", role="root"))
        auth.AuthEnable(AuthEnableRequest())
