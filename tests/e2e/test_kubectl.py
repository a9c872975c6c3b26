"""kubectl, as it is, takes this server for a Kubernetes API server.

On a server of another minor version kubectl says so on standard error, and some builds of it ask
`/version` first to choose a binary; neither is looked at here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from apidiscovery_releases import newest
from command_line import Outcome
from metrics_text import requests
from programs import Kubectl
from raw_http import get
from server import Server


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource of a group-version.

    Attributes:
        preferred: Whether no version that its group prefers has it.
    """

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    preferred: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}".lstrip("/")


def entries() -> Iterator[Entry]:
    """Yield each resource of each group-version, in document order."""
    for path in ("/api", "/apis"):
        document: dict[str, Any] = json.loads(newest().aggregated(path))
        for item in document["items"]:
            seen: set[str] = set()
            for version in item["versions"]:
                for resource in version["resources"]:
                    plural = resource["resource"]
                    yield Entry(
                        item["metadata"].get("name", ""),
                        version["version"],
                        plural,
                        resource["responseKind"]["kind"],
                        resource["scope"] == "Namespaced",
                        tuple(resource["verbs"]),
                        tuple(resource.get("shortNames", ())),
                        tuple(resource.get("categories", ())),
                        plural not in seen,
                    )
                    seen.add(plural)


def api_versions() -> list[str]:
    """Return every group-version, sorted."""
    return sorted({entry.api_version for entry in entries()})


PREFERRED = sorted(
    (entry for entry in entries() if entry.preferred), key=lambda entry: (entry.group, entry.name)
)
AGGREGATED = ("/api", "/apis")


@pytest.fixture
def kubectl(kubectl: Kubectl) -> Kubectl:
    def run(server: Server, *args: str, cache: str = "cache") -> Outcome:
        return kubectl(server.url, cache, *args)

    return run


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table by the names of its columns."""
    header, *lines = text.splitlines()
    names = header.split()
    starts = [header.index(name) for name in names]
    ends = [*starts[1:], None]
    return [
        {
            name: line[start:end].strip()
            for name, start, end in zip(names, starts, ends, strict=True)
        }
        for line in lines
    ]


def row(entry: Entry, *, wide: bool = False) -> dict[str, str]:
    columns = {
        "NAME": entry.name,
        "SHORTNAMES": ",".join(entry.short_names),
        "APIVERSION": entry.api_version,
        "NAMESPACED": str(entry.namespaced).lower(),
        "KIND": entry.kind,
    }
    if wide:
        columns["VERBS"] = ",".join(sorted(entry.verbs))
        columns["CATEGORIES"] = ",".join(entry.categories)
    return columns


@pytest.fixture(params=["server", "no_beta_server", "old_server"])
def any_server(request: pytest.FixtureRequest) -> Server:
    """Return each kind of server: with v2beta1, without, and without aggregated discovery."""
    chosen = request.getfixturevalue(str(request.param))
    assert isinstance(chosen, Server)
    return chosen


def test_the_catalogue_is_worth_testing() -> None:
    assert len(PREFERRED) > 60
    assert {"v1", "apps/v1", "autoscaling/v2"} <= set(api_versions())


def test_api_resources_wide(any_server: Server, kubectl: Kubectl) -> None:
    """Every resource of the catalogue is listed, in its preferred version."""
    done = kubectl(any_server, "api-resources", "-o", "wide")
    assert done.exit_code == 0, done.stderr
    assert table(done.stdout) == [row(entry, wide=True) for entry in PREFERRED]


def test_api_resources_names(server: Server, kubectl: Kubectl) -> None:
    done = kubectl(server, "api-resources", "-o", "name")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{entry.name}.{entry.group}".rstrip(".") for entry in PREFERRED
    ]


def test_api_versions(any_server: Server, kubectl: Kubectl) -> None:
    done = kubectl(any_server, "api-versions")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == api_versions()


@pytest.mark.parametrize("path", ["/apis", "/apis/apps/v1"])
def test_get_raw(server: Server, kubectl: Kubectl, path: str) -> None:
    done = kubectl(server, "get", "--raw", path)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.encode() == get(server.http_port, path).body


def test_two_requests_fill_the_cache_and_later_calls_are_answered_with_304_alone(
    server: Server, kubectl: Kubectl
) -> None:
    """api-resources forgets the discovery cache (6 h), but revalidates the HTTP cache below it."""

    def answered(code: str) -> list[float]:
        return [requests(server.http_port, endpoint=path, code=code) for path in AGGREGATED]

    empty = [answered("200"), answered("304")]
    first = kubectl(server, "api-resources", "-v=8")
    asked = [line.split("GET ", 1)[1] for line in first.stderr.splitlines() if "] GET " in line]
    asked = [url for url in asked if "/version" not in url]
    assert asked == [f"{server.url}{path}?timeout=32s" for path in AGGREGATED]
    assert [answered("200"), answered("304")] == [[n + 1 for n in empty[0]], empty[1]]
    second = kubectl(server, "api-resources")
    third = kubectl(server, "api-versions")
    assert [answered("200"), answered("304")] == [
        [n + 1 for n in empty[0]],
        [n + 2 for n in empty[1]],
    ]
    assert first.stdout == second.stdout
    assert third.stdout.splitlines() == api_versions()


def test_without_aggregated_discovery_each_group_version_is_asked(
    old_server: Server, kubectl: Kubectl
) -> None:
    log = kubectl(old_server, "api-resources", "-v=8").stderr
    asked = {line.split("GET ", 1)[1] for line in log.splitlines() if "] GET " in line}
    paths = {f"/apis/{name}" if "/" in name else f"/api/{name}" for name in api_versions()}
    assert {f"{old_server.url}{path}?timeout=32s" for path in paths} <= asked


def test_a_change_of_sources_is_seen_through_the_cache(
    server: Server, old_server: Server, kubectl: Kubectl
) -> None:
    """The same cache folder for two servers: each is cached for itself."""
    for one in (server, old_server, server):
        assert table(kubectl(one, "api-resources").stdout) == [row(entry) for entry in PREFERRED]


def test_version(server: Server, kubectl: Kubectl) -> None:
    done = kubectl(server, "version", "-o", "json")
    assert done.exit_code == 0, done.stderr
    served = get(server.http_port, "/version").json()
    told = json.loads(done.stdout)["serverVersion"]
    assert told == {name: served[name] for name in told}
    # Others came after the oldest kubectl that is tried.
    assert told.keys() >= {"major", "minor", "gitVersion", "goVersion", "platform"}


@pytest.mark.parametrize("resource", ["deploy", "statefulset.apps", "all"])
def test_objects_are_not_found_and_said_so(server: Server, kubectl: Kubectl, resource: str) -> None:
    """The name is resolved by discovery; that nothing is behind it is an error of its own."""
    done = kubectl(server, "get", resource)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Error from server (NotFound)" in done.stderr
    assert "the server could not find the requested resource" in done.stderr
    assert "this server does discovery only and has no objects" in done.stderr


def test_a_resource_that_is_unknown_is_named(server: Server, kubectl: Kubectl) -> None:
    done = kubectl(server, "get", "nopes")
    assert (done.exit_code, done.stdout) == (1, "")
    assert 'the server doesn\'t have a resource type "nopes"' in done.stderr
