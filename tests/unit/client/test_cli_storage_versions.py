"""`apidiscovery storage-versions` shows storage versions, and waits for agreement."""

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import yaml
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery_cli import outages, skew_matrix
from click import unstyle
from command_line import Outcome, run
from grpc_fakes import End
from registry_commands import Capture
from scripted_storage_versions import DEPLOYMENTS, member, progress, storage_version, waited
from scripted_storage_versions import (
    ScriptedStorageVersions as Service,
)
from waiting import WITHIN_S, eventually

pytestmark = pytest.mark.usefixtures("hurry")

Cli = Callable[..., Outcome]

STOP = End(grpc.StatusCode.PERMISSION_DENIED, "enough")
STOPPED = "Error from server (Forbidden): enough\n"
LINE = f"storageversion.internal.apiserver.k8s.io/{DEPLOYMENTS}"
TABLE = """\
RESOURCE           NODE-1   NODE-2    COMMON   AGREED   HASH
apps.deployments   v1       v1beta1   -        False    unknown
core.pods          v1       -         v1       True     DIFFERENT
"""


@pytest.fixture(name="service")
def fixture_service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(autouse=True)
def _no_colour_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(outages, "_PAUSE_S", 0.05)


@pytest.fixture
def cli(capsys: Capture, service: Service) -> Cli:
    def call(*args: str) -> Outcome:
        return run(capsys, "storage-versions", *args, "--grpc-server", service.address)

    return call


@contextmanager
def meanwhile(change: Callable[[], object], end: Callable[[], object]) -> Generator[None]:
    """Call `change` and then `end` in a thread while the block runs."""

    def call() -> None:
        try:
            change()
        finally:
            end()

    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        yield
        calling.result()


def loaded(text: str, output: str) -> Any:  # noqa: ANN401 - what is in a document
    return json.loads(text) if output == "json" else yaml.safe_load(text)


def two_resources(service: Service) -> None:
    pods = storage_version({"id-1": "v1"}, "core.pods")
    deployments = storage_version({"id-1": "apps/v1", "id-2": "apps/v1beta1"})
    # Kubernetes' protobuf has such fields always, and its JSON never.
    deployments.metadata.generate_name = ""
    deployments.metadata.generation = 0
    comparisons = [
        pb.HashComparison(name=DEPLOYMENTS, discovery_hash="aaa=", verdict=pb.HASH_VERDICT_UNKNOWN),
        pb.HashComparison(
            name="core.pods",
            discovery_hash="bbb=",
            reported_hash="ccc=",
            verdict=pb.HASH_VERDICT_DIFFERENT,
        ),
    ]
    members = [member("id-1", "node-1"), member("id-2", "node-2")]
    service.list_all(9, deployments, pods, members=members, comparisons=comparisons)


class TestShow:
    def test_table(self, cli: Cli, service: Service) -> None:
        two_resources(service)
        for args in ((), ("show",), ("-o", "table"), ("--color", "never")):
            assert cli(*args) == Outcome(0, TABLE, "")

    def test_wide(self, cli: Cli, service: Service) -> None:
        two_resources(service)
        head, deployments, pods = cli("-o", "wide").stdout.splitlines()
        assert head.split() == [*TABLE.splitlines()[0].split(), "SINCE"]
        since = "2023-11-14T22:13:20Z"
        assert deployments.split("   ")[-1].strip() == since
        assert "v1beta1 [v1,v1beta1]" in deployments
        assert "DIFFERENT (bbb=, want ccc=)" in pods

    def test_names(self, cli: Cli, service: Service) -> None:
        two_resources(service)
        lines = TABLE.splitlines()
        outcome = cli("pods")
        assert [line.split() for line in outcome.stdout.splitlines()] == [
            lines[0].split(),
            lines[2].split(),
        ]
        outcome = cli("apps.deployments", "apps.nothing", "nobody")
        assert outcome.exit_code == 1
        assert "core.pods" not in outcome.stdout
        assert outcome.stderr == (
            'Error from server (NotFound): storageversions "apps.nothing" not found\n'
            'Error from server (NotFound): storageversions "core.nobody" not found\n'
        )

    def test_nothing(self, cli: Cli) -> None:
        assert cli() == Outcome(0, "", "No resources found\n")
        told = json.loads(cli("-o", "json").stdout)
        assert told == {"storageVersions": [], "members": [], "hashComparisons": []}

    @pytest.mark.parametrize("output", ["json", "yaml"])
    def test_documents(self, cli: Cli, service: Service, output: str) -> None:
        """They are Kubernetes' objects, without the empty fields of its protobuf."""
        two_resources(service)
        told = loaded(cli("core.pods", "-o", output).stdout, output)
        everything = cli("-o", output).stdout
        assert "generateName" not in everything
        assert "generation" not in everything
        assert told["storageVersions"] == [
            {
                "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
                "kind": "StorageVersion",
                "metadata": {
                    "name": "core.pods",
                    "uid": "uid of core.pods",
                    "resourceVersion": "7",
                    "creationTimestamp": "2023-11-14T22:13:20Z",
                },
                "spec": {},
                "status": {
                    "storageVersions": [
                        {
                            "apiServerID": "id-1",
                            "encodingVersion": "v1",
                            "decodableVersions": ["apps/v1", "v1"],
                        }
                    ],
                    "commonEncodingVersion": "v1",
                    "conditions": [
                        {
                            "type": "AllEncodingVersionsEqual",
                            "status": "True",
                            "lastTransitionTime": "2023-11-14T22:13:20Z",
                            "reason": "CommonEncodingVersionSet",
                            "message": "set",
                        }
                    ],
                },
            }
        ]
        assert told["members"][0] == {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "id-1",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/hostname": "node-1"},
            },
            "spec": {
                "holderIdentity": "id-1_1",
                "leaseDurationSeconds": 3600,
                "renewTime": "2023-11-14T22:13:20.123456Z",
            },
        }
        assert told["hashComparisons"] == [
            {
                "name": "core.pods",
                "discoveryHash": "bbb=",
                "reportedHash": "ccc=",
                "verdict": "different",
            }
        ]

    def test_what_is_not_set_is_null_or_left_out(self, cli: Cli, service: Service) -> None:
        found = storage_version({})
        found.status.conditions[0].ClearField("last_transition_time")
        found.status.conditions[0].last_transition_time.SetInParent()
        found.metadata.creation_timestamp.Clear()
        service.list_all(1, found)
        (told,) = json.loads(cli("-o", "json").stdout)["storageVersions"]
        assert told["status"]["conditions"][0]["lastTransitionTime"] is None
        assert "creationTimestamp" not in told["metadata"]
        assert cli("-o", "wide").stdout.splitlines()[1].split() == [
            *(DEPLOYMENTS, "-", "False", "-", "-")
        ]
        del found.status.conditions[:]
        service.list_all(1, found)
        assert "Unknown" in cli().stdout

    def test_colours(self, cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        """They take no width, and a pipe gets them only where that is asked for."""
        two_resources(service)
        coloured = cli("--color", "always").stdout
        assert unstyle(coloured) == TABLE
        lines = coloured.splitlines()
        assert "\x1b[32mv1\x1b[0m" in lines[1]
        assert "\x1b[31mv1beta1\x1b[0m" in lines[1]
        assert "\x1b[31mFalse\x1b[0m" in lines[1]
        assert "\x1b[32mTrue\x1b[0m" in lines[2]
        assert "\x1b[31mDIFFERENT\x1b[0m" in lines[2]
        monkeypatch.setenv("NO_COLOR", "1")
        assert cli("--color", "always").stdout == coloured
        assert cli("--color", "auto").stdout == TABLE

    def test_servers_that_share_a_hostname_and_those_that_are_gone(
        self, cli: Cli, service: Service
    ) -> None:
        found = storage_version({"id-1": "apps/v1", "id-2": "apps/v1", "id-4": "apps/v2"})
        shared = [member("id-1", "node"), member("id-2", "NODE"), member("id-3", "")]
        service.list_all(1, found, members=shared)
        head, line = cli().stdout.splitlines()
        assert head.split("  ")[0] == "RESOURCE"
        titles = [title.strip() for title in head.split("   ") if title.strip()]
        assert titles[1:5] == ["ID-1", "ID-2", "ID-3", "ID-4 (gone)"]
        assert line.split()[1:5] == ["v1", "v1", "-", "v2"]

    @pytest.mark.parametrize("colour", ["always", "never"])
    def test_control_characters_do_not_reach_the_terminal(
        self, cli: Cli, service: Service, colour: str
    ) -> None:
        bad = "\x1b]0;x\x07\n\x9b2J\x7f\u2028"
        found = storage_version({f"id{bad}": f"apps/{bad}"}, f"apps.{bad}", agreed=bad)
        found.metadata.annotations[bad] = bad
        comparison = pb.HashComparison(
            name=f"apps.{bad}",
            discovery_hash=bad,
            reported_hash=bad,
            verdict=pb.HASH_VERDICT_DIFFERENT,
        )
        service.list_all(1, found, members=[member("id", bad)], comparisons=[comparison])
        for output in ("table", "wide", "json", "yaml"):
            outcome = cli("--color", colour, "-o", output)
            assert outcome.exit_code == 0
            text = unstyle(outcome.stdout)
            if output in ("json", "yaml"):
                told = (json.loads if output == "json" else yaml.safe_load)(text)
                assert told["storageVersions"][0]["metadata"]["annotations"] == {bad: bad}
            else:
                assert len(text.splitlines()) >= 2
                assert not {c for c in text if not c.isprintable()} - {"\n"}
        service.ends["ListStorageVersions"].append(End(grpc.StatusCode.NOT_FOUND, bad))
        outcome = cli()
        assert not {c for c in outcome.stderr if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0} - {"\n"}

    def test_the_gate_is_off(self, cli: Cli, service: Service) -> None:
        off = "storage versions are not served: the feature gate StorageVersionAPI is off"
        service.ends["ListStorageVersions"].append(End(grpc.StatusCode.UNIMPLEMENTED, off))
        outcome = cli()
        assert outcome == Outcome(1, "", f"Error from server (MethodNotAllowed): {off}\n")


class TestWatch:
    def test_the_table_is_shown_again_when_it_changes(
        self, cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once for many changes, and not for what was listed already or is only a bookmark."""
        two_resources(service)
        shown = threading.Event()
        matrix = skew_matrix.matrix

        def noted(*args: object, **options: object) -> str:
            shown.set()
            return matrix(*args, **options)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

        monkeypatch.setattr("apidiscovery_cli.commands.storage_versions.matrix", noted)

        def change() -> None:
            assert shown.wait(WITHIN_S)
            service.list_all(400, storage_version({"id-1": "apps/v1"}))
            service.events.put(
                pb.WatchStorageVersionsResponse(
                    type=pb.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK, resource_version="500"
                )
            )
            for revision in range(10, 401):
                service.changed(revision)

        with meanwhile(change, lambda: service.events.put(STOP)):
            outcome = cli("--watch")
        assert (outcome.exit_code, outcome.stderr) == (1, STOPPED)
        first, _, second = outcome.stdout.partition("\n\n")
        assert f"{first}\n" == TABLE
        stamp, table = second.split("\n", 1)
        assert stamp.startswith("20")
        assert table.splitlines()[1].split() == [DEPLOYMENTS, "v1", "v1", "True", "-"]
        assert service.methods() == [
            "ListStorageVersions",
            "WatchStorageVersions",
            "ListStorageVersions",
        ]
        watch = service.calls[1][1]
        assert isinstance(watch, pb.WatchStorageVersionsRequest)
        assert (list(watch.names), watch.resource_version) == ([], "9")

    @pytest.mark.parametrize("output", ["json", "yaml"])
    def test_documents_can_be_told_apart(self, cli: Cli, service: Service, output: str) -> None:
        service.list_all(1, storage_version({"id-1": "apps/v1"}))
        service.events.put(End(grpc.StatusCode.OUT_OF_RANGE, "too old"))

        def change() -> None:
            service.until_called("WatchStorageVersions", 2)  # it has listed again
            service.list_all(2, storage_version({"id-1": "apps/v2"}))
            service.changed(2)
            service.until_called("ListStorageVersions", 3)

        with meanwhile(change, lambda: service.events.put(STOP)):
            outcome = cli("-w", "-o", output, "apps.deployments")
        assert outcome.stderr == STOPPED
        if output == "yaml":
            documents = list(yaml.safe_load_all(outcome.stdout))
        else:
            decoder, text, documents = json.JSONDecoder(), outcome.stdout, list[Any]()
            while text:
                document, end = decoder.raw_decode(text)
                documents.append(document)
                text = text[end:].lstrip()
        versions = [
            one["storageVersions"][0]["status"]["commonEncodingVersion"] for one in documents
        ]
        assert versions == ["apps/v1", "apps/v2"]

    def test_names_that_are_not_there_yet(self, cli: Cli, service: Service) -> None:
        service.list_all(1)
        service.events.put(STOP)
        outcome = cli("-w", "pods")
        assert outcome == Outcome(1, "", f"No resources found\n{STOPPED}")
        watch = service.calls[1][1]
        assert isinstance(watch, pb.WatchStorageVersionsRequest)
        assert list(watch.names) == ["core.pods"]

    def test_it_goes_on_after_an_outage_and_tells_it_once(self, cli: Cli, service: Service) -> None:
        two_resources(service)
        outage = [End()] * 12

        def fail() -> None:
            service.until_called("WatchStorageVersions")
            service.ends["ListStorageVersions"].extend(outage)
            service.events.put(End())
            eventually(lambda: not service.ends["ListStorageVersions"], "all calls have failed")

        with meanwhile(fail, lambda: service.events.put(STOP)):
            outcome = cli("-w")
        assert outcome.stderr == f"warning: the server is stopping; trying again\n{STOPPED}"
        assert outcome.stdout == TABLE

    def test_it_ends_when_the_server_has_gone(self, cli: Cli, service: Service) -> None:
        two_resources(service)

        def watched() -> None:
            service.until_called("WatchStorageVersions")

        with meanwhile(watched, lambda: service.__exit__(None, None, None)):
            outcome = cli("-w", "--request-timeout", "2s")
        assert (outcome.exit_code, outcome.stdout) == (1, TABLE)
        warning, *_, error = outcome.stderr.splitlines()
        assert warning.startswith("warning: ")
        assert error.startswith("error: ")
        assert "Traceback" not in outcome.stderr


class TestWait:
    def test_servers_that_lag_are_named(self, cli: Cli, service: Service) -> None:
        service.list_all(1, members=[member("id-1", "node-1"), member("id-2", "node-2")])
        service.scripts.append(
            [
                waited(progress(unreported=["id-1", "id-2"])),
                waited(progress(agreeing=["id-1"], lagging=["id-2"], unreported=["id-3"])),
                waited(progress(agreeing=["id-1"], lagging=["id-2"], unreported=["id-3"])),
                waited(progress(agreeing=["id-1", "id-2"])),
            ]
        )
        outcome = cli("wait", "apps.deployments=apps/v2")
        assert outcome == Outcome(
            0,
            f"{LINE} condition met: all write apps/v2\n",
            f"{LINE} waiting: no server has reported yet\n"
            f"{LINE} waiting: agreeing node-1; lagging node-2; unreported id-3\n",
        )
        request = service.calls[0][1]
        assert request == pb.WaitForAgreementRequest(
            targets=[pb.AgreementTarget(name=DEPLOYMENTS, encoding_version="apps/v2")]
        )
        assert service.timeouts[0] == pytest.approx(30, abs=10)

    def test_quiet(self, cli: Cli, service: Service) -> None:
        service.scripts.append(
            [
                waited(progress(lagging=["id-1"]), progress(agreeing=["id-1"], name="core.pods")),
                waited(progress(agreeing=["a"]), progress(agreeing=["id-1"], name="core.pods")),
            ]
        )
        outcome = cli("wait", "-q", DEPLOYMENTS, "pods")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert [line.split(" ")[0].split("/")[1] for line in outcome.stdout.splitlines()] == [
            "core.pods",
            DEPLOYMENTS,
        ]
        assert service.methods() == ["WaitForAgreement"]

    def test_a_timeout_names_only_what_lacks(self, cli: Cli, service: Service) -> None:
        """Each is named once."""
        lacking = progress(name="core.condition met", lagging=["id-1"])
        service.scripts.append([waited(progress(agreeing=["a"]), lacking, lacking)])
        args = ("wait", "-q", DEPLOYMENTS, "condition met", "condition met=v1", "--timeout")
        outcome = cli(*args, "2s")
        assert outcome.exit_code == 3
        assert outcome.stderr == ("error: timed out waiting for agreement on core.condition met\n")

    def test_a_timeout_of_zero_is_none(self, cli: Cli, service: Service) -> None:
        service.scripts.append([waited(progress(agreeing=["a"]))])
        assert cli("wait", DEPLOYMENTS, "--timeout", "0").exit_code == 0
        remaining = service.timeouts[0]
        assert remaining is None or remaining > 1e6

    @pytest.mark.parametrize(
        "args",
        [
            ("wait",),
            ("wait", DEPLOYMENTS, "--timeout", "soon"),
            ("wait", DEPLOYMENTS, "--no-such"),
            ("-o", "name"),
            ("--color", "perhaps"),
        ],
    )
    def test_bad_usage(self, cli: Cli, service: Service, args: tuple[str, ...]) -> None:
        outcome = cli(*args)
        assert (outcome.exit_code, outcome.stdout, service.calls) == (2, "", [])
        assert outcome.stderr.startswith("error: ")

    def test_a_refusal_is_reported(self, cli: Cli, service: Service) -> None:
        service.ends["WaitForAgreement"].append(STOP)
        assert cli("wait", DEPLOYMENTS) == Outcome(1, "", STOPPED)

    def test_it_goes_on_after_an_outage_and_tells_it_once(self, cli: Cli, service: Service) -> None:
        """The state before the outage is not reported again after it."""
        service.list_all(1, members=[member("id-1", "node-1")])
        lagging = waited(progress(lagging=["id-1"]))
        service.scripts.append([lagging, End()])
        service.scripts.extend([[End()]] * 8)
        service.scripts.append([lagging, End()])
        service.scripts.append([waited(progress(agreeing=["id-1"]))])
        outcome = cli("wait", DEPLOYMENTS)
        warning = "warning: the server is stopping; trying again\n"
        assert outcome == Outcome(
            0,
            f"{LINE} condition met: all write apps/v2\n",
            f"{LINE} waiting: lagging node-1\n{warning}{warning}",
        )

    def test_an_outage_takes_no_longer_than_the_time(self, cli: Cli, service: Service) -> None:
        service.scripts.append([waited(progress(lagging=["id-1"])), End()])
        service.scripts.extend([[End()]] * 100)
        begun = time.monotonic()
        outcome = cli("wait", "-q", DEPLOYMENTS, "--timeout", "3s")
        assert time.monotonic() - begun < 20
        assert outcome.exit_code == 3
        assert outcome.stderr == (
            "warning: the server is stopping; trying again\n"
            f"error: timed out waiting for agreement on {DEPLOYMENTS}\n"
        )

    def test_a_server_that_never_answered_is_not_waited_for(
        self, cli: Cli, service: Service
    ) -> None:
        service.__exit__(None, None, None)
        begun = time.monotonic()
        outcome = cli("wait", DEPLOYMENTS, "--timeout", "20s")
        assert time.monotonic() - begun < 10
        assert outcome.exit_code == 1
        assert outcome.stderr == (
            f"error: the connection to the server {service.address} was refused"
            " - did you specify the right host or port?\n"
        )


def test_help(capsys: Capture) -> None:
    group = run(capsys, "storage-versions", "--help")
    assert group.exit_code == 0
    for word in ("show", "wait", "`show` is the default subcommand."):
        assert word in group.stdout
    show = run(capsys, "storage-versions", "show", "--help").stdout
    for word in ("[RESOURCE...]", "table|wide|json|yaml", "--color", "NO_COLOR", "--watch"):
        assert word in show
    wait = run(capsys, "storage-versions", "wait", "-h").stdout
    for word in ("RESOURCE[=VERSION]...", "--timeout", "--quiet", "Exit code: 0", "30s"):
        assert word in wait
