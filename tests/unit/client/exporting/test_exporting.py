"""Exports have the form that Helm and kubeconform read."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apidiscovery_cli.exporting import (
    helm_api_versions,
    kind_schemas,
    kubeconform_schemas,
    schema_location,
)
from apidiscovery_client.model import GroupVersionKind, Stale, Subresource
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import FakeApiServer as DiscoveryServer
from apidiscovery_client.testing import group, resource
from client_snapshots import WHEN, snapshot
from command_line import run
from explained_cluster import discovery, real_documents
from fake_api_server import FakeApiServer, openapi_routes
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # it has no types here
from kubectl_config import config, write

DRAFT7: Any = Draft7Validator
Capture = pytest.CaptureFixture[str]
WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])


# --------------------------------------------------------------------------------------------------
# Helm.


def test_helm_gets_group_versions_with_kinds_also_of_subresources() -> None:
    found = helm_api_versions(release("1.30"))
    assert {"v1", "v1/Pod", "apps/v1", "apps/v1/Deployment"} <= set(found)
    # Kinds of subresources have the version of the resource.
    assert {"v1/Eviction", "v1/TokenRequest", "apps/v1/Scale"} <= set(found)
    assert "policy/v1/Eviction" not in found
    assert found == sorted(set(found))


def test_helm_gets_nothing_of_a_version_that_is_stale() -> None:
    stale = replace(WIDGETS.versions[0], freshness=Stale(WHEN, "no answer"))
    assert helm_api_versions(snapshot(replace(WIDGETS, versions=(stale,)))) == []


def test_helm_gets_a_version_without_resources_but_no_kind_that_is_not_told() -> None:
    orphan = Subresource("status", GroupVersionKind("", "", "Part"), ("get",))
    parts = replace(resource("parts", "", subresources=[orphan]), response_kind=None)
    found = helm_api_versions(snapshot(group("example.com", v1=[parts], v2=[])))
    assert found == ["example.com/v1", "example.com/v1/Part", "example.com/v2"]


def test_command_prints_versions_of_a_release_as_lines_and_flags(capsys: Capture) -> None:
    lines = run(capsys, "export", "helm-api-versions", "kubernetes:1.30").stdout.splitlines()
    assert lines == helm_api_versions(release("1.30"))
    flags = run(capsys, "export", "helm-api-versions", "kubernetes:1.30", "-o", "flags").stdout
    assert flags.splitlines() == [f"--api-versions={line}" for line in lines]


def test_command_asks_the_current_context_without_an_argument(
    capsys: Capture, tmp_path: Path
) -> None:
    with DiscoveryServer([WIDGETS]) as server:
        path = write(tmp_path / "config", config({"server": server.url}))
        found = run(capsys, "export", "helm-api-versions", "--kubeconfig", path)
    assert found.stdout == "example.com/v1\nexample.com/v1/Widget\n"
    assert found.exit_code == 0


def test_command_fails_after_printing_when_a_version_is_not_known(capsys: Capture) -> None:
    with DiscoveryServer([WIDGETS, group("m.example", v1=[resource("ms", "M")])]) as server:
        server.fail("m.example/v1")
        found = run(capsys, "export", "helm-api-versions", server.url)
    assert found.stdout == "example.com/v1\nexample.com/v1/Widget\n"
    assert found.exit_code == 1
    assert "m.example/v1" in found.stderr


def test_missing_file_is_an_error_of_the_command(capsys: Capture) -> None:
    found = run(capsys, "export", "helm-api-versions", "nowhere.json")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "no such file" in found.stderr


def test_command_does_not_take_an_empty_name_for_the_current_context(
    capsys: Capture, tmp_path: Path
) -> None:
    with DiscoveryServer() as server:
        path = write(tmp_path / "config", config({"server": server.url}))
        found = run(capsys, "export", "helm-api-versions", "", "--kubeconfig", path)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("error: '': there is no such file; want a file")


def test_without_a_form_the_forms_are_shown(capsys: Capture) -> None:
    found = run(capsys, "export")
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == run(capsys, "export", "--help").stdout


# --------------------------------------------------------------------------------------------------
# kubeconform.


def rendered(template: str, kind: str, api_version: str) -> Path:
    """Return the file that kubeconform reads: pkg/registry/registry.go `schemaPath`."""
    group_name, _, version = api_version.partition("/")
    suffix = "-" + group_name.partition(".")[0].lower() + (f"-{version.lower()}" * bool(version))
    values = {"ResourceKind": kind.lower(), "KindSuffix": suffix}
    return Path(re.sub(r"{{ \.(\w+) }}", lambda found: values[found[1]], template))


def document(group_name: str, kind: str) -> Mapping[str, Any]:
    """Return an OpenAPI v3 document of one kind."""
    gvk = {"group": group_name, "version": "v1", "kind": kind}
    marked = {"x-kubernetes-group-version-kind": gvk}
    schema = {"type": "object", "x-kubernetes-group-version-kind": [gvk]}
    return {
        "openapi": "3.0.0",
        "paths": {f"/apis/{group_name}/v1/things": {"get": marked}},
        "components": {"schemas": {f"example.{group_name}.{kind}": schema}},
    }


def test_schemas_are_where_kubeconform_looks_for_them(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    recorded = real_documents()
    documents = openapi_routes({key: recorded[key] for key in ("api/v1", "apis/apps/v1")})
    with FakeApiServer({**discovery(), **documents}) as server:
        found = run(capsys, "export", "kubeconform", str(folder), "--server", server.url,
                    "--no-cache")  # fmt: skip
    assert found.exit_code == 0, found.stderr
    location = found.stdout.strip()
    assert location == schema_location(folder)
    assert location.endswith(".json")  # or kubeconform takes it for the root of its own layout
    for kind, api_version in (("Deployment", "apps/v1"), ("Pod", "v1")):
        schema = json.loads(rendered(location, kind, api_version).read_bytes())
        DRAFT7.check_schema(schema)
        assert schema["properties"]["apiVersion"]["enum"] == [api_version]


def test_an_empty_name_is_not_taken_for_the_present_folder(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(capsys, "export", "kubeconform", "", "-s", "http://127.0.0.1:1")
    assert found.exit_code == 2
    assert "the name of FOLDER is empty; " in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_strict_schemas_refuse_fields_that_do_not_exist() -> None:
    source = document("g.example", "Thing")
    (schema,) = source["components"]["schemas"].values()
    schema["properties"] = {"spec": {"type": "string"}}
    for strict in (False, True):
        made = kubeconform_schemas(kind_schemas([("apis/g.example/v1", source)], strict=strict))
        validator = DRAFT7(made.files["thing-g-v1.json"])
        assert validator.is_valid({"other": 1}) is not strict


def test_kinds_whose_groups_begin_alike_are_told() -> None:
    names = ("g.a.example", "g.b.example")
    documents = [(f"apis/{name}/v1", document(name, "Thing")) for name in names]
    made = kubeconform_schemas(kind_schemas(documents))
    assert sorted(made.files) == ["thing-g-v1.json", "thing-g.b.example-v1.json"]
    assert [kind.group for kind in made.hidden] == ["g.b.example"]


def test_kinds_of_other_group_versions_in_a_document_do_not_count() -> None:
    assert not kind_schemas([("apis/other/v1", document("g.example", "Thing"))])


def test_location_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert schema_location(Path("here")).startswith(f"{tmp_path.as_posix()}/here/{{{{ .Resource")
