"""The pytest plugin of the installed package, in a project of its own."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots import file
from apidiscovery_client.testing import FakeApiServer, group, resource

pytest_plugins = ["pytester"]

PASSING = """
    import json
    import os
    import urllib.request

    def test_builtin(fake_apiserver):
        with urllib.request.urlopen(fake_apiserver.url + "/apis") as reply:
            assert "apps" in [group["name"] for group in json.load(reply)["groups"]]

    def test_made(make_fake_apiserver):
        from apidiscovery_client.testing import group, resource

        first = make_fake_apiserver([group("a.example", v1=[resource("as", "A")])], release="1.30")
        second = make_fake_apiserver([])
        assert first.url != second.url
        assert first.groups and not second.groups

    def test_kubeconfig(fake_apiserver, fake_apiserver_kubeconfig):
        assert os.environ["KUBECONFIG"] == str(fake_apiserver_kubeconfig)
        told = json.loads(fake_apiserver_kubeconfig.read_text())
        assert told["clusters"][0]["cluster"]["server"] == fake_apiserver.url

    def test_nothing_is_left():
        import threading

        assert "KUBECONFIG" not in os.environ
        assert not [found for found in threading.enumerate() if "fake" in found.name]
"""

FAILING = """
    import urllib.request

    def test_many_requests(fake_apiserver):
        for number in range(23):
            urllib.request.urlopen(f"{fake_apiserver.url}/apis?n={number}").read()
        assert False

    def test_nothing_was_asked(fake_apiserver):
        assert False

    def test_none():
        assert False
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a project with strict settings."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-config\n")
    return pytester


def run(folder: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest without pytest-asyncio, which warns of absent settings."""
    return folder.runpytest_subprocess("-p", "no:asyncio", *args, timeout=60)


def test_fixtures_work_in_workers_without_warnings_and_failures_show_the_last_requests(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_passing=PASSING, test_failing=FAILING)
    result = run(folder, "-W", "error", "-n", "1")
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.re_match_lines(
        [
            r"-+ Requests to http://127\.0\.0\.1:\d+ -+",
            r"\(3 before these\)",
            r"GET /apis\?n=3 -> 200, \d+ bytes",
            r".*test_nothing_was_asked.*",
            r"-+ Requests to http://127\.0\.0\.1:\d+ -+",
            r"none",
        ]
    )
    assert result.stdout.str().count("Requests to") == 2
    assert "n=2 ->" not in result.stdout.str()


def test_the_unused_plugin_imports_three_modules(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        import sys

        def test_few_modules_are_loaded():
            loaded = [name for name in sys.modules if name.startswith("apidiscovery")]
            assert sorted(loaded) == [
                "apidiscovery_client",
                "apidiscovery_client.testing",
                "apidiscovery_client.testing.plugin",
            ]
            heavy = {"grpc", "google.protobuf", "httpx2", "yaml", "http.server", "asyncio"}
            assert not heavy & set(sys.modules)
        """
    )
    plugins = ("anyio", "hypothesispytest", "xdist", "xdist.looponfail", "timeout")
    others = [argument for name in plugins for argument in ("-p", f"no:{name}")]
    result = run(folder, *others)
    result.assert_outcomes(passed=1)


def test_a_saved_snapshot_is_served(tmp_path: Path) -> None:
    groups = (group("example.com", v1=[resource("widgets", "Widget")]),)
    snapshot = Snapshot(groups=groups, server="x", checked_at=datetime(2026, 11, 22, tzinfo=UTC))
    path = tmp_path / "saved.json"
    path.write_bytes(file.dump(snapshot))
    with FakeApiServer(path) as server:
        assert server.groups == groups
    with FakeApiServer(str(path)) as server:
        assert server.groups == groups


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(Exception, match=r"other\.json"):
        FakeApiServer(path)
    with pytest.raises(FileNotFoundError):
        FakeApiServer(tmp_path / "missing.json")


def test_only_what_is_public_is_exported() -> None:
    from apidiscovery_client import testing

    for name in testing.__all__:
        assert getattr(testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = testing.nope
