"""Runs commands with a fake registry, and manifests for them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Outcome, run
from fake_registry import FakeRegistry

Capture = pytest.CaptureFixture[str]

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAME}
spec: {group: stable.example.com, scope: Namespaced}
"""
CRON_TABS = "crontabs.stable.example.com"
CRON_TAB_CRD = CRD.replace("NAME", CRON_TABS)
API_SERVICE = """\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, service: {namespace: east, name: api}}
"""
LIST = """\
apiVersion: apidiscovery.k8s.io/v2
kind: APIGroupDiscoveryList
items:
- metadata: {name: example.com}
  versions: [{version: v1, freshness: Current}]
"""
NO_SPEC = CRD.replace("NAME", "broken.example.com").partition("spec")[0]
CRD_LINE = "customresourcedefinition.apiextensions.k8s.io"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def cli(capsys: Capture, registry: FakeRegistry, *args: str) -> Outcome:
    return run(capsys, *args, "--grpc-server", registry.address)


def crd(name: str) -> str:
    return CRD.replace("NAME", f"{name}.example.com")


class CliIn(NamedTuple):
    """A function that runs commands, their server, and the folder of relative paths."""

    call: Callable[..., Outcome]
    registry: FakeRegistry
    folder: Path

    def write(self, **texts: str) -> None:
        """Write files into the folder, each by its name without `.yaml`."""
        for name, text in texts.items():
            (self.folder / f"{name}.yaml").write_text(text)
