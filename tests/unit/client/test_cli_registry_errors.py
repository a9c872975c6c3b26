"""Commands over gRPC report every failure in one line, and retry where that is safe."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
from certificates import Authority
from command_line import Outcome, run
from fake_registry import FakeRegistry
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - no py.typed
from grpc_fakes import End
from registry_commands import (
    API_SERVICE,
    CRD_LINE,
    CRON_TAB_CRD,
    CRON_TABS,
    Capture,
    CliIn,
    cli,
    crd,
)


class TestErrors:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (grpc.StatusCode.UNAUTHENTICATED, "Unauthorized"),
            (grpc.StatusCode.PERMISSION_DENIED, "Forbidden"),
            (grpc.StatusCode.ABORTED, "Conflict"),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "TooManyRequests"),
            (grpc.StatusCode.INTERNAL, "InternalError"),
            (grpc.StatusCode.DATA_LOSS, "DataLoss"),
        ],
    )
    def test_error_of_the_server_is_one_line(
        self, cli_in: CliIn, code: grpc.StatusCode, reason: str
    ) -> None:
        for args, method in (("get crds", "ListRegistrations"), ("withdraw crd a", "Withdraw")):
            cli_in.registry.ends[method].append(End(code, "because\nof \x1b[31mthis"))
            assert cli_in.call(*args.split()) == Outcome(
                1, "", f"Error from server ({reason}): because of \\x1b[31mthis\n"
            )
        assert cli_in.registry.methods() == ["ListRegistrations", "Withdraw"]

    def test_error_that_is_not_of_a_file_ends_it(self, cli_in: CliIn) -> None:
        cli_in.write(a=crd("a"), b=crd("b"))
        unknown = End(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        cli_in.registry.ends["Apply"].append(unknown)
        outcome = cli_in.call("apply", "-f", ".")
        assert outcome == Outcome(1, "", "Error from server (Unauthorized): who are you?\n")
        assert cli_in.registry.methods() == ["Apply"]

    def test_wrong_owner_is_told_once(self, cli_in: CliIn) -> None:
        cli_in.write(a=crd("a"), b=crd("b"))
        details = error_details_pb2.BadRequest()
        details.field_violations.add(field="owner", description="want a DNS subdomain")
        refusal = End(grpc.StatusCode.INVALID_ARGUMENT, "invalid", (details,))
        cli_in.registry.ends["Apply"].extend([refusal, refusal, refusal])
        outcome = cli_in.call("apply", "-f", ".", "--owner", "Me")
        assert outcome == Outcome(1, "", "error: owner: want a DNS subdomain\n")

    def test_fields_that_are_not_told_are_counted(self, cli_in: CliIn) -> None:
        cli_in.write(a=crd("a"))
        details = error_details_pb2.BadRequest()
        details.field_violations.add(field="manifests[0].documents[0].spec", description="no")
        message = "manifests[0].documents[0].spec: no; and 7 more"
        invalid = End(grpc.StatusCode.INVALID_ARGUMENT, message, (details,))
        cli_in.registry.ends["Apply"].append(invalid)
        outcome = cli_in.call("apply", "-f", "a.yaml")
        assert outcome == Outcome(
            1, "", "error: a.yaml, document 1, spec: no\nerror: a.yaml: and 7 more\n"
        )

    @pytest.mark.usefixtures("hurry")
    @pytest.mark.parametrize("failures", [4, 5])
    def test_unavailable_server_is_asked_again(self, cli_in: CliIn, failures: int) -> None:
        cli_in.registry.apply(CRON_TAB_CRD)
        starting = End(grpc.StatusCode.UNAVAILABLE, "the server is still reading its sources")
        cli_in.registry.ends["ListRegistrations"].extend([starting] * failures)
        outcome = cli_in.call("get", "crds", "-o", "name")
        if failures == 4:
            assert outcome == Outcome(0, f"{CRD_LINE}/{CRON_TABS}\n", "")
        else:
            assert outcome == Outcome(
                1,
                "",
                "Error from server (ServiceUnavailable): the server is still reading its sources\n",
            )
        assert cli_in.registry.methods() == ["ListRegistrations"] * 5

    @pytest.mark.usefixtures("hurry")
    def test_server_that_names_a_time_is_asked_then(self, cli_in: CliIn) -> None:
        for seconds, calls in ((0, 2), (3600, 3)):
            retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds))
            busy = End(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many", (retry,))
            cli_in.registry.ends["ListRegistrations"].append(busy)
            outcome = cli_in.call("get", "crds")
            assert outcome.exit_code == (1 if seconds else 0)
            assert len(cli_in.registry.calls) == calls

    def test_no_attempt_is_made_after_the_timeout(
        self, cli_in: CliIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("apidiscovery_client._grpc.calls.RETRY_WAITS_S", (0.0, 60.0))
        not_yet = End(grpc.StatusCode.UNAVAILABLE, "not yet")
        cli_in.registry.ends["ListRegistrations"].extend([not_yet] * 9)
        outcome = cli_in.call("get", "crds", "--request-timeout=30s")
        assert outcome.stderr == "Error from server (ServiceUnavailable): not yet\n"
        assert cli_in.registry.methods() == ["ListRegistrations"] * 2

    @pytest.mark.usefixtures("hurry")
    def test_refused_connection(self, capsys: Capture) -> None:
        with FakeRegistry() as registry:
            pass
        outcome = cli(capsys, registry, "get", "crds")
        assert outcome == Outcome(
            1,
            "",
            f"error: the connection to the server {registry.address} was refused"
            " - did you specify the right host or port?\n",
        )

    def test_deadline(self, cli_in: CliIn) -> None:
        cli_in.write(crd=CRON_TAB_CRD)
        over = threading.Event()
        cli_in.registry.before_apply = lambda: over.wait(10)
        outcome = cli_in.call("apply", "-f", "crd.yaml", "--request-timeout=200ms")
        over.set()
        assert outcome == Outcome(
            1, "", f"error: Apply {cli_in.registry.address}: no answer within 0.2 s\n"
        )

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ("apply", "missing option '--filename'"),
            ("apply -f a --lease 1s", "--lease needs --owner"),
            ("apply -f a --owner me --removal-after 1s", "--removal-after needs --lease"),
            ("apply -f a --lease soon", "'soon' is neither a number of seconds"),
            ("apply -f a b --name c", "--name takes one file, but there are 2"),
            ("apply -f a b --expect-revision 1", "--expect-revision takes one file"),
            ("withdraw", "want either TYPE NAME..."),
            ("withdraw crd", "want the names of what to withdraw"),
            ("withdraw crd a --owner me", "want either TYPE NAME..."),
            ("withdraw pods a", "there is no type 'pods', only crds, apiservices, groups"),
            ("withdraw a.yaml", "files are given with -f"),
            ("withdraw crd/a b", "want TYPE/NAME everywhere or nowhere, got 'b'"),
            ("withdraw crd a b --expect-revision 1", "takes one object, but there are 2"),
            ("withdraw crd a --name b", "need --filename"),
            ("get", "missing argument"),
            ("get crd/a groups/b", "want one type at a time"),
            ("get crds --grpc-server host", "'host' is not HOST:PORT"),
            ("get crds --grpc-server http://host:1", "want grpc://HOST:PORT"),
            ("get crds --grpc-server host:0", "is not HOST:PORT"),
            ("get crds --token é", "the token has characters that no token has"),
            (f"get crds --token a --token-file {__file__}", "cannot be used together"),
            ("get crds --token a --plaintext --grpc-server a:1", "is not sent without TLS"),
            (f"get crds --client-certificate {__file__}", "--client-key: want the key of the"),
            (f"get crds --certificate-authority {__file__}", "--certificate-authority: no"),
            ("get crds --plaintext --tls-server-name a", "--plaintext cannot be used together"),
        ],
    )
    def test_bad_usage(self, capsys: Capture, folder: Path, args: str, message: str) -> None:
        for name in "ab":
            (folder / name).write_text(CRON_TAB_CRD)
        outcome = run(capsys, *args.split())
        assert outcome.stderr.startswith("error: ")
        assert message in outcome.stderr
        assert (outcome.exit_code, outcome.stdout) == (2, "")

    def test_expected_revision_is_of_one_object(self, cli_in: CliIn) -> None:
        cli_in.write(two=f"{CRON_TAB_CRD}---\n{API_SERVICE}")
        outcome = cli_in.call("apply", "-f", "two.yaml", "--expect-revision=0")
        assert (outcome.exit_code, cli_in.registry.held) == (2, {})
        assert "--expect-revision takes one object, but two.yaml has 2" in outcome.stderr


class TestConnection:
    def test_token_is_sent_and_never_shown(
        self, cli_in: CliIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cli_in.folder / "token").write_text("of-file\n")
        refusal = End(grpc.StatusCode.UNAUTHENTICATED, "no such token")
        cli_in.registry.ends["ListRegistrations"].extend([refusal, refusal, refusal])
        monkeypatch.setenv("APIDISCOVERY_TOKEN", "of-variable")
        for args in ((), ("--token", "of-flag"), ("--token-file", "token")):
            outcome = cli_in.call("get", "crds", *args)
            assert outcome.stderr == "Error from server (Unauthorized): no such token\n"
        assert [call.metadata["authorization"] for call in cli_in.registry.calls] == [
            "Bearer of-variable",
            "Bearer of-flag",
            "Bearer of-file",
        ]

    def test_server_from_the_environment(
        self, capsys: Capture, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("APIDISCOVERY_GRPC_SERVER", registry.address)
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # not for loopback
        assert run(capsys, "get", "crds") == Outcome(0, "", "No resources found\n")

    def test_tls(self, capsys: Capture, tmp_path: Path) -> None:
        """The server must be known by its authority and name, and knows us by our certificate."""
        authority = Authority(tmp_path / "ca")
        stranger = Authority(tmp_path / "other", "other")
        mine, theirs = authority.client("me", []), authority.server(["api.example"])
        credentials = grpc.ssl_server_credentials(
            [(theirs.key_file.read_bytes(), theirs.cert_file.read_bytes())],
            authority.ca_file.read_bytes(),
            require_client_auth=True,
        )
        client = [f"--client-certificate={mine.cert_file}", f"--client-key={mine.key_file}"]
        trusting = f"--certificate-authority={authority.ca_file}"
        with FakeRegistry(credentials) as registry:

            def told(*args: str) -> str:
                return cli(capsys, registry, "get", "crds", *args).stderr

            begin = f"error: ListRegistrations {registry.address}: "
            named = "--tls-server-name=api.example"
            assert told(trusting, named, *client) == "No resources found\n"
            assert told(trusting, *client) == (
                f"{begin}the server's certificate is not trusted: it is for another name"
                " than that of the server\n"
            )
            assert told(f"--certificate-authority={stranger.ca_file}", named, *client).startswith(
                f"{begin}the server's certificate is not trusted: "
            )
            assert told(trusting, named).startswith(begin)
            assert len(registry.calls) == 1


@pytest.mark.process
class TestProcess:
    """In a process of its own, as users run it."""

    def start(self, *args: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        code = "import sys; from apidiscovery_cli.main import main; sys.exit(main(sys.argv[1:]))"
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code, *args],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def test_failed_handshake_is_one_line(self, registry: FakeRegistry) -> None:
        args = ("get", "crds", "--tls-server-name=a", "--grpc-server", registry.address)
        with self.start(*args) as process:
            _, stderr = process.communicate()
        hint = "the port does not speak TLS; if it is the right one, use --plaintext"
        assert process.returncode == 1
        assert stderr.decode() == f"error: ListRegistrations {registry.address}: {hint}\n"

    def test_interrupt_is_no_traceback(self, registry: FakeRegistry) -> None:
        arrived, over = threading.Event(), threading.Event()

        def hold() -> None:
            arrived.set()
            over.wait(60)

        registry.before_apply = hold
        with self.start("apply", "-f", "-", "--grpc-server", registry.address) as process:
            assert process.stdin is not None
            process.stdin.write(CRON_TAB_CRD.encode())
            process.stdin.close()
            process.stdin = None
            assert arrived.wait(60)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate()
            over.set()
        assert (process.returncode, stderr.strip()) == (130, b"")
