"""The commands against the service itself: `apply` accepts the output of others."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_service.sources.registrations.record import Object
from command_line import Outcome, run
from registry_server import Served, serving

Capture = pytest.CaptureFixture[str]

LIST = """\
apiVersion: apidiscovery.k8s.io/v2
kind: APIGroupDiscoveryList
items:
- metadata: {name: NAME.example.com}
  versions:
  - version: v1
    freshness: Current
    resources:
    - {resource: widgets, scope: Namespaced, verbs: [get, list], responseKind: {kind: Widget}}
"""


async def call(capsys: Capture, served: Served, *args: str) -> Outcome:
    arguments = (*args, "--grpc-server", served.target)
    return await asyncio.to_thread(run, capsys, *arguments)


async def printed(capsys: Capture, served: Served) -> list[Object]:
    outcome = await call(capsys, served, "get", "groups", "-o", "json")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    listed = as_object(cast("object", json.loads(outcome.stdout)))
    return [as_object(item) for item in as_list(listed["items"])]


async def test_printed_discovery_lists_can_be_applied_again(
    capsys: Capture, tmp_path: Path
) -> None:
    for name in ("east", "west"):
        (tmp_path / f"{name}.yaml").write_text(LIST.replace("NAME", name))
    async with serving() as served:
        applied = await call(capsys, served, "apply", "-f", str(tmp_path))
        assert applied == Outcome(0, "groups/east created\ngroups/west created\n", "")
        before = await call(capsys, served, "get", "groups", "-o", "yaml")
        saved = tmp_path / "saved.yaml"
        saved.write_text(before.stdout)
        args = ("apply", "-f", str(saved))
        again = await call(capsys, served, *args)
        assert again == Outcome(0, "groups/east unchanged\ngroups/west unchanged\n", "")
        saved.write_text(before.stdout.replace("resource: widgets", "resource: gears"))
        changed = await call(capsys, served, *args)
        assert changed == Outcome(0, "groups/east configured\ngroups/west configured\n", "")
        items = await printed(capsys, served)
        assert [as_object(item["metadata"])["name"] for item in items] == ["east", "west"]
        assert "widgets" not in json.dumps(items)
        saved.write_text(before.stdout)
        late = await call(capsys, served, *args)
        assert (late.exit_code, late.stdout) == (1, "")
        assert "(Conflict)" in late.stderr


async def test_a_list_is_withdrawn_by_its_own_name(capsys: Capture, tmp_path: Path) -> None:
    saved = tmp_path / "saved.yaml"
    saved.write_text(f"{LIST}metadata: {{name: north}}\n---\n{LIST.replace('NAME', 'b')}")
    saved.write_text(saved.read_text().replace("NAME", "a"))
    async with serving() as served:
        applied = await call(capsys, served, "apply", "-f", str(saved))
        assert applied == Outcome(0, "groups/north created\ngroups/north-2 created\n", "")
        withdrawn = await call(capsys, served, "withdraw", "-f", str(saved))
        assert (withdrawn.exit_code, withdrawn.stderr) == (0, "")
        assert await printed(capsys, served) == []


async def test_a_list_with_a_name_cannot_be_given_another(capsys: Capture, tmp_path: Path) -> None:
    saved = tmp_path / "saved.yaml"
    saved.write_text(LIST.replace("NAME", "a") + "metadata: {name: north}\n")
    async with serving() as served:
        refused = await call(capsys, served, "apply", "-f", str(saved), "--name", "south")
        wanted = f'error: the list in {saved} has the name "north", not "south"\n'
        assert refused == Outcome(1, "", wanted)
        same = await call(capsys, served, "apply", "-f", str(saved), "--name", "north")
        assert same == Outcome(0, "groups/north created\n", "")
