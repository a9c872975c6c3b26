"""`apidiscovery apply`, `get` and `withdraw` against a real server: what is told is served."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
from command_line import Outcome, run
from media_types import JSON_V2
from programs import kubectl
from raw_http import get, request
from repository import GOLDEN
from server import Server, serving
from waiting import WITHIN_S, eventually

RECORDED = GOLDEN / "crds"
# A second, and longer on a busy machine.

LIST = """\
apiVersion: apidiscovery.k8s.io/v2
kind: APIGroupDiscoveryList
items:
- metadata: {name: GROUP}
  versions:
  - version: v1
    freshness: Current
    resources:
    - resource: things
      responseKind: {group: "", version: "", kind: Thing}
      scope: Cluster
      singularResource: thing
      verbs: [get, list]
"""
API_SERVICE = """\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.remote.example.com}
spec:
  group: remote.example.com
  version: v1
  groupPriorityMinimum: 2000
  versionPriority: 10
  service: {namespace: nowhere, name: remote}
"""
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.machine.example.com}
spec:
  group: machine.example.com
  scope: SCOPE
  names: {plural: gears, kind: Gear, shortNames: [gr]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""

Call: TypeAlias = Callable[..., Outcome]
Capture: TypeAlias = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that knows nothing at first; each test has groups of its own."""
    folder = tmp_path_factory.mktemp("registry")
    with serving(folder, "--catalog", "none", "--store", "memory") as server:
        yield server


@pytest.fixture(name="call")
def fixture_call(
    server: Server, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Return what calls a command in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: run(capsys, *args, "--grpc-server", server.grpc)


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def group_list(name: str) -> str:
    return LIST.replace("GROUP", name)


def groups(server: Server) -> dict[str, Any]:
    """Return what is served of each group, in order."""
    items = cast("list[dict[str, Any]]", get(server.http_port, "/apis", JSON_V2).json()["items"])
    return {item["metadata"]["name"]: item for item in items}


def freshness(server: Server, group: str) -> str:
    """Return that of a group's first version, and nothing for a group that is not there."""
    item = groups(server).get(group)
    return str(item["versions"][0]["freshness"]) if item else ""


def is_served(server: Server, group: str, *, within_s: float = WITHIN_S) -> None:
    eventually(lambda: group in groups(server), f"{group} is served", within_s)


def resources(listed: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in listed["resources"]}


def test_crds_that_are_applied_are_served_as_kubernetes_serves_them(
    server: Server, call: Call, tmp_path: Path
) -> None:
    manifests = gzip.decompress((RECORDED / "manifests" / "cert-manager.yaml.gz").read_bytes())
    (tmp_path / "crds.yaml").write_bytes(manifests)
    applied = call("apply", "-f", "crds.yaml")
    assert (applied.exit_code, applied.stderr) == (0, "")
    prefix = "customresourcedefinition.apiextensions.k8s.io/"
    assert f"{prefix}certificates.cert-manager.io created\n" in applied.stdout
    assert applied.stdout.count(" created\n") == 6

    is_served(server, "cert-manager.io")
    for group in ("cert-manager.io", "acme.cert-manager.io"):
        wanted = json.loads((RECORDED / "groups" / f"{group}__v1.json").read_bytes())
        served = get(server.http_port, f"/apis/{group}/v1").json()
        assert resources(served) == resources(wanted)

    listed = kubectl(tmp_path, "--server", server.url, "api-resources", "-o", "name")
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert "certificates.cert-manager.io" in listed.stdout.split()

    assert call("apply", "-f", "crds.yaml").stdout.count(" unchanged\n") == 6
    there = call("get", "crds", "-o", "name").stdout
    assert f"{prefix}orders.acme.cert-manager.io\n" in there

    gone = call("withdraw", "-f", "crds.yaml")
    assert (gone.exit_code, gone.stderr) == (0, "")
    eventually(lambda: "cert-manager.io" not in groups(server), "the group is gone")


def test_a_definition_of_the_community_has_the_fields_that_kubernetes_fills_in(
    call: Call, tmp_path: Path
) -> None:
    """As kube-apiserver 1.36.2 answers the same manifest."""
    plain = CRD.replace("machine.example.com", "machine.k8s.io").replace("SCOPE", "Cluster")
    annotation = "annotations: {api-approved.kubernetes.io: https://example.com/pull/1}"
    text = plain.replace("gears.machine.k8s.io}", f"gears.machine.k8s.io, {annotation}}}")
    write(tmp_path, "approved.yaml", text)
    assert call("apply", "-f", "approved.yaml").exit_code == 0
    shown = json.loads(call("get", "crds", "gears.machine.k8s.io", "-o", "json").stdout)
    assert shown["spec"]["conversion"] == {"strategy": "None"}
    names = {"kind": "Gear", "listKind": "GearList", "plural": "gears", "singular": "gear"}
    assert shown["spec"]["names"] == names | {"shortNames": ["gr"]}
    approved = shown["status"]["conditions"][0]
    assert approved.pop("lastTransitionTime")
    assert approved == {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "True",
        "reason": "ApprovedAnnotation",
        "message": "approved in https://example.com/pull/1",
    }
    assert call("apply", "-f", "approved.yaml").stdout.endswith(" unchanged\n")


def test_a_definition_whose_names_are_taken_is_named_wherever_one_looks(
    server: Server, call: Call, tmp_path: Path
) -> None:
    text = CRD.replace("machine.example.com", "taken.example.com").replace("SCOPE", "Cluster")
    write(tmp_path, "first.yaml", text)
    write(tmp_path, "second.yaml", text.replace("gears", "wheels"))
    assert call("apply", "-f", "first.yaml").stderr == ""
    applied = call("apply", "-f", "second.yaml")
    name, why = "wheels.taken.example.com", 'ListKindConflict: "GearList" is already in use'
    assert applied.exit_code == 0
    assert applied.stderr == (
        f"warning: customresourcedefinition.apiextensions.k8s.io/{name} is served nowhere: {why}\n"
    )
    line = f"CustomResourceDefinition {name} is served nowhere: {why}"
    assert line in get(server.http_port, "/readyz?verbose").body.decode()
    assert line in server.log().replace("\\", "")
    call("withdraw", "-f", "first.yaml")
    eventually(
        lambda: name not in get(server.http_port, "/readyz?verbose").body.decode(),
        "its names are free",
    )
    assert f"CustomResourceDefinition {name} has its names" in server.log()


def test_the_resources_of_definitions_are_answered_without_go_restful(
    server: Server, call: Call, tmp_path: Path
) -> None:
    """Kubernetes answers these with a handler of their own, which takes more."""
    text = CRD.replace("machine.example.com", "open.example.com").replace("SCOPE", "Cluster")
    write(tmp_path, "open.yaml", text)
    assert call("apply", "-f", "open.yaml").exit_code == 0
    path = "/apis/open.example.com/v1"
    for accept in ("application/*", "*", "application/xml, application/*"):
        answer = get(server.http_port, path, accept)
        assert (answer.status, answer.values("content-type")) == (200, ["application/json"])
    assert get(server.http_port, path, "text/*").status == 406
    assert request(server.http_port, path, [], method="POST").status == 200
    write(tmp_path, "listed.yaml", group_list("listed.example.com"))
    assert call("apply", "-f", "listed.yaml").exit_code == 0
    assert get(server.http_port, "/apis/listed.example.com/v1", "application/*").status == 406


def test_an_api_service_and_a_discovery_list_are_served_with_where_they_come_from(
    server: Server, call: Call, tmp_path: Path
) -> None:
    write(tmp_path, "service.yaml", API_SERVICE)
    write(tmp_path, "shop.yaml", group_list("shop.example.com"))
    applied = call("apply", "-f", "service.yaml", "-f", "shop.yaml")
    assert applied == Outcome(
        0,
        "apiservice.apiregistration.k8s.io/v1.remote.example.com created\ngroups/shop created\n",
        "",
    )
    is_served(server, "shop.example.com")
    is_served(server, "remote.example.com")
    # Nobody has answered for it: no resources, and nothing to be had at its path.
    assert freshness(server, "remote.example.com") == "Stale"
    assert get(server.http_port, "/apis/remote.example.com/v1").status == 503
    names = list(groups(server))
    assert names.index("remote.example.com") < names.index("shop.example.com")

    shown = json.loads(call("get", "sources", "-o", "json").stdout)
    sources = {source["name"]: source for source in shown["sources"]}
    remote = sources["apiservice:v1.remote.example.com"]
    assert remote["address"] == "https://remote.nowhere.svc:443"
    assert remote["state"] != "SOURCE_STATE_CURRENT"
    shop = sources["registrations:groups/shop"]
    assert shop["state"] == "SOURCE_STATE_CURRENT"
    table = call("get", "sources").stdout
    assert table.splitlines()[0].split() == [
        "NAME",
        "STATE",
        "SINCE",
        "GROUP-VERSIONS",
        "SHADOWED",
        "ERROR",
    ]
    assert "shop.example.com/v1" in table
    eventually(
        lambda: "False (FailedDiscoveryCheck)" in call("get", "apiservices").stdout,
        "the APIService is not available",
    )

    assert call("withdraw", "-f", "service.yaml", "-f", "shop.yaml").exit_code == 0
    eventually(
        lambda: not {"remote.example.com", "shop.example.com"} & set(groups(server)),
        "both are gone",
    )


def test_what_is_wrong_is_named_with_file_line_and_field_and_nothing_is_taken(
    server: Server, call: Call, tmp_path: Path
) -> None:
    good, bad = group_list("fine.example.com"), CRD.replace("SCOPE", "Galaxy")
    write(tmp_path, "bad.yaml", f"{good}---\n{bad}")
    refused = call("apply", "-f", "bad.yaml")
    assert (refused.exit_code, refused.stdout) == (1, "")
    line = f"{good}---\n{bad}".splitlines().index("  scope: Galaxy") + 1
    assert refused.stderr.startswith(f"error: bad.yaml:{line}, document 2, spec.scope: ")
    assert "Galaxy" in refused.stderr
    assert not {"fine.example.com", "machine.example.com"} & set(groups(server))


def test_an_unexpected_revision_is_a_conflict(server: Server, call: Call, tmp_path: Path) -> None:
    crd = CRD.replace("SCOPE", "Namespaced")
    write(tmp_path, "gear.yaml", crd)
    assert call("apply", "-f", "gear.yaml", "--expect-revision", "0").exit_code == 0
    write(tmp_path, "gear.yaml", crd.replace("[gr]", "[cog]"))
    refused = call("apply", "-f", "gear.yaml", "--expect-revision", "0")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error from server (Conflict): ")

    shown = json.loads(call("get", "crd", "gears.machine.example.com", "-o", "json").stdout)
    assert shown["spec"]["names"]["shortNames"] == ["gr"]
    revision = shown["metadata"]["resourceVersion"]
    assert call("apply", "-f", "gear.yaml", "--expect-revision", revision).exit_code == 0
    eventually(lambda: short_names(server) == ["cog"], "the new name is served")


def short_names(server: Server) -> list[str]:
    (version,) = groups(server)["machine.example.com"]["versions"]
    (resource,) = version["resources"]
    return cast("list[str]", resource["shortNames"])


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    server: Server, call: Call, tmp_path: Path
) -> None:
    write(tmp_path, "dry.yaml", group_list("dry.example.com"))
    etag = get(server.http_port, "/apis", JSON_V2).etag
    assert call("apply", "-f", "dry.yaml", "--dry-run") == Outcome(
        0, "groups/dry created (server dry run)\n", ""
    )
    assert call("get", "groups", "dry").exit_code == 1
    assert get(server.http_port, "/apis", JSON_V2).etag == etag


def test_what_an_owner_registered_is_stale_when_it_is_silent_and_then_gone(
    server: Server, call: Call, tmp_path: Path
) -> None:
    group = "leased.example.com"
    write(tmp_path, "leased.yaml", group_list(group))
    lease = ("--owner", "silent.example.com", "--lease", "3s", "--removal-after", "3s")
    began = time.monotonic()
    assert call("apply", "-f", "leased.yaml", *lease).exit_code == 0
    seen: list[str] = []

    def is_gone() -> bool:
        now = freshness(server, group)
        if not seen or seen[-1] != now:
            seen.append(now)
        return seen[-2:] == ["Stale", ""]

    eventually(is_gone, "Stale and then gone")
    assert seen == ["Current", "Stale", ""]
    assert time.monotonic() - began > 6
    assert call("get", "groups", "leased").exit_code == 1
