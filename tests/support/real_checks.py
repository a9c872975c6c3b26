"""Checks of the command line, conformance and mirrors with a real API server of any release.

Each file of tests has a fixture `release` and a subclass of `ReleaseChecks`, so each server starts
once, also when files run in different processes.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from media_types import aggregated_type
from programs import apidiscovery
from real_cluster import TABLES, Answer, RealCluster, get
from server import Server
from waiting import eventually

OK = 200
# Equal to kubectl 1.32 and later; older servers may be tested with an older kubectl.
EXPLAINED = (
    "explain pods.spec.containers",
    "explain deployments --recursive",
    "explain widgets.size",
)
_HAS_ALL_WITHIN_S = 30


class ReleaseChecks:
    """Checks with a server of the release of the file."""

    @pytest.mark.parametrize("command", [*TABLES, *EXPLAINED])
    def test_it_prints_what_kubectl_prints(self, cluster: RealCluster, command: str) -> None:
        if command in EXPLAINED and cluster.release < "1.31":
            pytest.skip("kubectl explains differently before 1.32")
        theirs, ours = cluster.kubectl(*command.split()), cluster.apidiscovery(*command.split())
        assert (ours.exit_code, ours.stdout) == (theirs.exit_code, theirs.stdout)

    def test_it_conforms_though_names_are_taken(self, cluster: RealCluster) -> None:
        done = cluster.apidiscovery("conformance", "-o", "json")
        report = json.loads(done.stdout)
        assert [one for one in report["checks"] if one["outcome"] == "fail"] == []
        assert done.exit_code == 0

    @pytest.mark.parametrize("path", ["/api", "/apis"])
    def test_the_mirror_has_its_aggregated_documents(
        self, cluster: RealCluster, mirror: Server, path: str
    ) -> None:
        versions = [version for version in ("v2", "v2beta1") if has_aggregated(cluster, version)]
        if not versions:
            pytest.skip(f"{cluster.release} has no aggregated discovery")
        for version in versions:
            accept = aggregated_type(version)
            theirs = cluster.get(path, accept)
            same_soon(mirror, path, accept, theirs)
            ours = get(mirror.url + path, accept)
            # Releases before 1.34 write a time of creation that is null, which no client reads. A
            # mirror leaves it out on purpose: it has one form for upstreams of all releases.
            if b'"creationTimestamp":null' not in theirs.body:
                assert ours.body == theirs.body
                assert ours.headers["etag"] == theirs.headers["etag"]

    def test_the_mirror_has_its_groups_in_its_order(
        self, cluster: RealCluster, mirror: Server
    ) -> None:
        theirs = cluster.get("/apis").json()
        if has_aggregated(cluster, "v2") or has_aggregated(cluster, "v2beta1"):
            # Names that are taken are listed there, answer 404, and are not aggregated.
            served = set(versions_of(cluster))
            for group in theirs["groups"]:
                group["versions"] = [
                    v for v in group["versions"] if f"/apis/{v['groupVersion']}" in served
                ]
                group["preferredVersion"] = group["versions"][0]
        eventually(
            lambda: (
                without_addresses(get(f"{mirror.url}/apis", "application/json").json())
                == without_addresses(theirs)
            ),
            "the list of groups is that of the cluster",
            _HAS_ALL_WITHIN_S,
        )

    def test_the_mirror_has_its_resources_to_the_byte(
        self, cluster: RealCluster, mirror: Server
    ) -> None:
        for path in versions_of(cluster):
            theirs = cluster.get(path)
            same_soon(mirror, path, "application/json", theirs)
            assert (path, get(mirror.url + path, "application/json").body) == (path, theirs.body)

    def test_the_mirror_has_all_its_documents_to_the_byte(
        self, cluster: RealCluster, mirror: Server
    ) -> None:
        paths = cluster.get("/openapi/v3").json()["paths"]
        assert len(paths) > 30
        wanted = {
            name: cluster.get(one["serverRelativeURL"]).body
            for name, one in paths.items()
            if is_mirrored(cluster, name)
        }

        def are_there() -> bool:  # a document is generated until that of the cluster has been read
            for name, body in list(wanted.items()):
                if get(f"{mirror.url}/openapi/v3/{name}", "application/json").body != body:
                    return False
                del wanted[name]
            return True

        eventually(are_there, f"the documents {list(wanted)} are the cluster's", _HAS_ALL_WITHIN_S)
        ours = get(f"{mirror.url}/openapi/v3", "application/json").json()["paths"]
        assert {name for name in paths if is_mirrored(cluster, name)} - ours.keys() == set()

    def test_the_mirror_is_current(
        self, cluster: RealCluster, mirror: Server, tmp_path: Path
    ) -> None:
        """Also where a version is listed that answers 404."""
        path = versions_of(cluster)[-1]
        same_soon(mirror, path, "application/json", cluster.get(path))
        told = apidiscovery(tmp_path, mirror.grpc, "get", "sources", "-o", "json").stdout
        states = {one["name"]: one["state"] for one in json.loads(told)["sources"]}
        assert states["upstream:kubeconfig"] == "SOURCE_STATE_CURRENT"


def is_mirrored(cluster: RealCluster, name: str) -> bool:
    """Tell whether a document is of a served version, not of a definition with taken names."""
    return not name.startswith("apis/example.com/") or cluster.has(f"/{name}")


def same_soon(mirror: Server, path: str, accept: str, theirs: Answer) -> None:
    """Wait until a document of the mirror equals that of the cluster, order included."""
    eventually(
        partial(_is_same, mirror, path, accept, theirs),
        f"{path} says what that of the cluster says",
        _HAS_ALL_WITHIN_S,
    )


def _is_same(mirror: Server, path: str, accept: str, theirs: Answer) -> bool:
    ours = get(mirror.url + path, accept)
    return ours.status == OK and in_order(ours.json()) == in_order(theirs.json())


def in_order(document: dict[str, Any]) -> str:
    """Return a document as text, in which the order of fields counts."""
    for item in document.get("items", ()):
        item["metadata"].pop("creationTimestamp", None)
    return json.dumps(document)


def without_addresses(value: dict[str, Any]) -> str:
    """Return an unaggregated document without addresses, as text with the order of fields."""
    return json.dumps({k: v for k, v in value.items() if k != "serverAddressByClientCIDRs"})


def versions_of(cluster: RealCluster) -> list[str]:
    """Return the paths of the group-versions that answer."""
    groups = cluster.get("/apis").json()["groups"]
    found = ["/api/v1", *(f"/apis/{v['groupVersion']}" for g in groups for v in g["versions"])]
    return [path for path in found if cluster.has(path)]


def has_aggregated(cluster: RealCluster, version: str) -> bool:
    """Tell whether a server has aggregated discovery of a version."""
    accept = f"{aggregated_type(version)},*/*"
    return f"v={version}" in cluster.get("/apis", accept).headers["content-type"]
