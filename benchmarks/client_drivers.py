"""Drivers of other clients and of command lines, each used as its own documentation shows.

The clients are imported when a driver is made, so that none takes memory from another; none of them
can check or watch. For a command line each question starts a process, as on a terminal.
"""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from client_child import Found

_TIMEOUT_S = 60.0


class Official:
    """`kubernetes.dynamic`; its discovery is lazy by default."""

    def __init__(self, _target: str, folder: Path) -> None:
        self._config: Any = import_module("kubernetes.config")
        self._dynamic: Any = import_module("kubernetes.dynamic")
        self._folder = folder
        self._client: Any = None

    def find(self, kind: str, _group: str, _version: str) -> Found:
        if self._client is None:
            api = self._config.new_client_from_config(str(self._folder / "kubeconfig"))
            cache_file = str(self._folder / "discovery.json")
            self._client = self._dynamic.DynamicClient(api, cache_file=cache_file)
        return _official(self._client.resources.get(kind=kind))


class OfficialAsyncio:
    """`kubernetes_asyncio.dynamic`."""

    def __init__(self, _target: str, folder: Path) -> None:
        self._config: Any = import_module("kubernetes_asyncio.config")
        self._dynamic: Any = import_module("kubernetes_asyncio.dynamic")
        self._folder = folder
        self._runner = asyncio.Runner()
        self._api: Any = None
        self._client: Any = None

    def find(self, kind: str, _group: str, _version: str) -> Found:
        return self._runner.run(self._find(kind))

    async def _find(self, kind: str) -> Found:
        if self._client is None:
            file = str(self._folder / "kubeconfig")
            self._api = await self._config.new_client_from_config(config_file=file)
            cache_file = str(self._folder / "discovery.json")
            self._client = await self._dynamic.DynamicClient(self._api, cache_file=cache_file)
        return _official(await self._client.resources.get(kind=kind))

    def close(self) -> None:
        if self._api is not None:
            self._runner.run(self._api.close())
        self._runner.close()


class Kr8s:
    """`kr8s`."""

    def __init__(self, _target: str, folder: Path) -> None:
        self._kr8s: Any = import_module("kr8s")
        self._folder = folder
        self._api: Any = None

    def find(self, kind: str, _group: str, _version: str) -> Found:
        if self._api is None:
            self._api = self._kr8s.api(kubeconfig=str(self._folder / "kubeconfig"))
        named, plural, is_namespaced = self._api.lookup_kind(kind)
        # SINGULAR.GROUP/VERSION, and SINGULAR/VERSION in the core group.
        qualified, _, version = named.rpartition("/")
        return qualified.partition(".")[2], version, plural, is_namespaced


class Lightkube:
    """`lightkube`: has Kubernetes built in, and lists definitions on request."""

    def __init__(self, _target: str, folder: Path) -> None:
        self._lightkube: Any = import_module("lightkube")
        self._generic: Any = import_module("lightkube.generic_resource")
        self._resources: Any = import_module("lightkube.core.resource")
        self._registry: Any = import_module("lightkube.core.resource_registry").resource_registry
        self._missing: Any = import_module("lightkube.core.exceptions").LoadResourceError
        self._file = folder / "kubeconfig"

    def find(self, kind: str, group: str, version: str) -> Found:
        gv = f"{group}/{version}"
        try:
            found = self._registry.load(gv, kind)
        except self._missing:
            if "." not in group:  # no definition can be there
                raise
            self._load()
            found = self._registry.load(gv, kind)
        known = found._api_info  # noqa: SLF001 - the only place that has it
        is_namespaced = issubclass(found, self._resources.NamespacedResource)
        return known.resource.group, known.resource.version, known.plural, is_namespaced

    def _load(self) -> None:
        config = self._lightkube.KubeConfig.from_file(self._file)
        with self._lightkube.Client(config=config) as client:
            self._generic.load_in_cluster_generic_resources(client)


def _official(found: Any) -> Found:  # noqa: ANN401 - it has no types
    return found.group, found.api_version, found.name, found.namespaced


class CommandFailed(Exception):
    """It ended with an exit code; the text is what it wrote to stderr."""


class _Command:
    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        self._command = list(command)
        home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment = {**os.environ, **home, "KUBECONFIG": str(folder / "kubeconfig")}

    def run(self, *arguments: str) -> str:
        """Return its output; warnings go to our stderr."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(done.stderr.strip())
        sys.stderr.write(done.stderr)
        return done.stdout

    def check(self) -> None:
        """List everything, which verifies the cache."""
        self.run("api-resources")

    def peak_kb(self) -> int:
        """Return the highest peak of the processes."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


class Ours(_Command):
    """`apidiscovery resolve`."""

    def __init__(self, _target: str, folder: Path) -> None:
        program = Path(sys.executable).with_name("apidiscovery")
        super().__init__([program], folder)

    def find(self, kind: str, _group: str, _version: str) -> Found:
        line = self.run("resolve", "--no-headers", kind).split()
        plural, (group_version, is_namespaced) = line[0], line[-3:-1]
        group, _, version = group_version.rpartition("/")
        return group, version, plural, is_namespaced == "true"


class Kubectl(_Command):
    """`kubectl get`, whose request for objects shows its answer."""

    def __init__(self, _target: str, folder: Path) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise CommandFailed("kubectl is not installed")
        super().__init__([program, "--cache-dir", folder / "cache"], folder)

    def find(self, kind: str, _group: str, _version: str) -> None:
        """Return nothing: the server knows for what objects it was asked."""
        self.run("get", kind)
