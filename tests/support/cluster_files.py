"""Kubeconfigs of one or several clusters, and folders of them as the kubelet mounts Secrets."""

import itertools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

_numbers = itertools.count()


def kubeconfig(url: str, **user: object) -> str:
    """Return a kubeconfig with one context, for a URL."""
    return contexts({"any": url}, **user)


def contexts(urls: Mapping[str, str], **user: object) -> str:
    """Return a kubeconfig with a context and a cluster for each URL, and one user for all."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(urls), ""),
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in urls],
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in urls.items()],
        "users": [{"name": "me", "user": user}],
    }
    return json.dumps(content)


def replaced(path: Path, text: str) -> None:
    """Replace a file atomically."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def mounted(folder: Path, files: Mapping[str, str]) -> None:
    """Set the files of a folder, all of them atomically.

    Source: k8s.io/kubernetes pkg/volume/util/atomic_writer.go `AtomicWriter.Write`.
    """
    folder.mkdir(exist_ok=True)
    link = folder / "..data"
    before = link.readlink() if link.is_symlink() else None
    content = folder / f"..2026_11_23_{next(_numbers)}"
    content.mkdir()
    for name, text in files.items():
        (content / name).write_text(text)
    new = folder / "..data_tmp"
    new.symlink_to(content.name)
    new.replace(link)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data", name))
    for shown in folder.iterdir():
        if not shown.name.startswith("..") and shown.name not in files:
            shown.unlink()
    if before is not None:
        shutil.rmtree(folder / before)
