"""Finds and reads the files of a folder that each describe one cluster.

Folders look as people and the kubelet make them:

1. kubeconfigs: `east.yaml`, or keys of one Secret mounted together (`east`);
2. a folder for each Secret of Cluster API: `east/value`, or `east/kubeconfig`;
3. a folder for each cluster Secret of Argo CD: `east/server` and `east/config`.

Each of the last two may be the watched folder itself. The kubelet swaps the link `..data` to
replace all files of a mount at once; names that begin with a dot are not read.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_kubeconfig.cluster_files import read_argocd_secret, read_cluster_file
from apidiscovery_kubeconfig.connection import Connection
from apidiscovery_kubeconfig.files import MAX_FILE_BYTES

# Keys of a Secret with a kubeconfig: Cluster API's (util/secret/consts.go `KubeconfigDataName`),
# and that of most others.
_KUBECONFIG_KEYS = ("value", "kubeconfig")
# Cluster API names such a Secret `NAME-kubeconfig` (util/secret/secret.go `Name`).
_NAME_SUFFIX = "-kubeconfig"
# argoproj/argo-cd docs/operator-manual/declarative-setup.md, "Clusters".
_ARGOCD_KEYS = ("server", "config")

_SUFFIXES = (".yaml", ".yml", ".json", ".kubeconfig")


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """One cluster in a folder.

    Attributes:
        name: Of the cluster: that of its file without the suffix, or that of the Secret's folder.
        files: Its kubeconfig; or `server` and `config` of a Secret of Argo CD.
    """

    name: str
    files: tuple[Path, ...]

    @property
    def place(self) -> str:
        """Where it is, for errors."""
        return str(self.files[0] if len(self.files) == 1 else self.files[0].parent)

    def digest(self) -> str:
        """Return a digest of its content; empty where that cannot be read. Blocks."""
        found = hashlib.sha256()
        for file in self.files:
            try:
                with file.open("rb") as stream:
                    content = stream.read(MAX_FILE_BYTES)
            except OSError:
                return ""  # reading it reports the error
            found.update(hashlib.sha256(content).digest())
        return found.hexdigest()

    def read(self, *, is_trusted: bool) -> Connection:
        """Return its server; blocks.

        Args:
            is_trusted: Whether it may name programs and other files.

        Raises:
            ConfigurationError: The message names file, key, and what to do.
        """
        if len(self.files) == 1:
            return read_cluster_file(self.files[0], is_trusted=is_trusted)
        server, config = self.files
        return read_argocd_secret(server, config, is_trusted=is_trusted)


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The content of a folder.

    Attributes:
        clusters: Its clusters, in the order of their paths.
        unread: Folders in it that are not mounted Secrets, sorted.
    """

    clusters: tuple[ClusterFile, ...]
    unread: tuple[Path, ...] = ()


def list_clusters(folder: Path) -> FolderContent:
    """Return the clusters of a folder; blocks.

    Raises:
        OSError: The folder cannot be read.
    """
    names, folders = _members(folder)
    own = _secret(folder, names)
    if own is not None and len(own.files) > 1:
        return FolderContent((own,))
    clusters = [
        ClusterFile(_name_of(name), (folder / name,))
        for name in names
        if own is None or folder / name not in own.files
    ]
    unread: list[Path] = []
    for name in folders:
        inner = folder / name
        try:
            secret = _secret(inner, _members(inner)[0])
        except (FileNotFoundError, NotADirectoryError):
            continue  # it has just gone
        if secret is None:
            unread.append(inner)
        else:
            clusters.append(secret)
    found = (*clusters, *((own,) if own else ()))
    return FolderContent(tuple(sorted(found, key=lambda each: each.place)), tuple(unread))


def _members(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, sorted."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as members:
        for member in members:
            if member.name.startswith((".", "#")) or member.name.endswith("~"):
                continue  # hidden, or the copy of an editor
            if member.is_dir():
                folders.append(member.name)
            elif member.is_file():
                files.append(member.name)
    return sorted(files), sorted(folders)


def _secret(folder: Path, names: Iterable[str]) -> ClusterFile | None:
    """Return the cluster of a folder that is a mounted Secret."""
    names = set(names)
    name = folder.absolute().name.removesuffix(_NAME_SUFFIX)
    if names.issuperset(_ARGOCD_KEYS):
        return ClusterFile(name, tuple(folder / key for key in _ARGOCD_KEYS))
    for key in _KUBECONFIG_KEYS:
        if key in names:
            return ClusterFile(name, (folder / key,))
    return None


def _name_of(file: str) -> str:
    for suffix in _SUFFIXES:
        file = file.removesuffix(suffix)
    return file
