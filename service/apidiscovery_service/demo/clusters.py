"""The clusters of the demo: their releases, their custom resources, and how these change."""

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle
from pathlib import Path

CERT_MANAGER, GATEWAY_API = "cert-manager", "gateway-api"
BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A cluster as it is when the demo begins.

    Attributes:
        name: Its name in the fleet.
        release: The recorded release of Kubernetes that it serves.
        installed: Names of packages of definitions.
        labels: Its labels in the fleet.
    """

    name: str
    release: str
    installed: tuple[str, ...]
    labels: Mapping[str, str]


CLUSTERS = (
    DemoCluster("east", "1.36", (CERT_MANAGER, GATEWAY_API), {"env": "prod"}),
    DemoCluster("north", "1.34", (CERT_MANAGER, GATEWAY_API), {"env": "prod"}),
    # It has no Certificate, so that something is missing somewhere.
    DemoCluster("west", "1.31", (GATEWAY_API,), {"env": "test"}),
)

# The cluster that goes away, and comes back.
UNSTEADY = "north"


def install(folder: Path, package: str) -> None:
    """Write a package of definitions into the folder of a cluster."""
    packed = files("apidiscovery_service.demo").joinpath("crds", f"{package}.yaml.gz").read_bytes()
    (folder / f"{package}.yaml").write_bytes(gzip.decompress(packed))


def changes() -> Iterator[tuple[str, str]]:
    """Yield, without end, names of clusters and the definition of Backup that they have next.

    The definition is empty where it is removed. A group appears, its kind gains fields and a
    version, another cluster follows, and both lose it again.
    """
    first, second = CLUSTERS[0].name, CLUSTERS[1].name
    yield from cycle(
        (
            (first, _backups(["v1alpha1"], ["schedule"])),
            (first, _backups(["v1alpha1"], ["schedule", "retention"])),
            (first, _backups(["v1beta1", "v1alpha1"], ["schedule", "retention"])),
            (second, _backups(["v1alpha1"], ["schedule"])),
            (first, _backups(["v1beta1"], ["schedule", "retention", "bucket"])),
            (second, _backups(["v1beta1", "v1alpha1"], ["schedule", "retention"])),
            (first, ""),
            (second, ""),
        )
    )


_FIELDS = {
    "schedule": "When a backup is made, as a line of cron.",
    "retention": "How many backups are kept.",
    "bucket": "Where backups are written.",
}
_KIND = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: backups.storage.example.com
spec:
  group: storage.example.com
  names: {kind: Backup, plural: backups, singular: backup, shortNames: [bk]}
  scope: Namespaced
  versions:
"""
_VERSION = """\
  - name: %s
    served: true
    storage: %s
    schema:
      openAPIV3Schema:
        description: A copy of a volume, made at fixed times.
        type: object
        properties:
          spec:
            type: object
            required: [schedule]
            properties:
"""


def _backups(versions: list[str], fields: list[str]) -> str:
    """Return the definition of Backup; the first version is stored."""
    text = _KIND
    for version in versions:
        text += _VERSION % (version, str(version == versions[0]).lower())
        for name in fields:
            kind = "integer" if name == "retention" else "string"
            text += f"              {name}: {{type: {kind}, description: {_FIELDS[name]!r}}}\n"
    return text
