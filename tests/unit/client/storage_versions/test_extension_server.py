"""The example as a process of its own: joined, reported, upgraded, killed, ended."""

import asyncio
import runpy
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from fake_storage_versions import FakeStorageVersions, fake_service
from repository import EXAMPLES
from server import environment
from waiting import WITHIN_S

EXAMPLE = EXAMPLES / "extension_server.py"
WIDGETS = "/apis/example.dev/v1/widgets"
A = {"metadata": {"name": "a"}, "spec": {"millimetres": 3}}


@dataclass
class Running:
    """The example while it runs."""

    process: asyncio.subprocess.Process
    client: httpx2.AsyncClient
    lines: list[str]

    async def line(self, start: str) -> str:
        """Return the next line of its standard error that starts so."""
        stderr = self.process.stderr
        assert stderr is not None
        async with asyncio.timeout(WITHIN_S):
            while line := (await stderr.readline()).decode().rstrip():
                self.lines.append(line)
                if line.startswith(start):
                    return line
        raise AssertionError(f"no line {start!r} in {self.lines}")

    async def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


@asynccontextmanager
async def example(folder: Path, service: str, *flags: str) -> AsyncGenerator[Running]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--service", service, "--http", "127.0.0.1:0"),
        *("--data", str(folder / "widgets.db"), *flags),
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(folder),
    )
    running = Running(process, httpx2.AsyncClient(trust_env=False), [])
    try:
        url = (await running.line("serving")).removeprefix("serving ")
        running.client.base_url = httpx2.URL(url)
        yield running
    finally:
        await running.client.aclose()
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def service() -> AsyncGenerator[FakeStorageVersions]:
    async with fake_service() as fake:
        yield fake


def written(folder: Path) -> list[tuple[str, str, str]]:
    """Return the server, the verb and the version of each write."""
    with sqlite3.connect(folder / "widgets.db") as file:
        rows = file.execute("SELECT server, verb, version FROM writes ORDER BY revision").fetchall()
    file.close()
    return rows


async def test_it_writes_when_it_has_reported(service: FakeStorageVersions, tmp_path: Path) -> None:
    service.held.clear()
    ready = tmp_path / "ready"
    async with example(tmp_path, service.address, "--ready-file", str(ready)) as server:
        assert ready.read_text() == f"{server.client.base_url.netloc.decode()}\n"
        assert (await server.line("joined")) == "joined as apiserver-of-server-1"
        assert (await server.client.get("/readyz")).status_code == 500
        assert (await server.client.get(WIDGETS)).json()["items"] == []
        refused = await server.client.post(WIDGETS, json=A)
        assert refused.status_code == 503
        assert "resource: widgets.example.dev, last seen error: <nil>" in refused.json()["message"]
        service.held.set()
        assert (await server.line("reported")) == "reported widgets.example.dev in example.dev/v1"
        assert (await server.client.get("/readyz")).text == "ok"
        made = await server.client.post(WIDGETS, json=A)
        assert made.status_code == 201
        assert await server.end() == 0
    assert written(tmp_path) == [("server-1", "create", "v1")]
    report = service.requests("Report")[0].resources[0]
    assert report.encoding_version == "example.dev/v1"
    assert list(report.decodable_versions) == ["example.dev/v1", "example.dev/v2"]
    assert service.members == {}


async def test_it_is_an_api_in_two_versions(service: FakeStorageVersions, tmp_path: Path) -> None:
    async with example(tmp_path, service.address) as server:
        await server.line("reported")
        client = server.client
        made = (await client.post(WIDGETS, json=A)).json()
        assert (made["apiVersion"], made["spec"]) == ("example.dev/v1", {"millimetres": 3})
        assert (await client.post(WIDGETS, json=A)).status_code == 409
        other = WIDGETS.replace("v1", "v2")
        seen = (await client.get(f"{other}/a")).json()
        assert seen["spec"] == {"size": {"value": 3, "unit": "mm"}}
        assert seen["metadata"] == made["metadata"]
        changed = {**seen, "spec": {"size": {"value": 4, "unit": "mm"}}}
        assert (await client.put(f"{other}/a", json=changed)).status_code == 200
        assert (await client.put(f"{other}/a", json=changed)).status_code == 409
        listed = (await client.get(WIDGETS)).json()
        assert [item["spec"] for item in listed["items"]] == [{"millimetres": 4}]
        assert listed["metadata"]["resourceVersion"] == "2"
        assert (await client.delete(f"{WIDGETS}/a")).status_code == 200
        missing = await client.get(f"{WIDGETS}/a")
        assert (missing.status_code, missing.json()["kind"]) == (404, "Status")
        assert (await client.post(WIDGETS, json={"metadata": {}})).status_code == 400
        assert (await client.post(WIDGETS, json=[])).status_code == 400
        assert (await client.get(WIDGETS.replace("v1", "v3"))).status_code == 404


async def test_a_server_that_is_killed_writes_again_after_its_report(
    service: FakeStorageVersions, tmp_path: Path
) -> None:
    async with example(tmp_path, service.address) as server:
        await server.line("reported")
        assert (await server.client.post(WIDGETS, json=A)).status_code == 201
        assert await server.end(signal.SIGKILL) == -signal.SIGKILL
    assert service.members
    service.held.clear()
    async with example(tmp_path, service.address, "--encode", "v2") as server:
        await server.line("joined")
        path = f"{WIDGETS}/a"
        assert (await server.client.put(path, json=A)).status_code == 503
        service.held.set()
        await server.line("reported")
        assert service.reported[("apiserver-of-server-1", "widgets.example.dev")].endswith("/v2")
        assert (await server.client.put(path, json=A)).status_code == 200
        assert await server.end(signal.SIGINT) == 0
    assert written(tmp_path) == [("server-1", "create", "v1"), ("server-1", "update", "v2")]
    assert service.members == {}


async def test_it_serves_only_the_versions_that_it_reads(
    service: FakeStorageVersions, tmp_path: Path
) -> None:
    upgraded = runpy.run_path(str(EXAMPLE))["Widgets"](
        tmp_path / "widgets.db", "server-2", "v2", ("v1", "v2")
    )
    upgraded.create({"apiVersion": "example.dev/v1", **A}, "v1")
    upgraded.close()
    async with example(tmp_path, service.address, "--decode", "v1") as server:
        groups = (await server.client.get("/apis")).json()["groups"]
        group = (await server.client.get("/apis/example.dev")).json()
        assert groups == [{key: group[key] for key in ("name", "versions", "preferredVersion")}]
        assert [version["version"] for version in group["versions"]] == ["v1"]
        resources = (await server.client.get("/apis/example.dev/v1")).json()["resources"]
        assert resources[0]["kind"] == "Widget"
        # k8s.io/apiserver pkg/endpoints/discovery/storageversionhash.go of example.dev, v1, Widget
        assert len(resources[0]["storageVersionHash"]) == 12
        assert (await server.client.get("/apis/example.dev/v2")).status_code == 404
        answer = await server.client.get(f"{WIDGETS}/a")
        assert answer.status_code == 500
        assert answer.json()["message"] == "a widget is stored as v2, unknown here"


def test_it_must_read_what_it_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--encode", "v2", "--decode", "v1"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE))["arguments"]()
    assert ended.value.code == 2
    assert "--encode v2 is not among what --decode names" in capsys.readouterr().err
