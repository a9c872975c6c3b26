"""Kubeconfig files, and the real kubectl to read them."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml
from command_line import Outcome

from tools import find_tool

EXEC = "client.authentication.k8s.io"
_LIMIT_S = 60

Content = Mapping[str, object]


def config(
    cluster: Content | None = None, user: Content | None = None, **more: object
) -> dict[str, object]:
    """Return a kubeconfig with one context c of cluster k and user u."""
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "k", "cluster": {"server": "https://a.example:6443", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "current-context": "c",
        **named,
    }


def several(**servers: str) -> dict[str, object]:
    """Return a kubeconfig with a context for each URL, with the names of the arguments."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
        "contexts": [{"name": name, "context": {"cluster": name}} for name in servers],
    }


def write(path: Path, content: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def write_plugin(folder: Path, token: str = "of-the-plugin") -> Path:  # noqa: S107 - for tests
    """Write a credential plugin that returns a token.

    It adds a line to `runs`, and writes its arguments and KUBERNETES_EXEC_INFO to `told`.
    """
    credential = {
        "apiVersion": f"{EXEC}/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    path = folder / "plugin"
    noted = f'printf "%s\\n%s" "$*" "$KUBERNETES_EXEC_INFO" > {folder}/told'
    given = f"echo '{json.dumps(credential)}'"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{noted}\n{given}\n")
    path.chmod(0o700)
    return path


def plugin_keys(command: str, **more: object) -> dict[str, object]:
    """Return the keys of a user with a plugin."""
    keys = {"apiVersion": f"{EXEC}/v1", "command": command, "interactiveMode": "Never"}
    return {"exec": keys | more}


async def kubectl(*arguments: str) -> Outcome:
    """Run kubectl in a thread, with the environment of this process."""
    done = await asyncio.to_thread(
        subprocess.run,
        [find_tool("kubectl"), *arguments],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
