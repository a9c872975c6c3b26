"""The history of real processes: over gRPC and on the command line, after kill -9, on replicas."""

import json
import signal
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from apidiscovery.service.v1 import history_pb2, history_pb2_grpc
from command_line import run
from fake_api_server import FakeApiServer, aggregated
from programs import running
from raw_http import get
from server import Server, serving
from waiting import WITHIN_S, eventually

Capture = pytest.CaptureFixture[str]

GROUP = history_pb2.HISTORY_CHANGE_KIND_GROUP


def group(*kinds: str) -> dict[str, Any]:
    resources = [
        {
            "resource": f"{kind.lower()}s",
            "responseKind": {"group": "", "version": "", "kind": kind},
            "scope": "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["get"],
        }
        for kind in kinds
    ]
    versions = [{"version": "v1", "resources": resources, "freshness": "Current"}]
    return {"metadata": {"name": "a.test"}, "versions": versions}


def routes(*kinds: str) -> dict[str, Any]:
    return {"/apis": aggregated(group(*kinds))}


@contextmanager
def following(folder: Path, url: str, *flags: str, store: Path | None = None) -> Generator[Server]:
    """Serve the cluster `east`, polled often."""
    folder.mkdir(exist_ok=True)
    options = {"url": url, "poll-interval": "200ms"}
    (folder / "config.json").write_text(json.dumps({"upstreams": {"east": options}}))
    own = ("--catalog", "none", "--store", f"sqlite:{store or folder / 'store.sqlite'}")
    with serving(folder, *own, "--config", str(folder / "config.json"), *flags) as server:
        yield server


def listed(server: Server, cluster: str = "east") -> list[history_pb2.HistoryChange]:
    """Return the changes of a cluster's groups, oldest first."""
    selection = history_pb2.HistorySelection(clusters=[cluster], kinds=[GROUP])
    request = history_pb2.ListChangesRequest(selection=selection, with_groups=True)
    with grpc.insecure_channel(server.grpc) as channel:
        stub = history_pb2_grpc.HistoryServiceStub(channel)
        return list(stub.ListChanges(request, timeout=WITHIN_S).changes)[::-1]


def kinds(change: history_pb2.HistoryChange) -> list[str]:
    versions = change.group_after.group.versions
    return [one.response_kind.kind for version in versions for one in version.resources]


def told(server: Server, capsys: Capture, *flags: str) -> str:
    done = run(capsys, "history", "--grpc-server", server.grpc, *flags)
    assert (done.exit_code, done.stderr) == (0, ""), done
    return done.stdout


def until(server: Server, wanted: Sequence[str]) -> None:
    """Wait until the newest change of the cluster's group has led to these kinds."""

    def is_there() -> bool:
        changes = listed(server)
        return bool(changes) and kinds(changes[-1]) == list(wanted)

    eventually(is_there, f"{wanted} are remembered")


def test_a_change_is_told_in_words_in_every_format_and_to_a_watch(
    capsys: Capture, tmp_path: Path
) -> None:
    with (
        FakeApiServer(routes("Widget", "Tool")) as upstream,
        following(tmp_path / "server", upstream.url) as server,
    ):
        until(server, ["Widget", "Tool"])
        upstream.answers = routes("Widget")
        until(server, ["Widget"])
        head, *lines = told(server, capsys, "--cluster", "east").splitlines()
        assert head.split() == ["TIME", "CLUSTER", "CAUSE", "CHANGE"]
        assert "tools.v1.a.test: removed: Tool is not served any more" in lines[0]
        assert any(line.endswith("answers") and "cluster" in line for line in lines)
        assert told(server, capsys, "--kind", "widget", "--cluster", "east").count("\n") == 2
        newest, *_ = json.loads(told(server, capsys, "-o", "json"))["changes"]
        assert newest["changes"] == ["tools.v1.a.test: removed: Tool is not served any more"]
        assert newest["findings"][0]["severity"] == "breaking"
        assert told(server, capsys, "-o", "name", "--limit", "0").startswith("changes/")
        table = told(server, capsys, "-o", "markdown").splitlines()
        assert table[:2] == ["| Time | Cluster | Cause | Change |", "|---|---|---|---|"]
        assert told(server, capsys, "--since", "1h", "--until", "0s", "-o", "name")
        # What this server merges is a cluster without a name.
        merged = json.loads(told(server, capsys, "--cluster", "-", "-o", "json"))["changes"]
        assert {one["cluster"] for one in merged} == {""}
        assert {one["cause"] for one in merged} == {"upstream:east"}
        words = ("history", "--grpc-server", server.grpc, "--cluster", "east", "--watch")
        with running(tmp_path, *words, "--group", "a.test", "-o", "json") as watching:
            assert watching.stdout is not None
            for wanted in ("a.test: added with v1", newest["changes"][0]):
                assert json.loads(watching.stdout.readline())["changes"] == [wanted]
            upstream.answers = routes("Widget", "Gadget")
            line = json.loads(watching.stdout.readline())
            assert line["changes"] == ["gadgets.v1.a.test: added: Gadget"]
            watching.send_signal(signal.SIGTERM)


def test_the_page_leaves_out_what_no_client_sees(tmp_path: Path) -> None:
    def ordered(*categories: str) -> dict[str, Any]:
        told = group("Widget")
        told["versions"][0]["resources"][0]["categories"] = list(categories)
        return {"/apis": aggregated(told)}

    with (
        FakeApiServer(ordered("a", "b")) as upstream,
        following(tmp_path / "server", upstream.url) as server,
    ):
        until(server, ["Widget"])
        upstream.answers = ordered("b", "a")
        eventually(lambda: len(listed(server)) == 2, "another order is remembered")
        path = "/ui/history?cluster=east&group=a.test"
        page = get(server.http_port, path).body
        assert b"1 change left out" in page
        assert b"only what clients do not see" not in page
        assert b"only what clients do not see" in get(server.http_port, f"{path}&all=1").body
        # What the cluster did to what is served here is told of the cluster alone.
        beside = b'<span class="muted">(cluster east)</span>'
        assert beside not in get(server.http_port, "/ui/history").body
        assert beside not in get(server.http_port, "/ui/").body
        assert beside in get(server.http_port, "/ui/history?all=1").body


def test_without_a_history_it_says_what_to_do(capsys: Capture, tmp_path: Path) -> None:
    """On the command line, of a cluster at a time, and over HTTP."""
    with (
        FakeApiServer(routes("Widget")) as upstream,
        following(tmp_path / "server", upstream.url, "--history", "off") as server,
    ):
        done = run(capsys, "history", "--grpc-server", server.grpc)
        assert done.exit_code == 1
        assert "start it with --history" in done.stderr
        done = run(capsys, "history", "--grpc-server", server.grpc, "--since", "soon")
        assert done.exit_code == 2
        assert "such as 7d or 12h" in done.stderr
        sides = ("cluster:east@2026-11-20", "cluster:east")
        done = run(capsys, "diff", *sides, "--server", server.url)
        assert done.exit_code == 2
        assert "this server keeps no history; start it with --history" in done.stderr
        answer = get(server.http_port, "/apis?at=2026-11-20T10:00:00Z")
        assert answer.status == 400
        assert "keeps no history" in str(answer.json()["message"])


def test_what_was_written_survives_a_kill_and_nothing_is_written_twice(tmp_path: Path) -> None:
    with FakeApiServer(routes("Widget")) as upstream:
        with following(tmp_path / "s", upstream.url) as server:
            until(server, ["Widget"])
            upstream.answers = routes("Widget", "Gadget")
            until(server, ["Widget", "Gadget"])
            before = listed(server)
            server.process.kill()
            server.process.wait()
        (tmp_path / "s" / "ready.json").unlink()
        upstream.answers = routes("Gadget")
        with following(tmp_path / "s", upstream.url) as server:
            until(server, ["Gadget"])
            after = listed(server)
            assert after[: len(before)] == before
            assert len(after) == len(before) + 1


def test_replicas_on_one_store_write_each_change_once(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    with (
        FakeApiServer(routes("Widget")) as upstream,
        following(tmp_path / "one", upstream.url, store=store) as one,
        following(tmp_path / "two", upstream.url, store=store) as two,
    ):
        until(one, ["Widget"])
        for number in range(5):
            upstream.answers = routes("Widget", f"K{number}")
            until(two, ["Widget", f"K{number}"])
        assert listed(one) == listed(two)
        assert len(listed(one)) == 6
        merged = Counter(change.hash_after for change in listed(two, ""))
        assert set(merged.values()) == {1}
