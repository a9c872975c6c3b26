"""A kube-apiserver 1.36 with real definitions: its schemas, and what it says of manifests."""

import gzip
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import yaml
from apidiscovery_cli.main import main
from apidiscovery_client import DiscoveryClient
from apidiscovery_client._connecting import open_blocking
from apidiscovery_client._interfaces import Transport
from apidiscovery_client.checking import Finding, Severity, check
from apidiscovery_client.manifests import read_manifests
from apidiscovery_client.model import Snapshot
from apidiscovery_client.schemas import (
    ServedSchemas,
    compare_sources,
    schemas_of_manifests,
)
from checked_manifests import Json, built_in, changed, custom
from command_line import run
from real_cluster import RealCluster, running
from repository import GOLDEN
from schema_samples import DEFINITIONS
from waiting import eventually

WITH = ("cert-manager", "gateway-api")

# How the server begins to refuse what does not fit its types.
_BY_DECODING = ("unknown field", "cannot unmarshal", "cannot be handled as")


def manifest(name: str) -> bytes:
    """Return the manifests of a project as it releases them."""
    return gzip.decompress((GOLDEN / "crds" / "manifests" / f"{name}.yaml.gz").read_bytes())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Return a server with the definitions of cert-manager and gateway-api."""
    documents = [
        one
        for name in WITH
        for one in yaml.load_all(manifest(name), yaml.CSafeLoader)
        if one and one["kind"] == "CustomResourceDefinition"
    ]
    with running("1.36", tmp_path_factory.mktemp("real")) as cluster:
        for one in documents:
            cluster.create(one)
        for one in documents:
            for version in one["spec"]["versions"]:
                if version["served"]:
                    published = partial(_is_published, cluster, one["spec"], version["name"])
                    eventually(published, f"{one['metadata']['name']} {version['name']}", 60)
        yield cluster


def _is_published(cluster: RealCluster, spec: Json, version: str) -> bool:
    """Tell whether the kind is in discovery and in the document, which follow one by one."""
    path = f"/apis/{spec['group']}/{version}"
    answers = cluster.get(path), cluster.get(f"/openapi/v3{path}")
    kind = f'"kind":"{spec["names"]["kind"]}"'.encode()
    return all(kind in answer.body.replace(b" ", b"") for answer in answers)


@pytest.fixture
def transport(cluster: RealCluster) -> Iterator[Transport]:
    with closing(open_blocking(kubeconfig=str(cluster.kubeconfig)).transport) as found:
        yield found


class _WithoutDefinitions:
    """A transport of a caller who may not list definitions."""

    def __init__(self, transport: Transport) -> None:
        self.server = transport.server
        self._transport = transport

    def get(self, path: str, accept: str) -> object:
        asked = path.replace(DEFINITIONS, "/apis/nothing.example/v1/definitions")
        return self._transport.get(asked, accept)  # type: ignore[attr-defined] # one over HTTP


@pytest.mark.parametrize("name", WITH)
def test_a_file_is_what_the_server_serves_by_definitions_and_by_documents(
    transport: Transport, name: str
) -> None:
    file = schemas_of_manifests(read_manifests(manifest(name), name), name)
    defined = ServedSchemas(transport, "definitions")
    documented = ServedSchemas(_WithoutDefinitions(transport), "documents")  # type: ignore[arg-type]
    assert len(defined.definitions) > len(file.definitions)
    assert documented.definitions == {}
    for source in (defined, documented):
        for old, new in ((file, source), (source, file)):
            found = compare_sources(old, new)
            assert (found.changes, dict(found.failures)) == ((), {})
    assert compare_sources(defined, documented).changes == ()


def test_a_release_is_what_the_server_serves(
    cluster: RealCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--kubeconfig", str(cluster.kubeconfig))
    context = yaml.safe_load(cluster.kubeconfig.read_text())["current-context"]
    saved = str(tmp_path / "saved.json")
    assert main(["snapshot", "save", "--schemas", saved, *flags]) == 0
    for sides in (("kubernetes:1.36", f"context:{context}"), (saved, f"context:{context}")):
        found = run(capsys, "diff", "--fields", *sides, *flags)
        assert (found.exit_code, found.stderr) == (0, ""), found.stdout
        assert "no differences" in found.stdout


# --------------------------------------------------------------------------------------------------
# Manifests.


class _Server:
    """Asks the server to create objects without doing so, as strictly as kubectl does."""

    def __init__(self, cluster: RealCluster, snapshot: Snapshot) -> None:
        trust = ssl.create_default_context(cafile=cluster.ca_file)
        address = cluster.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, context=trust, timeout=60)
        self._headers = {
            "Authorization": f"Bearer {cluster.token}",
            "Content-Type": "application/json",
        }
        self._resources = {
            (str(version.gv), resource.kind): resource
            for version in snapshot.versions
            for resource in version.resources
        }

    def refusal(self, one: Mapping[str, Json]) -> str:
        """Return why an object is refused; empty where it is taken."""
        found = self._resources[one["apiVersion"], one["kind"]]
        place = "/namespaces/default" if found.scope == "Namespaced" else ""
        path = f"{found.gv.path}{place}/{found.name}?dryRun=All&fieldValidation=Strict"
        self._connection.request("POST", path, json.dumps(one), self._headers)
        with self._connection.getresponse() as answer:
            told = json.loads(answer.read())
            return "" if answer.status < 400 else str(told["message"])

    def close(self) -> None:
        self._connection.close()


def _cases(wholes: Sequence[Json]) -> list[tuple[str, Json]]:
    return [
        (f"{whole['kind']} {what}", one)
        for whole in wholes
        for what, one in (("as it is", whole), *changed(whole))
    ]


def _compared(
    cluster: RealCluster, transport: Transport, wholes: Sequence[Json]
) -> Iterator[tuple[str, list[Finding], str]]:
    """Yield each case with what `check` finds in it, and why the server refuses it."""
    cases = _cases(wholes)
    snapshot = DiscoveryClient(transport).refresh()
    given = [
        manifest
        for number, (_, one) in enumerate(cases)
        for manifest in read_manifests(json.dumps(one).encode(), str(number))
    ]
    found = check(given, snapshot, ServedSchemas(transport, "server"))
    assert dict(found.unchecked) == {}
    by_case = dict[str, list[Finding]]()
    for finding in found.findings:
        by_case.setdefault(finding.path, []).append(finding)
    with closing(_Server(cluster, snapshot)) as server:
        for number, (what, one) in enumerate(cases):
            yield what, by_case.get(str(number), []), server.refusal(one)


def _has(findings: Sequence[Finding], severity: Severity) -> bool:
    return any(one.severity == severity for one in findings)


def test_of_custom_resources_errors_are_what_the_server_refuses(
    cluster: RealCluster, transport: Transport
) -> None:
    wrong = list[tuple[str, list[Finding], str]]()
    decided = 0
    for what, findings, refusal in _compared(cluster, transport, custom()):
        is_error = _has(findings, Severity.ERROR)
        if not is_error and _has(findings, Severity.UNDECIDED):
            continue
        decided += 1
        if is_error != bool(refusal):
            wrong.append((what, findings, refusal))
    assert wrong == []
    assert decided > 400


def test_of_built_in_kinds_no_error_is_false_and_no_schema_is_missed(
    cluster: RealCluster, transport: Transport
) -> None:
    """What only Go code of the server validates is in no schema, and is not looked for."""
    false, missed = list[tuple[str, list[Finding]]](), list[tuple[str, str]]()
    for what, findings, refusal in _compared(cluster, transport, built_in()):
        if what == "Secret data.a is []":
            continue  # to Go's decoder an empty array is an empty text in base64
        is_error = _has(findings, Severity.ERROR)
        if is_error and not refusal:
            false.append((what, findings))
        if refusal and not is_error and any(text in refusal for text in _BY_DECODING):
            missed.append((what, refusal))
    assert (false, missed) == ([], [])


def test_lists_of_built_in_kinds_are_unique_for_server_side_apply_alone(
    cluster: RealCluster, tmp_path: Path
) -> None:
    file = tmp_path / "account.json"
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "twice", "namespace": "default"},
        "secrets": [{"name": "x"}, {"name": "x"}],  # a list of type map by name
    }
    file.write_text(json.dumps(account))
    created = cluster.kubectl("create", "-f", str(file))
    assert created.exit_code == 0, created.stderr
    applied = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    assert applied.exit_code != 0
    assert 'duplicate entries for key [name="x"]' in applied.stderr
