"""Real kube-apiservers for tests, each with its own etcd, on loopback.

They are found by the variable APIDISCOVERY_KUBE_APISERVER, the path of a script that knows
`start DIR RELEASE [FLAG...]` (it prints the path of a kubeconfig) and `stop DIR`, or beside the
checkout.
"""

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from command_line import Outcome
from programs import kubectl, run_apidiscovery
from repository import ROOT

VARIABLE = "APIDISCOVERY_KUBE_APISERVER"

_BESIDE = ROOT.parent / "shared" / "bin" / "kube-apiserver"
_START_S = 90.0


def definition(
    plural: str, kind: str, *versions: str, group: str = "example.com"
) -> dict[str, Any]:
    """Return a CustomResourceDefinition, whose first version is stored."""
    schema = {"type": "object", "properties": {"size": {"type": "integer", "description": "cm."}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": plural.removesuffix("s")},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }


# The second wants the kind of the first, so its names are not accepted.
CRDS = (
    definition("widgets", "Widget", "v1"),
    definition("gadgets", "Widget", "v2"),
    definition("things", "Thing", "v1", "v2", "v10", "v1beta1", group="many.example.com"),
    definition("arrows", "Arrow", "v2", group="arrows.example.com"),
)
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_COLLECTIONS = {
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "CustomResourceDefinition": _DEFINITIONS,
    "Service": "/api/v1/namespaces/default/services",
}


def path_of(crd: Mapping[str, object]) -> str:
    """Return where a definition is."""
    metadata = crd["metadata"]
    assert isinstance(metadata, dict)
    return f"{_DEFINITIONS}/{metadata['name']}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to a GET request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - a document
        return json.loads(self.body)


def get(
    url: str, accept: str, token: str = "", trust: ssl.SSLContext | None = None, etag: str = ""
) -> Answer:
    """Return the answer, whatever its status."""
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - loopback
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if etag:
        request.add_header("If-None-Match", etag)
    try:
        answer = urllib.request.urlopen(request, context=trust, timeout=30)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(int(answer.status or 0), headers, answer.read())


class RealCluster:
    """A kube-apiserver that runs.

    Attributes:
        release: Of Kubernetes, such as 1.36.
        kubeconfig: The path of one for an administrator.
        folder: Where commands cache what they learn.
    """

    def __init__(self, release: str, kubeconfig: Path, folder: Path) -> None:
        self.release = release
        self.kubeconfig = kubeconfig
        self.folder = folder
        told = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = told["clusters"][0]["cluster"]
        self.url = str(cluster["server"])
        self.token = str(told["users"][0]["user"]["token"])
        self.ca_file = str(cluster["certificate-authority"])
        self._trust = ssl.create_default_context(cafile=self.ca_file)

    def get(self, path: str, accept: str = "application/json") -> Answer:
        """Return what it answers to an administrator."""
        return get(self.url + path, accept, self.token, self._trust)

    def has(self, path: str) -> bool:
        """Tell whether there is something."""
        return self.get(path).status == HTTPStatus.OK

    def kubectl(self, *args: str) -> Outcome:
        """Return what kubectl gives, with nothing in its cache of discovery."""
        return kubectl(self.folder, "--kubeconfig", str(self.kubeconfig), *args)

    def apidiscovery(self, *args: str) -> Outcome:
        """Return what the command line gives."""
        return run_apidiscovery(self.folder, *args, "--kubeconfig", str(self.kubeconfig))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects; in the namespace `default` what has one."""
        for one in objects:
            path = f"{self.url}{_COLLECTIONS[one['kind']]}"
            headers = {
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            }
            body = json.dumps(one).encode()
            request = urllib.request.Request(path, body, headers)  # noqa: S310 - loopback
            with urllib.request.urlopen(request, context=self._trust, timeout=30):  # noqa: S310
                pass

    def conditions(self, path: str) -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message of each condition of an object, by type."""
        found = cast("dict[str, Any]", self.get(path).json()).get("status", {})
        return {
            one["type"]: (one["status"], one["reason"], one["message"])
            for one in found.get("conditions") or ()
        }


def program(release: str) -> Path:
    """Return the script that starts servers of a release; skip the test where there is none."""
    found = Path(os.environ.get(VARIABLE) or _BESIDE)
    if not found.exists():
        pytest.skip(f"there is no {found}, and {VARIABLE} names no other kube-apiserver")
    if not found.with_name(f"{found.name}-{release}.xz").exists():
        pytest.skip(f"no kube-apiserver {release} beside {found}")
    return found


@contextmanager
def running(release: str, folder: Path, *flags: str) -> Generator[RealCluster]:
    """Run a kube-apiserver with more flags, and its etcd, below a folder."""
    script = str(program(release))
    data = folder / "cluster"
    try:
        done = subprocess.run(  # noqa: S603 - what the user named
            [script, "start", str(data), release, *flags],
            check=True,
            stdout=subprocess.PIPE,
            timeout=_START_S,
            text=True,
        )
        yield RealCluster(release, Path(done.stdout.strip()), folder)
    finally:
        subprocess.run([script, "stop", str(data)], check=False)  # noqa: S603 - as above
