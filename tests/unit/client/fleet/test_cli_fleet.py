"""`apidiscovery fleet`: what it prints, and its exit codes."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apidiscovery_cli.fleet_table import silence
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.testing import FakeApiServer, group, resource
from apidiscovery_formats.matrix import Column, Freshness
from client_snapshots import snapshot
from command_line import Outcome, run
from kubectl_config import several, write

Capture = pytest.CaptureFixture[str]
WIDGETS = group("example.com", v1=[resource("widgets", "Widget", short_names=["w"])])
NEWER = group("example.com", v2=[resource("widgets", "Widget")], v1=[resource("widgets", "Widget")])
GADGETS = group("example.com", v1=[resource("gadgets", "Gadget")])


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a folder with a snapshot of each of three clusters."""
    monkeypatch.chdir(tmp_path)
    for name, found in (("east", WIDGETS), ("west", NEWER), ("south", GADGETS)):
        (tmp_path / f"{name}.json").write_bytes(dump(snapshot(found)))


def fleet(capsys: Capture, *args: str) -> Outcome:
    return run(capsys, "fleet", *args)


def test_it_prints_what_differs_and_counts_the_rest(capsys: Capture) -> None:
    assert fleet(capsys, "east.json", "west.json", "same=east.json").stdout == (
        "3 clusters, 1 kind: 0 the same everywhere, 1 differ\n"
        "KIND     GROUP         EAST   WEST                       SAME\n"
        "Widget   example.com   v1     v2*,v1 (no short name w)   v1\n"
    )


@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (("east.json", "same=east.json"), 0),
        (("east.json", "west.json"), 1),
        (("east.json", "south.json", "same=east.json", "--kind", "gadget"), 1),
        (("east.json", "west.json", "--kind", "gadget"), 2),
        (("east.json", "west.json", "--group", "core"), 2),
        (("east.json", "missing.json"), 2),
        (("east.json", "http://127.0.0.1:1"), 2),
        (("east.json", "east.json"), 2),
        ((), 2),
        (("best",), 2),
        (("--contexts", "*", "--kubeconfig", "missing"), 2),
    ],
)
def test_exit_code_is_0_for_the_same_1_for_different_2_for_trouble(
    capsys: Capture, args: tuple[str, ...], exit_code: int
) -> None:
    assert fleet(capsys, *args).exit_code == exit_code


def test_a_silent_cluster_is_named_and_its_cells_are_unknown(capsys: Capture) -> None:
    found = fleet(capsys, "east.json", "west=http://127.0.0.1:1")

    first, _, row = found.stdout.splitlines()
    assert first.startswith(
        "2 clusters, 1 kind: 0 the same everywhere, 0 differ, 1 not known everywhere;"
        " west does not answer (the connection to the server 127.0.0.1:1 was refused"
    )
    assert row.split() == ["Widget", "example.com", "v1", "?"]


def test_errors_of_connection_options_name_the_flags(capsys: Capture) -> None:
    found = fleet(capsys, "east.json", "https://127.0.0.1:1", "--as-group", "dev")

    assert (found.exit_code, found.stderr) == (
        2,
        "error: --as-group: want `--as` beside it: whom to impersonate\n",
    )


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ("context:", "the name of a context is missing"),
        ("ftp://a", "'ftp' is not a scheme of a server"),
    ],
)
def test_a_malformed_cluster_is_refused_as_by_diff(
    capsys: Capture, cluster: str, reason: str
) -> None:
    found = fleet(capsys, "east.json", cluster)

    assert (found.exit_code, found.stdout) == (2, "")
    assert f"error: {cluster}: {reason}" in found.stderr
    assert run(capsys, "diff", "east.json", cluster).stderr == found.stderr


def test_a_cluster_that_has_gone_down_is_shown_as_it_was(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer]
) -> None:
    server = make_fake_apiserver([WIDGETS])
    named = f"west={server.url}"
    assert fleet(capsys, "east.json", named).exit_code == 0

    server.down()
    found = fleet(capsys, "east.json", named, "--all")

    assert "; west " in found.stdout.splitlines()[0]
    assert found.stdout.splitlines()[2].split()[:4] == ["Widget", "example.com", "v1", "v1"]
    assert "(stale" in found.stdout.splitlines()[2]
    assert found.exit_code == 2


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("2026-11-20T10:00:00Z", "west does not answer (refused)"),
        ("2026-11-20T09:59:59Z", "west has not answered for 1s (refused)"),
        ("2026-11-20T09:56:00Z", "west has not answered for 4m (refused)"),
        ("2026-11-17T09:00:00Z", "west has not answered for 3d (refused)"),
    ],
)
def test_silence_is_told_with_its_age_once_it_has_one(since: str, said: str) -> None:
    column = Column("west", Freshness.STALE, since, "refused")
    assert silence(column, datetime(2026, 11, 20, 10, tzinfo=UTC)) == said


def test_contexts_of_a_kubeconfig_are_taken_by_pattern(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer], tmp_path: Path
) -> None:
    servers = {
        name: make_fake_apiserver([found]).url
        for name, found in (("prod-east", WIDGETS), ("prod-west", NEWER), ("dev", GADGETS))
    }
    file = write(tmp_path / "config", several(**servers))

    found = fleet(capsys, "--kubeconfig", file, "--contexts", "prod-*")
    every = fleet(capsys, "--kubeconfig", file, "--all-contexts", "-o", "json")

    assert found.stdout.startswith("2 clusters, 1 kind")
    assert [each["name"] for each in json.loads(every.stdout)["clusters"]] == [
        *("dev", "prod-east", "prod-west")
    ]


def test_json_has_clusters_rows_and_a_hash(capsys: Capture) -> None:
    document = json.loads(fleet(capsys, "east.json", "west.json", "-o", "json").stdout)

    assert [each["name"] for each in document["clusters"]] == ["east", "west"]
    (row,) = document["rows"]
    assert (row["group"], row["resource"], row["agreement"]) == (
        *("example.com", "widgets", "Different"),
    )
    assert [cell["clusters"] for cell in row["cells"]] == [["east"], ["west"]]
    assert document["hash"]


def test_markdown_is_a_table(capsys: Capture) -> None:
    assert fleet(capsys, "east.json", "west.json", "-o", "markdown").stdout == (
        "2 clusters, 1 kind: 0 the same everywhere, 1 differ.\n"
        "\n"
        "| KIND | GROUP | EAST | WEST |\n"
        "| --- | --- | --- | --- |\n"
        "| Widget | example.com | v1 | v2\\*,v1 (no short name w) |\n"
    )


def test_markdown_counts_what_is_not_shown_as_the_table_does(capsys: Capture) -> None:
    sides = ("east.json", "same=east.json", "--group", "example.com")
    assert fleet(capsys, *sides, "-o", "markdown").stdout == (
        "2 clusters, 1 kind: 1 the same everywhere, 0 differ.\n"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--kind", "gadget"), "no cluster is known to serve a kind with --kind 'gadget'\n"),
        (("--group", "core"), "--group 'core'; want --group '' for the core group\n"),
        (("--common", "--kind", "gadget"), "no cluster is known to serve"),
        (("--kind", "gadget", "south=http://127.0.0.1:1"), "; nothing is known of south\n"),
    ],
)
def test_names_that_no_cluster_has_are_trouble(
    capsys: Capture, args: tuple[str, ...], said: str
) -> None:
    found = fleet(capsys, "east.json", "west.json", *args)

    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr


@pytest.mark.parametrize("name", ["Widget", "wIdGeT", "widgets", "WIDGETS", "w"])
def test_a_kind_goes_by_each_of_its_names(capsys: Capture, name: str) -> None:
    found = fleet(capsys, "east.json", "south.json", "--kind", name, "-o", "name")
    assert found.stdout == "widgets.example.com\n"


def test_common_warns_of_clusters_that_do_not_answer(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer]
) -> None:
    server = make_fake_apiserver([WIDGETS])
    named = f"west={server.url}"
    assert fleet(capsys, "east.json", named, "--common").stderr == ""

    server.down()
    died = fleet(capsys, "east.json", named, "--common")
    never = fleet(capsys, "east.json", "west=http://127.0.0.1:1", "--common")

    assert "Widget" in died.stdout
    assert died.stderr.startswith("warning: west ")
    assert died.exit_code == 0
    assert "Widget" not in never.stdout
    assert never.stderr.startswith("warning: west does not answer (")
    assert never.exit_code == 2


def test_common_is_what_all_serve(capsys: Capture) -> None:
    found = fleet(capsys, "east.json", "west.json", "--common")

    assert found.stdout.splitlines()[1].split() == ["Widget", "widgets", "example.com", "v1"]
    assert found.exit_code == 0


def test_best_is_the_version_that_all_serve(capsys: Capture) -> None:
    assert fleet(capsys, "best", "widgets", "east.json", "west.json").stdout == (
        "example.com/v1 Widget\n"
    )
    found = fleet(capsys, "best", "gadgets", "east.json", "south.json")
    assert found.exit_code == 2
    assert "east" in found.stderr


def test_releases_are_clusters_too(capsys: Capture) -> None:
    found = fleet(capsys, "kubernetes:1.24", "kubernetes:1.25", "--kind", "CronJob")

    assert found.stdout.splitlines()[2].split() == ["CronJob", "batch", "v1*,v1beta1", "v1"]


def test_recorded_releases_are_compared_as_they_answered(capsys: Capture) -> None:
    found = fleet(capsys, "kubernetes:1.31", "kubernetes:v1.36", "--group", "", "--wide", "--all")
    rows = [line.split() for line in found.stdout.splitlines() if line.startswith("Pod ")]

    assert rows == [["Pod", "pods", "po", "Namespaced", "v1", "(no", "/resize)", "v1"]]


def test_names_of_hostile_servers_reach_no_terminal(capsys: Capture, tmp_path: Path) -> None:
    evil = group("evil.example", v1=[resource("evils", "Evil\x1b[31m")])
    (tmp_path / "evil.json").write_bytes(dump(snapshot(evil)))

    for form in ("table", "markdown", "name"):
        assert "\x1b" not in fleet(capsys, "east.json", "evil.json", "-o", form).stdout


def test_a_token_is_not_sent_to_several_servers(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer]
) -> None:
    east, west = make_fake_apiserver([WIDGETS]), make_fake_apiserver([WIDGETS])

    found = fleet(capsys, f"east={east.url}", f"west={west.url}", "--token", "secret")

    assert found.exit_code == 2
    assert "--token would go to several servers" in found.stderr
    assert not east.requests
    assert not west.requests


def test_options_hold_for_all_contexts_and_a_token_for_none(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer], tmp_path: Path
) -> None:
    server = make_fake_apiserver([WIDGETS])
    contexts = ("--kubeconfig", write(tmp_path / "config", several(only=server.url)))

    refused = fleet(capsys, *contexts, "--all-contexts", "--token", "secret")
    assert refused.exit_code == 2
    assert not server.requests

    assert fleet(capsys, *contexts, "--all-contexts", "--as", "jane").exit_code == 0
    assert {request.headers.get("impersonate-user") for request in server.requests} == {"jane"}


def test_labels_need_a_service_that_knows_them(capsys: Capture) -> None:
    found = fleet(capsys, "east.json", "-l", "region=eu")

    assert found.exit_code == 2
    assert "only a service knows labels; want --server URL" in found.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://127.0.0.1"])
def test_a_service_is_named_by_its_url(capsys: Capture, url: str) -> None:
    found = fleet(capsys, "--server", url)

    assert found.exit_code == 2
    assert "want a URL of http, https, grpc, grpcs" in found.stderr


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_service_that_does_not_answer_is_trouble(capsys: Capture, scheme: str) -> None:
    found = fleet(capsys, "--server", f"{scheme}://127.0.0.1:1", "--request-timeout", "1s")

    assert found.exit_code == 2
    assert not found.stdout
    assert "127.0.0.1:1" in found.stderr


def test_progress_is_shown_on_a_terminal_alone(
    capsys: Capture,
    make_fake_apiserver: type[FakeApiServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = [f"{name}={make_fake_apiserver([WIDGETS]).url}" for name in ("a", "b", "c")]
    assert not fleet(capsys, *named).stderr

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = fleet(capsys, *named).stderr
    assert "Asking clusters: 3 of 3" in told
    assert told.endswith("\r\x1b[K")


@pytest.mark.parametrize("words", [(), ("--common",), ("best", "widgets")])
def test_progress_is_cleared_before_the_answer(
    capsys: Capture,
    make_fake_apiserver: type[FakeApiServer],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    named = [f"{name}={make_fake_apiserver([WIDGETS]).url}" for name in ("a", "b", "c")]
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = fleet(capsys, *words, *named).stdout
    assert shown.rpartition("Asking clusters: 3 of 3")[2].startswith("\r\x1b[K")


def test_several_sides_of_a_comparison_are_a_table(capsys: Capture) -> None:
    found = run(capsys, "diff", "east.json", "west.json", "south.json")

    assert found.exit_code == 1
    assert found.stdout == (
        "3 clusters, 2 kinds: 0 the same everywhere, 2 differ\n"
        "KIND     GROUP         EAST   WEST                       SOUTH\n"
        "Gadget   example.com   -      -                          v1\n"
        "Widget   example.com   v1     v2*,v1 (no short name w)   -\n"
    )
    same = run(capsys, "diff", "a=east.json", "b=east.json", "c=east.json")
    assert (same.exit_code, same.stdout) == (
        0,
        "3 clusters, 1 kind: 1 the same everywhere, 0 differ\n",
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("east.json", "west.json", "east.json"), "another side is called 'east'; want NAME=SIDE"),
        (("east.json", "west.json", "missing.json"), "there is no such file"),
        (("east.json", "-", "-"), "only one side can be standard input"),
        (("east.json", "west.json", "south.json", "--breaking-only"), "only for two sides"),
        (("east.json", "west.json", "c=http://127.0.0.1:1"), "127.0.0.1:1"),
        (("cluster:east", "west.json"), "which service knows it? want --server URL"),
        (("cluster:", "west.json", "--server", "http://127.0.0.1:1"), "name of a cluster is miss"),
    ],
)
def test_sides_that_cannot_be_compared_are_trouble(
    capsys: Capture, args: tuple[str, ...], said: str
) -> None:
    found = run(capsys, "diff", *args)

    assert found.exit_code == 2
    assert not found.stdout
    assert said in found.stderr


def test_a_token_is_for_one_service_with_several_clusters(
    capsys: Capture, make_fake_apiserver: type[FakeApiServer]
) -> None:
    server = make_fake_apiserver([WIDGETS])
    other = make_fake_apiserver([WIDGETS])

    run(capsys, "diff", "cluster:a", "cluster:b", "--server", server.url, "--token", "secret")
    refused = run(
        capsys, "diff", "cluster:a", other.url, "--server", server.url, "--token", "secret"
    )

    assert {request.headers.get("authorization") for request in server.requests} == {
        "Bearer secret"
    }
    assert "--token would go to several servers" in refused.stderr
    assert not other.requests
