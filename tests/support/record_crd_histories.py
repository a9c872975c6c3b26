"""Records definitions of releases of real projects, as tests/golden/schema-diff says.

    PYTHONPATH=tests/support python tests/support/record_crd_histories.py FOLDER

FOLDER has a git repository of each, with its tags: argo-cd, cert-manager, gateway-api and
prometheus-operator.
"""

import json
import lzma
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from apidiscovery_client.manifests import read_manifests
from apidiscovery_client.schemas import schemas_of_manifests
from crd_histories import FOLDER

_RELEASES = {
    "argo-cd": "v2.0.0 v2.4.0 v2.8.0 v2.12.0 v3.0.0 v3.5.0",
    "cert-manager": "v1.0.4 v1.5.5 v1.8.2 v1.12.17 v1.16.5 v1.19.0 v1.21.1",
    "gateway-api": "v0.5.1 v0.7.1 v0.8.1 v1.0.0 v1.2.1 v1.4.1 v1.6.1",
    "prometheus-operator": "v0.50.0 v0.60.1 v0.70.0 v0.79.2 v0.86.2 v0.93.0",
}
_FILES = {
    "argo-cd": r"manifests/crds/.*-crd\.yaml",
    "cert-manager": r"deploy/crds/(?!.*v1beta1).*\.yaml",
    "gateway-api": r"config/crd/experimental/gateway\.(?!.*_vap_).*\.yaml",
    "prometheus-operator": r"example/prometheus-operator-crd/.*\.yaml",
}


def _git(repository: Path, *args: str) -> str:
    command = ["git", "-C", str(repository), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - git


def _definitions(repository: Path, release: str, files: str) -> dict[str, Any]:
    found = dict[str, Any]()
    for path in _git(repository, "ls-tree", "-r", "--name-only", release).splitlines():
        if re.fullmatch(files, path):
            text = _rendered(_git(repository, "show", f"{release}:{path}"))
            manifests = read_manifests(text.encode(), path)
            found |= schemas_of_manifests(manifests, path).definitions
    return found


def _rendered(text: str) -> str:
    """Render a definition of cert-manager as Helm does with default values, apart from names."""
    text = re.sub(r"# \{\{- if \S*\.url\.host \}\}.*?# \{\{- else \}\}", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(#.*)?\{\{.*\}\}\s*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\{\{.*?\}\}", "x", text)


def main(folder: Path) -> None:
    """Write what each project defines."""
    for project, releases in _RELEASES.items():
        found = {
            release: _definitions(folder / project, release, _FILES[project])
            for release in releases.split()
        }
        text = json.dumps(found, separators=(",", ":"), sort_keys=True, default=dict)
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{project}.json.xz"
        path.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
