"""apply, withdraw and get print what kubectl prints, and report every failure."""

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
import yaml
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from apidiscovery_cli.registration_objects import human_age
from command_line import Outcome
from fake_api_server import Answer, FakeApiServer, Routes, builtin, document
from fake_registry import CREATED_S, FakeRegistry
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_fakes import End
from registry_commands import (
    API_SERVICE,
    CRD_LINE,
    CRDS,
    CRON_TAB_CRD,
    CRON_TABS,
    LIST,
    NO_SPEC,
    Capture,
    CliIn,
    cli,
    crd,
)

from tools import find_tool


class TestApply:
    def test_lines_are_kubectls(self, cli_in: CliIn) -> None:
        cli_in.write(crd=CRON_TAB_CRD, service=API_SERVICE, east=LIST)
        args = ("apply", "-f", "crd.yaml", "-f", "service.yaml", "east.yaml")
        names = [
            f"{CRD_LINE}/{CRON_TABS}",
            "apiservice.apiregistration.k8s.io/v1.example.com",
            "groups/east",
        ]
        dry = cli_in.call(*args, "--dry-run")
        assert dry == Outcome(
            0, "".join(f"{name} created (server dry run)\n" for name in names), ""
        )
        assert cli_in.registry.held == {}
        for done in ("created", "unchanged"):
            outcome = cli_in.call(*args)
            assert outcome == Outcome(0, "".join(f"{name} {done}\n" for name in names), "")
        cli_in.write(crd=CRON_TAB_CRD.replace("Namespaced", "Cluster"))
        outcome = cli_in.call("apply", "-f", "crd.yaml")
        assert outcome == Outcome(0, f"{CRD_LINE}/{CRON_TABS} configured\n", "")

    def test_files_of_a_folder_are_sorted(self, cli_in: CliIn) -> None:
        (cli_in.folder / "apis" / "more").mkdir(parents=True)
        for name in ("c.yml", "a.json", "b.yaml", "more/d.yaml", "readme.txt"):
            stem = Path(name).stem
            text = json.dumps(yaml.safe_load(crd(stem))) if name.endswith("json") else crd(stem)
            (cli_in.folder / "apis" / name).write_text(text)
        flat = cli_in.call("apply", "-f", "apis", "-o", "name")
        deep = cli_in.call("apply", "-f", "apis", "-R", "-o", "name")
        assert [line[-13] for line in flat.stdout.splitlines()] == ["a", "b", "c"]
        assert [line[-13] for line in deep.stdout.splitlines()] == ["a", "b", "c", "d"]
        files = [manifest.file for manifest in cli_in.registry.requests("Apply")[0].manifests]
        assert files == ["apis/a.json", "apis/b.yaml", "apis/c.yml"]

    def test_stdin(self, cli_in: CliIn, monkeypatch: pytest.MonkeyPatch) -> None:
        text = f"{CRON_TAB_CRD}---\n{API_SERVICE}"
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        outcome = cli_in.call("apply", "-f", "-")
        assert outcome.stdout.count(" created\n") == 2
        assert [m.file for m in cli_in.registry.requests("Apply")[0].manifests] == ["STDIN"]

    def test_errors_in_one_file_do_not_hide_the_others(self, cli_in: CliIn) -> None:
        """Each field is told with file, line and document, and every good file is applied."""
        cli_in.write(a=crd("a"), b=f"{crd('b')}---\n{NO_SPEC}", c=crd("c"), d="{", e=crd("e"))
        outcome = cli_in.call("apply", "-f", ".", "missing.yaml")
        assert outcome.exit_code == 1
        assert outcome.stdout == "".join(
            f"{CRD_LINE}/{name}.example.com created\n" for name in "ace"
        )
        assert outcome.stderr == (
            'error: the path "missing.yaml" does not exist\n'
            "error: b.yaml:3, document 2, spec: required\n"
            "error: b.yaml, document 2, metadata: seen too\n"
            "error: d.yaml:1: no YAML\n"
        )

    def test_refusal_of_one_file_names_it(self, cli_in: CliIn) -> None:
        cli_in.registry.apply(CRON_TAB_CRD)
        stale = CRON_TAB_CRD.replace("NAME}", "}").replace("}", ', resourceVersion: "7"}', 1)
        cli_in.write(a=crd("a"), b=stale, c=crd("c"))
        outcome = cli_in.call("apply", "-f", "a.yaml", "b.yaml", "c.yaml")
        assert outcome.exit_code == 1
        assert outcome.stdout.count(" created\n") == 2
        assert outcome.stderr == (
            'Error from server (Conflict): error when applying "b.yaml": '
            f"{CRON_TABS}: expected revision 7, but it is at 1\n"
        )

    def test_requests_stay_below_the_limit_of_grpc(self, cli_in: CliIn) -> None:
        padding = f"# {'x' * 300_000}\n"
        for number in range(20):
            cli_in.write(**{f"f{number:02}": crd(f"f{number:02}") + padding})
        outcome = cli_in.call("apply", "-f", ".")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert outcome.stdout.splitlines() == [
            f"{CRD_LINE}/f{number:02}.example.com created" for number in range(20)
        ]
        assert [len(request.manifests) for request in cli_in.registry.requests("Apply")] == [
            3
        ] * 6 + [2]

    def test_file_that_is_too_large_is_named(self, cli_in: CliIn) -> None:
        cli_in.write(a=crd("a") + f"# {'x' * (5 << 20)}\n", b=crd("b"))
        outcome = cli_in.call("apply", "-f", ".")
        assert outcome.exit_code == 1
        assert outcome.stdout == f"{CRD_LINE}/b.example.com created\n"
        assert outcome.stderr.startswith(
            'Error from server (TooManyRequests): error when applying "a.yaml": '
        )

    @pytest.mark.parametrize(
        ("args", "text", "name"),
        [
            pytest.param((), LIST, "east", id="file"),
            pytest.param(("--name", "west"), LIST, "west", id="flag"),
            pytest.param((), LIST + "metadata: {name: north}\n", "north", id="metadata"),
            pytest.param((), crd("a"), "", id="no list"),
        ],
    )
    def test_list_name(self, cli_in: CliIn, args: tuple[str, ...], text: str, name: str) -> None:
        cli_in.write(east=text)
        assert cli_in.call("apply", "-f", "east.yaml", *args).exit_code == 0
        assert cli_in.registry.requests("Apply")[0].manifests[0].list_name == name

    def test_owner_and_lease_are_sent(self, cli_in: CliIn) -> None:
        cli_in.write(east=LIST)
        owner = ("--owner", "me", "--lease", "1m30s", "--removal-after", "2h")
        assert cli_in.call("apply", "-f", "east.yaml", *owner).exit_code == 0
        request = cli_in.registry.requests("Apply")[0]
        assert request.owner == "me"
        assert request.lease == registry_pb2.OwnerLease(
            duration=Duration(seconds=90), removal_after=Duration(seconds=7200)
        )

    @pytest.mark.parametrize("revision", [0, 1, 2])
    def test_expected_revision(self, cli_in: CliIn, revision: int) -> None:
        cli_in.registry.apply(CRON_TAB_CRD)
        cli_in.write(crd=CRON_TAB_CRD.replace("Namespaced", "Cluster"))
        expecting = f"--expect-revision={revision}"
        outcome = cli_in.call("apply", "-f", "crd.yaml", expecting)
        assert outcome.exit_code == (0 if revision == 1 else 1)
        assert ("(Conflict)" in outcome.stderr) == (revision != 1)

    def test_objects_are_printed(self, cli_in: CliIn) -> None:
        cli_in.write(crd=CRON_TAB_CRD, service=API_SERVICE)
        one = cli_in.call("apply", "-f", "crd.yaml", "-o", "json")
        both = cli_in.call("apply", "-f", ".", "-o", "yaml")
        assert json.loads(one.stdout)["metadata"] == {"name": CRON_TABS, "resourceVersion": "1"}
        assert [item["kind"] for item in yaml.safe_load(both.stdout)["items"]] == [
            "CustomResourceDefinition",
            "APIService",
        ]

    @pytest.mark.parametrize("source", ["-", "endless.yaml"])
    def test_endless_input_is_refused(
        self, cli_in: CliIn, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        (cli_in.folder / "endless.yaml").symlink_to("/dev/zero")
        with Path("/dev/zero").open() as endless:
            monkeypatch.setattr(sys, "stdin", endless)
            for command in ("apply", "withdraw"):
                outcome = cli_in.call(command, "-f", source)
                shown = "standard input" if source == "-" else source
                size = "it has at least 16777217 bytes, more than 16777216"
                assert outcome == Outcome(1, "", f"error: {shown}: {size}\n")
        assert cli_in.registry.methods() == []

    def test_nothing_to_apply(self, cli_in: CliIn) -> None:
        cli_in.write(empty="# nothing\n")
        (cli_in.folder / "none").mkdir()
        outcome = cli_in.call("apply", "-f", "empty.yaml")
        assert outcome == Outcome(1, "", "error: no objects passed to apply\n")
        assert cli_in.call("apply", "-f", "none") == Outcome(
            1,
            "",
            "error: error reading [none]: recognized file extensions are [.json .yaml .yml]\n",
        )


class TestWithdraw:
    @pytest.mark.parametrize(
        ("args", "line"),
        [
            (f"crd {CRON_TABS}", f'{CRD_LINE} "{CRON_TABS}" deleted\n'),
            (f"CRDS.apiextensions.k8s.io {CRON_TABS}", f'{CRD_LINE} "{CRON_TABS}" deleted\n'),
            (f"customresourcedefinitions/{CRON_TABS}", f'{CRD_LINE} "{CRON_TABS}" deleted\n'),
            (f"crd {CRON_TABS} -o name", f"{CRD_LINE}/{CRON_TABS}\n"),
            (
                "apiservice v1.example.com",
                'apiservice.apiregistration.k8s.io "v1.example.com" deleted\n',
            ),
            ("registration/east", 'groups "east" deleted\n'),
            (
                f"crd/{CRON_TABS} groups/east",
                f'{CRD_LINE} "{CRON_TABS}" deleted\ngroups "east" deleted\n',
            ),
        ],
    )
    def test_lines_are_kubectls(self, cli_in: CliIn, args: str, line: str) -> None:
        cli_in.registry.apply(CRON_TAB_CRD, API_SERVICE, LIST, name="east")
        before = len(cli_in.registry.held)
        assert cli_in.call("withdraw", *args.split()) == Outcome(0, line, "")
        assert len(cli_in.registry.held) == before - line.count("\n")

    def test_missing_objects_are_reported(self, cli_in: CliIn) -> None:
        cli_in.registry.apply(CRON_TAB_CRD)
        args = ("withdraw", "crds", "a.example.com", CRON_TABS)
        outcome = cli_in.call(*args)
        assert outcome == Outcome(
            1,
            f'{CRD_LINE} "{CRON_TABS}" deleted\n',
            f'Error from server (NotFound): {CRDS} "a.example.com" not found\n',
        )
        assert cli_in.call(*args, "--ignore-not-found") == Outcome(0, "", "")

    def test_objects_in_files_are_withdrawn(self, cli_in: CliIn) -> None:
        """Lists are withdrawn by the names that apply gave them."""
        more = yaml.safe_load(API_SERVICE.replace("v1", "v2"))
        texts = {
            "crd": f"{CRON_TAB_CRD}---\n{API_SERVICE}",
            "east": f"{LIST}---\n# nothing\n---\n{LIST}",
            "more": yaml.dump({"kind": "List", "apiVersion": "v1", "items": [more]}),
        }
        cli_in.write(**texts)
        applied = cli_in.call("apply", "-f", ".", "-o", "name")
        outcome = cli_in.call("withdraw", "-f", "crd.yaml", "east.yaml", "more.yaml")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        told = [line.replace(' "', "/").split('"')[0] for line in outcome.stdout.splitlines()]
        assert told == applied.stdout.splitlines()
        assert len(told) == 5
        assert cli_in.registry.held == {}

    def test_file_that_cannot_be_understood_hides_no_other(self, cli_in: CliIn) -> None:
        cli_in.write(
            a=f"{CRON_TAB_CRD}---\nkey: [\n",
            b="kind: Pod\napiVersion: v1\n",
            c=CRON_TAB_CRD.replace("name:", "no:"),
            d="[" * 100_000,
            e=CRON_TAB_CRD,
        )
        cli_in.registry.apply(CRON_TAB_CRD)
        outcome = cli_in.call("withdraw", "-f", ".")
        assert (outcome.exit_code, outcome.stdout) == (1, f'{CRD_LINE} "{CRON_TABS}" deleted\n')
        a, b, c, d = outcome.stderr.splitlines()
        assert a.startswith("error: a.yaml:7: no YAML: ")
        assert b == (
            "error: b.yaml: want CustomResourceDefinition, APIService, APIGroupDiscoveryList or a"
            " List, got 'Pod' of 'v1'"
        )
        assert c == "error: c.yaml: a CustomResourceDefinition lacks metadata.name"
        assert d == "error: d.yaml: nested deeper than 64 levels"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param(b"kind: \xff", "invalid leading UTF-8 octet", id="no UTF-8"),
            pytest.param(b"kind: \xe2\x82", "incomplete UTF-8 octet sequence", id="cut short"),
            pytest.param(b"kind: \0", "control characters are not allowed", id="null byte"),
        ],
    )
    def test_stdin_that_is_no_text(
        self, cli_in: CliIn, monkeypatch: pytest.MonkeyPatch, text: bytes, reason: str
    ) -> None:
        content = io.BytesIO(f"{API_SERVICE}---\n# next\n".encode() + text)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
        outcome = cli_in.call("withdraw", "-f", "-")
        assert outcome == Outcome(1, "", f"error: STDIN:7: no YAML: {reason}\n")

    def test_owner(self, cli_in: CliIn) -> None:
        cli_in.write(crd=CRON_TAB_CRD, east=LIST)
        cli_in.call("apply", "-f", ".", "--owner", "me")
        cli_in.registry.apply(API_SERVICE)
        outcome = cli_in.call("withdraw", "--owner", "me")
        assert (outcome.exit_code, len(outcome.stdout.splitlines())) == (0, 2)
        assert len(cli_in.registry.held) == 1
        assert cli_in.call("withdraw", "--owner", "me") == Outcome(
            1, "", 'Error from server (NotFound): owners "me" not found\n'
        )

    def test_expected_revision(self, cli_in: CliIn) -> None:
        cli_in.registry.apply(CRON_TAB_CRD)
        args = ("withdraw", "crd", CRON_TABS)
        wrong = cli_in.call(*args, "--expect-revision=7")
        assert (wrong.exit_code, wrong.stdout) == (1, "")
        assert wrong.stderr.startswith("Error from server (Conflict): ")
        assert cli_in.call(*args, "--expect-revision=1").exit_code == 0

    @pytest.mark.usefixtures("hurry")
    def test_answer_that_is_lost_is_no_failure(self, cli_in: CliIn) -> None:
        """What an attempt without an answer has withdrawn is not called missing."""
        cli_in.registry.apply(CRON_TAB_CRD)
        lost = End(grpc.StatusCode.UNAVAILABLE, "the store went away")
        cli_in.registry.losses["Withdraw"].append(lost)
        outcome = cli_in.call("withdraw", "crd", CRON_TABS)
        assert outcome == Outcome(0, f'{CRD_LINE} "{CRON_TABS}" deleted\n', "")


class TestGet:
    def test_tables_are_kubectls(self, cli_in: CliIn) -> None:
        local = "kind: APIService\nmetadata: {name: v1.}\nspec: {version: v1}\n"
        failing = (
            API_SERVICE.replace("v1.example", "v2.example")
            + "status: {conditions: [{type: Available, status: 'False', reason: Failed}]}\n"
        )
        cli_in.registry.apply(CRON_TAB_CRD, crd("a"), API_SERVICE, local, failing)
        assert cli_in.call("get", "crd").stdout == (
            "NAME                          CREATED AT\n"
            "a.example.com                 2023-11-14T22:13:20Z\n"
            "crontabs.stable.example.com   2023-11-14T22:13:20Z\n"
        )
        rows = [line.split("  ") for line in _rows(cli_in, "get", "apiservices")]
        cells = [[cell.strip() for cell in row if cell] for row in rows]
        assert [row[:3] for row in cells] == [
            ["NAME", "SERVICE", "AVAILABLE"],
            ["v1.", "Local", "Unknown"],
            ["v1.example.com", "east/api", "Unknown"],
            ["v2.example.com", "east/api", "False (Failed)"],
        ]
        assert cells[0][3] == "AGE"

    def test_groups(self, cli_in: CliIn) -> None:
        names = [f"g{number}.example.com" for number in range(5)]
        many = yaml.safe_load(LIST)
        many["items"] = [{"metadata": {"name": name}} for name in ["", *names]]
        cli_in.registry.apply(yaml.dump(many), name="many")
        _, row = _rows(cli_in, "get", "groups")
        assert row.startswith('many   "",g0.example.com,g1.example.com + 3 more...   <none>  ')
        (wide,) = _rows(cli_in, "get", "groups", "many", "-o", "wide", "--no-headers")
        assert f'many   "",{",".join(names)}   <none>   Current   ' in wide

    def test_every_page_is_fetched(self, cli_in: CliIn) -> None:
        cli_in.registry.page_size = 2
        cli_in.registry.apply(*(crd(f"f{number}") for number in range(5)))
        outcome = cli_in.call("get", "crds", "-o", "name")
        assert outcome.stdout.splitlines() == [
            f"{CRD_LINE}/f{number}.example.com" for number in range(5)
        ]
        assert cli_in.registry.methods() == ["ListRegistrations"] * 3

    @pytest.mark.parametrize("output", ["json", "yaml"])
    @pytest.mark.parametrize(
        ("text", "args"),
        [(CRON_TAB_CRD, f"crd {CRON_TABS}"), (API_SERVICE, "apiservices"), (LIST, "groups east")],
    )
    def test_objects_can_be_applied_again(
        self, cli_in: CliIn, output: str, text: str, args: str
    ) -> None:
        """A printed object has its revision, so it does not overwrite another change."""
        call, registry, folder = cli_in
        registry.apply(text, name="east")
        printed = call("get", *args.split(), "-o", output)
        (folder / "edited.yaml").write_text(printed.stdout)
        same = call("apply", "-f", "edited.yaml")
        assert (same.exit_code, same.stdout.split()[-1]) == (0, "unchanged")
        for held in list(registry.held.values()):
            registry.put(held)
        other = call("apply", "-f", "edited.yaml")
        assert (other.exit_code, "(Conflict)" in other.stderr) == (1, True)

    def test_json_is_gos(self, cli_in: CliIn) -> None:
        cli_in.registry.apply(API_SERVICE.replace("east", "<e&st>"))
        text = cli_in.call("get", "apiservices", "-o", "json").stdout
        assert text.startswith('{\n    "apiVersion": "v1",\n    "items": [\n        {\n')
        assert '"namespace": "\\u003ce\\u0026st\\u003e"' in text
        assert text.endswith(
            '    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'
        )

    def test_missing_objects_are_reported(self, cli_in: CliIn) -> None:
        assert cli_in.call("get", "crds") == Outcome(0, "", "No resources found\n")
        cli_in.registry.apply(CRON_TAB_CRD)
        outcome = cli_in.call("get", f"crd/{CRON_TABS}", "crd/a", "-o", "name")
        assert outcome == Outcome(
            1,
            f"{CRD_LINE}/{CRON_TABS}\n",
            f'Error from server (NotFound): {CRDS} "a" not found\n',
        )
        assert cli_in.call("get", "crd", "a", "-o", "json").stdout == ""

    def test_names_are_safe_for_a_terminal(self, cli_in: CliIn) -> None:
        cli_in.registry.apply(
            CRON_TAB_CRD.replace("crontabs", '"\\e[31m').replace("com}", 'com"}', 1)
        )
        for output in ("table", "name"):
            assert "\x1b" not in cli_in.call("get", "crds", "-o", output).stdout

    def test_sources(self, capsys: Capture) -> None:
        sources = (
            discovery_pb2.DiscoverySource(name="catalog", state=discovery_pb2.SOURCE_STATE_CURRENT),
            discovery_pb2.DiscoverySource(
                name="upstream:east",
                state=discovery_pb2.SOURCE_STATE_STALE,
                since=Timestamp(seconds=CREATED_S),
                error="connection refused",
                address="https://east:6443",
                group_versions=[
                    discovery_pb2.OfferedGroupVersion(
                        group=group, version="v1", shadowed_by="" if group else "catalog"
                    )
                    for group in ("", "apps", "batch", "example.com")
                ],
            ),
        )
        with FakeRegistry(sources=sources) as registry:
            assert cli(capsys, registry, "get", "sources").stdout == (
                "NAME            STATE     SINCE                  GROUP-VERSIONS"
                "                    SHADOWED        ERROR\n"
                "catalog         Current   <unknown>              <none>        "
                "                    <none>          <none>\n"
                "upstream:east   Stale     2023-11-14T22:13:20Z   v1,apps/v1,batch/v1 + 1 more..."
                "   v1 by catalog   connection refused\n"
            )
            wide = cli(capsys, registry, "get", "sources", "upstream:east", "-o", "wide").stdout
            assert "v1,apps/v1,batch/v1,example.com/v1   v1 by catalog   https://east:6443" in wide
            printed = cli(capsys, registry, "get", "source", "-o", "json").stdout
            assert [source["name"] for source in json.loads(printed)["sources"]] == [
                "catalog",
                "upstream:east",
            ]
            assert cli(capsys, registry, "get", "sources", "west").stderr == (
                'Error from server (NotFound): sources "west" not found\n'
            )


def _rows(cli_in: CliIn, *args: str) -> list[str]:
    outcome = cli_in.call(*args)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return outcome.stdout.splitlines()


@pytest.mark.parametrize(
    ("kubectls", "ours", "lines"),
    [
        pytest.param(
            "create --dry-run=client --validate=false -f objects.yaml",
            "apply --dry-run -f objects.yaml",
            2,
            id="apply",
        ),
        pytest.param(
            "create --dry-run=client --validate=false -f objects.yaml -o name",
            "apply --dry-run -f objects.yaml -o name",
            2,
            id="apply -o name",
        ),
        pytest.param(
            "delete --dry-run=client -f objects.yaml", "withdraw -f objects.yaml", 2, id="delete"
        ),
        pytest.param(
            "delete --dry-run=client -f objects.yaml -o name",
            "withdraw -f objects.yaml -o name",
            2,
            id="delete -o name",
        ),
        *(
            pytest.param(f"get {args}", f"get {args}", None, id=f"get {args}")
            for args in (
                f"crd {CRON_TABS} -o json",
                f"crd {CRON_TABS} -o yaml",
                f"crd/{CRON_TABS} -o name",
                "apiservice v1.example.com -o yaml",
            )
        ),
    ],
)
def test_output_is_kubectls(
    cli_in: CliIn, tmp_path: Path, kubectls: str, ours: str, lines: int | None
) -> None:
    """Its dry run here is that of the client, so it needs no such server."""
    call, registry, _ = cli_in
    cli_in.write(objects=f"{CRON_TAB_CRD}---\n{API_SERVICE}")
    if not ours.startswith("apply"):
        registry.apply(CRON_TAB_CRD, API_SERVICE)
    with FakeApiServer({**builtin(), **_objects_over_http(CRON_TAB_CRD, API_SERVICE)}) as server:
        done = subprocess.run(  # noqa: S603
            [
                *(find_tool("kubectl"), "--server", server.url, "--cache-dir", "cache"),
                *kubectls.split(),
            ],
            check=False,
            capture_output=True,
            text=True,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )
    assert (done.returncode, done.stderr) == (0, "")
    outcome = call(*ours.split())
    expected = done.stdout
    if kubectls.startswith("delete"):
        expected = expected.replace(" (dry run)", "")
    assert outcome == Outcome(0, expected.replace("(dry run)", "(server dry run)"), "")
    assert lines in (None, outcome.stdout.count("\n"))


def _objects_over_http(*texts: str) -> Routes:
    """Return how an API server answers for the same objects, under revisions 1, 2 and so on."""
    routes = dict[str, Answer]()
    for revision, text in enumerate(texts, 1):
        value = yaml.safe_load(text)
        value["metadata"]["resourceVersion"] = str(revision)
        plural = f"{value['kind'].lower()}s"
        routes[f"/apis/{value['apiVersion']}/{plural}/{value['metadata']['name']}"] = document(
            value
        )
    return routes


@pytest.mark.parametrize(("after_s", "text"), [(-1.9, "0s"), (130.5, "2m10s")])
def test_ages_are_in_whole_seconds(after_s: float, text: str) -> None:
    now = datetime.fromtimestamp(CREATED_S, UTC) + timedelta(seconds=after_s)
    assert human_age(now, Timestamp(seconds=CREATED_S)) == text


def test_without_a_time_there_is_no_age() -> None:
    assert human_age(datetime.now(UTC), Timestamp()) == "<unknown>"
