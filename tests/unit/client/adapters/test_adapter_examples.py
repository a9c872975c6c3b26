"""The examples with other packages run against the server that they say they are for."""

import subprocess
import sys
from pathlib import Path

from repository import EXAMPLES
from server import Server, environment

# A name that is not found is asked for again where the answer is older than half a second.
FEW = ("2 requests", "4 requests")


def run(name: str, url: str, folder: Path) -> list[str]:
    """Return the lines that an example prints."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, str(EXAMPLES / name), url],
        check=False,
        capture_output=True,
        text=True,
        env=environment(folder),
        cwd=folder,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_with_kubernetes_runs(server: Server, tmp_path: Path) -> None:
    *lines, last = run("with_kubernetes.py", server.url, tmp_path)
    assert lines == [
        "/apis/apps/v1/namespaces/default/deployments/web",
        "autoscaling/v2",
        "No matches found for {'kind': 'Depoyment'}",
    ]
    assert last in FEW


def test_the_example_with_kr8s_runs(server: Server, tmp_path: Path) -> None:
    lines = run("with_kr8s.py", server.url, tmp_path)
    assert lines[0] == "deploy deployment.apps/v1 deployments True"
    assert "did you mean deployments" in lines[3]
    assert lines[-1].partition("resources, ")[2] in FEW


def test_the_example_with_lightkube_runs(server: Server, tmp_path: Path) -> None:
    lines = run("with_lightkube.py", server.url, tmp_path)
    assert lines[-4:-1] == [
        "deploy Deployment",
        "deployments/scale DeploymentScale",
        "no Node",
    ]
    assert lines[-1] in FEW
