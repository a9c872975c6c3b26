"""Drives command lines; each question starts a process, as on a terminal."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from client_child import Found

_TIMEOUT_S = 60.0


class CommandFailed(Exception):
    """It ended with an exit code; the text is what it wrote to stderr."""


class _Command:
    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        self._command = list(command)
        home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment = {**os.environ, **home, "KUBECONFIG": str(folder / "kubeconfig")}

    def run(self, *arguments: str) -> str:
        """Return what it prints; what it warns of goes to our stderr."""
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
        """List everything, for which the server is asked whether what is kept is so."""
        self.run("api-resources")

    def peak_kb(self) -> int:
        """Return the most that any of the processes had."""
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
    """`kubectl get`, whose question for objects tells what it has found."""

    def __init__(self, _target: str, folder: Path) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise CommandFailed("kubectl is not installed")
        super().__init__([program, "--cache-dir", folder / "cache"], folder)

    def find(self, kind: str, _group: str, _version: str) -> None:
        """Return nothing: the server knows for what objects it was asked."""
        self.run("get", kind)
