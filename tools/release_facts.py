"""Generate `apidiscovery_releases/releases.json`: the APIs that each release of Kubernetes serves.

- From client-go's generated clients at the tag of each release: group-versions, resources, kinds,
  scopes, verbs, and the subresource `status`.
- From k8s.io/api: the release that no longer serves a version of a kind.
- From the discovery documents in tests/golden: short names and categories, those of 1.15 up to
  that release, those of the newest release after it.
- By hand (`_release_tables.py`): resources without a typed client, other subresources, and the
  order of groups.
- Inferred: what is on by default. General availability is, alpha is not, and beta is if its
  resource was in beta before 1.24 (KEP-3136).

Usage:  python tools/release_facts.py CLIENT_GO_REPOSITORY API_REPOSITORY OUTPUT
"""

import io
import json
import re
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

from _release_tables import (
    ALL_VERBS,
    BELOW,
    DELETES_SERVICES_FROM,
    EXTRAS,
    GROUPS,
    ITEM_VERBS,
    NEWEST,
    NO_RESOURCES,
    NO_STATUS,
    OLDEST,
    OTHER_VERBS,
    PRIORITIES,
    REMOVED,
    SHORT_NAMES,
    VERSION_ORDER,
)
from apidiscovery_formats.version_order import kube_aware_key

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
OLD_CLUSTER = "kubernetes-v1.15.0"
OLD_CLUSTER_IS = 15
BETA_IS_OFF_FROM = 24

_TIGHT = (",", ":")

_CLIENT = re.compile(r"kubernetes/typed/(\w+)/(v\w+)/(\w+)\.go")
_LIFECYCLE = re.compile(r"(\w+)/(v\w+)/zz_generated\.prerelease-lifecycle\.go")
_GETTER = re.compile(r"type \w+Getter interface {\s+\w+\((.*?)\) (\w+)Interface\s+}")
_PLURAL = re.compile(r'Resource\("(\w+)"\)|gentype\.New\w+\[.*?\]\(\s+"(\w+)"', re.DOTALL)
_METHOD = re.compile(r"^\t([A-Z]\w*)\(", re.MULTILINE)
_REMOVED = re.compile(r"in \*(\w+)\) APILifecycleRemoved\(\).*?return 1, (\d+)", re.DOTALL)
_VERBS = {
    "Create": "create",
    "Delete": "delete",
    "DeleteCollection": "deletecollection",
    "Get": "get",
    "List": "list",
    "Patch": "patch",
    "Update": "update",
    "Watch": "watch",
}
_ONLY_CREATED = ("create",)  # resources whose `Create` was written by hand before 1.18


class Place(NamedTuple):
    """Names a resource of a group-version."""

    group: str
    version: str
    name: str


class Names(NamedTuple):
    """Short names and categories of a resource."""

    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


NAMELESS = Names()


@dataclass(frozen=True)
class Fact:
    """A resource as one release serves it; equal in all releases of a range.

    Attributes:
        below: Name, kind and verbs of each subresource.
    """

    kind: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    below: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    names: Names = NAMELESS


Facts = dict[Place, dict[int, Fact]]
Named = Mapping[tuple[str, str], Names]


def main(client_go: Path, api: Path, output: Path) -> None:
    """Write the facts to `output`, and print their size."""
    ends = removals(api)
    named = [of_documents(old_cluster()), of_documents(newest())]
    facts: Facts = defaultdict(dict)
    for release in range(OLDEST, NEWEST + 1):
        for place, fact in (*served(client_go, release), *without_client(release)):
            if release < ends.get((place.group, place.version, fact.kind), NEWEST + 1):
                known = named if release <= OLD_CLUSTER_IS else named[::-1]
                facts[place][release] = completed(place, fact, release, known)
    text = written(facts)
    output.write_text(text)
    print(f"{output}: {len(facts)} resources, {len(text)} bytes")


# --------------------------------------------------------------------------------------------------
# The repositories.


def files(repository: Path, release: int, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of the files that match a glob at the tag of a release."""
    tag = f"kubernetes-1.{release}.0"
    command = ["git", "-C", str(repository), "archive", tag, f":(glob){pattern}"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content:
                yield member.name, content.read().decode()


def served(client_go: Path, release: int) -> Iterator[tuple[Place, Fact]]:
    """Yield each resource that has a typed client."""
    texts = dict(files(client_go, release, "kubernetes/typed/*/*/*.go"))
    for path, text in texts.items():
        named = _CLIENT.fullmatch(path)
        getter = _GETTER.search(text)
        if not (named and getter):
            continue
        by_hand = texts.get(path.removesuffix(".go") + "_expansion.go", "")
        kind = getter[2]
        plural = _PLURAL.search(text) or _PLURAL.search(by_hand)
        name = (plural[1] or plural[2]) if plural else ""
        place = Place(group_of(named[1]), named[2], name)
        if name and (place.group, name) not in NO_RESOURCES:
            yield place, fact_of(place, text, kind, is_namespaced=bool(getter[1]))


def fact_of(place: Place, text: str, kind: str, *, is_namespaced: bool) -> Fact:
    methods = interface_of(text, kind)
    verbs = tuple(sorted(verb for method, verb in _VERBS.items() if method in methods))
    has_status = "UpdateStatus" in methods and place not in NO_STATUS
    below = (("status", kind, ITEM_VERBS),) if has_status else ()
    return Fact(kind, is_namespaced, verbs or _ONLY_CREATED, below)


def interface_of(text: str, kind: str) -> set[str]:
    """Return the names of the methods of the interface of a kind's client."""
    _, _, rest = text.partition(f"type {kind}Interface interface {{")
    return set(_METHOD.findall(rest.partition("\n}")[0]))


def group_of(folder: str) -> str:
    return GROUPS.get(folder, f"{folder}.k8s.io")


def removals(api: Path) -> dict[tuple[str, str, str], int]:
    """Return the first release without a version of a kind, as the newest release states it."""
    found: dict[tuple[str, str, str], int] = {}
    for release in range(19, NEWEST + 1):
        for path, text in files(api, release, "*/*/zz_generated.prerelease-lifecycle.go"):
            if named := _LIFECYCLE.fullmatch(path):
                for kind, minor in _REMOVED.findall(text):
                    found[group_of(named[1]), named[2], kind] = int(minor)
    return found | REMOVED


def without_client(release: int) -> Iterator[tuple[Place, Fact]]:
    for extra in EXTRAS:
        if extra.releases[0] <= release <= extra.releases[1]:
            place = Place(extra.group, extra.version, extra.name)
            yield place, Fact(extra.kind, extra.is_namespaced, extra.verbs)


def completed(place: Place, fact: Fact, release: int, known: Iterable[Named]) -> Fact:
    """Return the fact with the data written by hand, and with the names of the first match."""
    by_hand = (
        (one.name, one.kind, one.verbs)
        for one in BELOW
        if (one.group, one.version, one.resource) == place
        and one.releases[0] <= release <= one.releases[1]
    )
    verbs = OTHER_VERBS.get((place.group, place.name), fact.verbs)
    if (place.group, place.name) == ("", "services") and release >= DELETES_SERVICES_FROM:
        verbs = ALL_VERBS
    below = tuple(sorted({*fact.below, *by_hand}))
    return replace(fact, verbs=verbs, below=below, names=names_of(place, known))


# --------------------------------------------------------------------------------------------------
# Short names and categories.


def of_documents(told: Iterable[tuple[str, Mapping[str, object], str]]) -> Named:
    """Return the names of resources by group and plural."""
    return {
        (group, name): Names(
            tuple(cast("list[str]", resource.get("shortNames") or ())),
            tuple(cast("list[str]", resource.get("categories") or ())),
        )
        for group, resource, name in told
    }


def newest() -> Iterator[tuple[str, Mapping[str, object], str]]:
    for path in ("api.v2.json", "apis.v2.json"):
        document = json.loads((GOLDEN / "builtin" / path).read_bytes())
        for group in document["items"]:
            for version in group["versions"]:
                for resource in version["resources"]:
                    yield group["metadata"].get("name", ""), resource, resource["resource"]


def old_cluster() -> Iterator[tuple[str, Mapping[str, object], str]]:
    for path in sorted((GOLDEN / "legacy-clusters" / OLD_CLUSTER).rglob("index.json")):
        document = json.loads(path.read_bytes())
        for resource in document.get("resources", ()):
            yield document["groupVersion"].rpartition("/")[0], resource, resource["name"]


def names_of(place: Place, known: Iterable[Named]) -> Names:
    """Return the names of a resource, else those of the resource of that name in another group."""
    if short := SHORT_NAMES.get((place.group, place.name)):
        return Names(short)
    for named in known:
        if found := named.get((place.group, place.name)):
            return found
    others = (found for named in known for (_, name), found in named.items() if name == place.name)
    return next(others, NAMELESS)


# --------------------------------------------------------------------------------------------------
# The file.


def written(facts: Facts) -> str:
    """Return the file: tables, and each resource with its ranges of releases."""
    every = [fact for by in facts.values() for fact in by.values()]
    used = {fact.verbs for fact in every} | {below[2] for fact in every for below in fact.below}
    verbs = sorted(used)
    content = {
        "oldest": OLDEST,
        "newest": NEWEST,
        "priorities": PRIORITIES,
        "versions": version_order(facts),
        "verbs": verbs,
        "gated": gated(),
    }
    head = json.dumps(content, separators=_TIGHT).removesuffix("}")
    lines = ",\n".join(
        json.dumps(
            [*place, *told(fact, verbs), int(is_on(facts, place)), ranges], separators=_TIGHT
        )
        for place in sorted(facts)
        for fact, ranges in runs(facts, place)
    )
    return f'{head},"resources":[\n{lines}\n]}}\n'


def gated() -> list[list[object]]:
    """Return each subresource of a resource with the releases in which it is off by default."""
    return [
        [one.group, one.version, one.resource, one.name, [one.gated]] for one in BELOW if one.gated
    ]


def told(fact: Fact, verbs: list[tuple[str, ...]]) -> list[object]:
    below = [[name, kind, verbs.index(used)] for name, kind, used in fact.below]
    own = (fact.kind, int(fact.is_namespaced), verbs.index(fact.verbs))
    return [*own, *fact.names, below]


def runs(facts: Facts, place: Place) -> Iterator[tuple[Fact, list[tuple[int, int]]]]:
    """Yield each different fact with its ranges of releases, both ends included."""
    found: dict[Fact, list[tuple[int, int]]] = {}
    for release, fact in sorted(facts[place].items()):
        ranges = found.setdefault(fact, [])
        if ranges and ranges[-1][1] == release - 1:
            ranges[-1] = (ranges[-1][0], release)
        else:
            ranges.append((release, release))
    yield from found.items()


def is_on(facts: Facts, place: Place) -> bool:
    """Whether this version of a resource is served by default (KEP-3136)."""
    if "alpha" in place.version:
        return False
    if "beta" not in place.version:
        return True
    of_group = [other for other in facts if (other.group, other.name) == (place.group, place.name)]
    first = min(min(facts[other]) for other in of_group if "beta" in other.version)
    return first < BETA_IS_OFF_FROM


def version_order(facts: Facts) -> dict[str, list[str]]:
    """Return the versions of each group in order of preference."""
    versions: dict[str, set[str]] = defaultdict(set)
    for place in facts:
        versions[place.group].add(place.version)
    return {
        group: [v for v in VERSION_ORDER[group] if v in found]
        if group in VERSION_ORDER
        else sorted(found, key=kube_aware_key)
        for group, found in sorted(versions.items())
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) != 3:  # noqa: PLR2004 - those of the usage
        sys.exit(__doc__)
    main(*map(Path, arguments))
