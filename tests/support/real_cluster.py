"""Real kube-apiservers for tests, each with its own etcd, on loopback.

The variable APIDISCOVERY_KUBE_APISERVER has the path of a script with the commands
`start DIR RELEASE [FLAG...]`, which prints the path of a kubeconfig, and `stop DIR`. By default the
script is beside the checkout.
"""

import base64
import json
import os
import signal
import socket
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
from certificates import Authority
from command_line import Outcome
from programs import kubectl, run_apidiscovery
from repository import ROOT
from waiting import WITHIN_S, eventually

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


TABLES = (
    "api-resources",
    "api-resources -o wide",
    "api-resources -o name --namespaced=false",
    "api-resources --verbs=list --sort-by=kind --no-headers",
    "api-versions",
)

# The second has the kind of the first, so its names are not accepted.
CRDS = (
    definition("widgets", "Widget", "v1"),
    definition("gadgets", "Widget", "v2"),
    definition("things", "Thing", "v1", "v2", "v10", "v1beta1", group="many.example.com"),
    definition("arrows", "Arrow", "v2", group="arrows.example.com"),
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_COLLECTIONS = {
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "CustomResourceDefinition": DEFINITIONS,
    "Service": "/api/v1/namespaces/default/services",
}


def path_of(crd: Mapping[str, object]) -> str:
    """Return the path of a definition."""
    metadata = crd["metadata"]
    assert isinstance(metadata, dict)
    return f"{DEFINITIONS}/{metadata['name']}"


def registered(group: str, port: int, authority: Authority) -> tuple[Mapping[str, object], ...]:
    """Return objects with which the aggregator asks a port of this machine for a group."""
    name = group.split(".", maxsplit=1)[0]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    return service, {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "caBundle": base64.b64encode(authority.ca_file.read_bytes()).decode(),
            "service": {"namespace": "default", "name": name, "port": port},
        },
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - a document
        return json.loads(self.body)


def get(url: str, accept: str, *, etag: str = "", method: str = "GET") -> Answer:
    """Return the answer to a request without a body, whatever its status."""
    headers = {"Accept": accept} | ({"If-None-Match": etag} if etag else {})
    return _answer(urllib.request.Request(url, headers=headers, method=method))  # noqa: S310 - loopback


def _answer(request: urllib.request.Request, trust: ssl.SSLContext | None = None) -> Answer:
    try:
        answer = urllib.request.urlopen(request, context=trust, timeout=WITHIN_S)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(int(answer.status or 0), headers, answer.read())


class RealCluster:
    """A kube-apiserver that runs.

    Attributes:
        release: Of Kubernetes, such as 1.36.
        kubeconfig: The path of a kubeconfig for an administrator.
        folder: The folder for caches of commands.
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
        self._pid_file = kubeconfig.with_name("kube-apiserver.pid")
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill the server, as a machine dies; its etcd lives."""
        pid = int(self._pid_file.read_text(encoding="ascii"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        self._command = command.removesuffix("\0").split("\0")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.is_listening(), "it is dead", _START_S)

    def start_again(self) -> None:
        """Start the server that was killed, at the same address, and wait until it is ready."""
        self._reap()
        with self._pid_file.with_name("kube-apiserver.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - as it was started before
                self._command,
                cwd=self._pid_file.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid_file.write_text(str(process.pid), encoding="ascii")
        self._process = process
        eventually(lambda: self.is_listening() and self.has("/readyz"), "it is ready", _START_S)

    def close(self) -> None:
        """End the server if it was started again; the script ends any other, and its etcd."""
        if self._process is not None:
            self._process.terminate()
            self._reap()
            self._pid_file.unlink()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(_START_S)

    def is_listening(self) -> bool:
        """Tell whether it takes connections."""
        host, _, port = self.url.rpartition("//")[2].rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, accept: str = "application/json", *, method: str = "GET") -> Answer:
        """Return the answer to an administrator."""
        return self.ask(method, path, accept=accept)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> Answer:
        """Return the answer to a request of an administrator, whose body is JSON."""
        headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - loopback
        return _answer(request, self._trust)

    def has(self, path: str) -> bool:
        """Tell whether a path answers 200."""
        return self.get(path).status == HTTPStatus.OK

    def kubectl(self, *args: str) -> Outcome:
        """Run kubectl."""
        return kubectl(self.folder, "--kubeconfig", str(self.kubeconfig), *args)

    def apidiscovery(self, *args: str) -> Outcome:
        """Run our command line."""
        return run_apidiscovery(self.folder, *args, "--kubeconfig", str(self.kubeconfig))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, those with a namespace in `default`."""
        for one in objects:
            answer = self.ask("POST", _COLLECTIONS[one["kind"]], one)
            assert answer.status == HTTPStatus.CREATED, answer.body

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
    cluster: RealCluster | None = None
    try:
        done = subprocess.run(  # noqa: S603 - named by the user
            [script, "start", str(data), release, *flags],
            check=True,
            stdout=subprocess.PIPE,
            timeout=_START_S,
            text=True,
        )
        cluster = RealCluster(release, Path(done.stdout.strip()), folder)
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()
        subprocess.run([script, "stop", str(data)], check=False)  # noqa: S603 - as above
