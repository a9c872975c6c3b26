"""A client or command line in its own process, controlled by lines on stdin.

    client_child.py CLIENT URL FOLDER

CLIENT is a name in `DRIVERS`; in FOLDER are `kubeconfig` and whatever the client keeps on disk. A
line is `find` with a kind, or `check`, as a JSON list. Each is answered with a line of JSON: the
seconds, the `Found` or the error, and what was written to stderr or logged meanwhile. The process
ends when its stdin does.

Each client is used as its own documentation shows. Only that client is imported.
"""

import asyncio
import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Found = tuple[str, str, str, bool]  # group, version, plural, whether it is namespaced

_TIMEOUT_S = 60.0


class Sync:
    """`DiscoveryClient`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._library: Any = import_module("apidiscovery_client")
        self._disk_cache: Any = import_module("apidiscovery_client.cache").DiskCache
        self._url, self._folder = url, folder
        self._client: Any = None

    def find(self, kind: str) -> Found:
        if self._client is None:  # made with the first lookup, as the other clients
            cache = self._disk_cache(self._folder / "cache")
            self._client = self._library.DiscoveryClient(self._url, cache=cache)
        return _resolved(self._client.resolve_kind(kind))

    def check(self) -> None:
        """Make sure that what is known is current."""
        self._client.snapshot(max_age_s=0)

    def close(self) -> None:
        self._client.close()


class OverAsyncio(Sync):
    """`AsyncDiscoveryClient`."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self._runner = asyncio.Runner()

    def find(self, kind: str) -> Found:
        if self._client is None:
            cache = self._disk_cache(self._folder / "cache")
            self._client = self._library.AsyncDiscoveryClient(self._url, cache=cache)
        return _resolved(self._runner.run(self._client.resolve_kind(kind)))

    def check(self) -> None:
        self._runner.run(self._client.snapshot(max_age_s=0))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


def _resolved(resolution: Any) -> Found:  # noqa: ANN401 - its type is in the client
    resource = resolution.resource
    return resource.gv.group, resource.gv.version, resource.name, resource.is_namespaced


class Official:
    """`kubernetes.dynamic`; its discovery is lazy by default."""

    def __init__(self, _url: str, folder: Path) -> None:
        self._config: Any = import_module("kubernetes.config")
        self._dynamic: Any = import_module("kubernetes.dynamic")
        self._folder = folder
        self._client: Any = None

    def find(self, kind: str) -> Found:
        if self._client is None:
            api = self._config.new_client_from_config(str(self._folder / "kubeconfig"))
            cache_file = str(self._folder / "discovery.json")
            self._client = self._dynamic.DynamicClient(api, cache_file=cache_file)
        return _official(self._client.resources.get(kind=kind))


class OfficialAsyncio:
    """`kubernetes_asyncio.dynamic`."""

    def __init__(self, _url: str, folder: Path) -> None:
        self._config: Any = import_module("kubernetes_asyncio.config")
        self._dynamic: Any = import_module("kubernetes_asyncio.dynamic")
        self._folder = folder
        self._runner = asyncio.Runner()
        self._api: Any = None
        self._client: Any = None

    def find(self, kind: str) -> Found:
        return self._runner.run(self._find(kind))

    async def _find(self, kind: str) -> Found:
        if self._client is None:
            file = str(self._folder / "kubeconfig")
            self._api = await self._config.new_client_from_config(config_file=file)
            cache_file = str(self._folder / "discovery.json")
            self._client = await self._dynamic.DynamicClient(self._api, cache_file=cache_file)
        return _official(await self._client.resources.get(kind=kind))

    def close(self) -> None:
        self._runner.run(self._api.close())
        self._runner.close()


def _official(found: Any) -> Found:  # noqa: ANN401 - it has no types
    return found.group, found.api_version, found.name, found.namespaced


class Kr8s:
    """`kr8s`."""

    def __init__(self, _url: str, folder: Path) -> None:
        self._kr8s: Any = import_module("kr8s")
        self._folder = folder
        self._api: Any = None

    def find(self, kind: str) -> Found:
        if self._api is None:
            self._api = self._kr8s.api(kubeconfig=str(self._folder / "kubeconfig"))
        named, plural, is_namespaced = self._api.lookup_kind(kind)
        # SINGULAR.GROUP/VERSION, and SINGULAR/VERSION in the core group.
        qualified, _, version = named.rpartition("/")
        return qualified.partition(".")[2], version, plural, is_namespaced


class CommandFailed(Exception):
    """It ended with an exit code; the text is what it wrote to stderr."""


class _Command:
    """A command line, of which each lookup starts a process, as on a terminal."""

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
        """Make sure that what is cached is current."""
        self.run("api-resources")


class Ours(_Command):
    """`apidiscovery resolve`."""

    def __init__(self, _url: str, folder: Path) -> None:
        super().__init__([Path(sys.executable).with_name("apidiscovery")], folder)

    def find(self, kind: str) -> Found:
        line = self.run("resolve", "--no-headers", kind).split()
        plural, (group_version, is_namespaced) = line[0], line[-3:-1]
        group, _, version = group_version.rpartition("/")
        return group, version, plural, is_namespaced == "true"


class Kubectl(_Command):
    """`kubectl get`; the path at which it requests objects shows what it has found."""

    def __init__(self, _url: str, folder: Path) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise CommandFailed("kubectl is not installed")
        super().__init__([program, "--cache-dir", folder / "cache"], folder)

    def find(self, kind: str) -> None:
        self.run("get", kind)


OURS = ("ours, asyncio", "ours, sync", "ours, command line")
DRIVERS: Mapping[str, Callable[[str, Path], Any]] = {
    **dict(zip(OURS, (OverAsyncio, Sync, Ours), strict=True)),
    "kubectl": Kubectl,
    "kubernetes": Official,
    "kubernetes_asyncio": OfficialAsyncio,
    "kr8s": Kr8s,
}


def main() -> None:
    name, url, folder = sys.argv[1:]
    driver = DRIVERS[name](url, Path(folder))
    _say({"ready": True})
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        _say(_done(getattr(driver, step), arguments))
    if hasattr(driver, "close"):
        driver.close()


def _done(step: Callable[..., object], arguments: list[str]) -> dict[str, object]:
    """Do a step and return its result."""
    answer: object = None
    error = ""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    started = time.perf_counter()
    with contextlib.redirect_stderr(heard):
        try:
            answer = step(*arguments)
        except Exception as failure:  # noqa: BLE001 - it is a result
            error = f"{type(failure).__name__}: {failure}"
    seconds = time.perf_counter() - started
    logging.getLogger().removeHandler(handler)
    return {"seconds": seconds, "found": answer, "error": error, "heard": heard.getvalue()}


def _say(line: Mapping[str, object]) -> None:
    sys.__stdout__.write(json.dumps(line) + "\n")  # type: ignore[union-attr]  # it is a pipe
    sys.__stdout__.flush()  # type: ignore[union-attr]  # the same


if __name__ == "__main__":
    main()
