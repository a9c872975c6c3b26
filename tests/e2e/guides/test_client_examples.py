"""The examples of the clients run against a server as it comes."""

import subprocess
import sys
from pathlib import Path

import pytest
from programs import free_port
from repository import EXAMPLES
from server import Server, environment


def test_the_asynchronous_example_asks_over_grpc(server: Server, tmp_path: Path) -> None:
    lines = _printed(tmp_path, "async_client.py", f"grpc://{server.grpc}")

    assert lines[0].startswith(f"{server.grpc}: 21 groups, ")
    assert [line.split(",")[0] for line in lines[1:5]] == [
        "apps/v1 deployments",
        "apps/v1 deployments/scale",
        "networking.k8s.io/v1 ingresses",
        "v1 pods",
    ]
    assert "did you mean deployments?" in lines[5]
    assert lines[6].startswith("group core added: v1")


def test_the_asynchronous_example_asks_over_http(server: Server, tmp_path: Path) -> None:
    lines = _printed(tmp_path, "async_client.py", server.url)

    assert lines[0].startswith(f"{server.url}: 21 groups, ")
    assert len(lines) == 8


def test_the_blocking_example_asks_twice_and_is_answered_by_304(
    server: Server, tmp_path: Path
) -> None:
    lines = _printed(tmp_path, "client.py", server.url)

    assert "deployments.apps" in lines[0]
    assert '"hpa" is horizontalpodautoscalers.v2.autoscaling, kind HorizontalPodAutoscaler' in lines
    assert lines[-1].startswith("Traffic(requests=4, not_modified=2, ")


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("async_client.py", "grpc"),
        ("client.py", "http"),
        ("with_kr8s.py", "http"),
        ("with_kubernetes.py", "http"),
        ("with_lightkube.py", "http"),
    ],
)
def test_without_a_server_an_example_prints_one_line(
    tmp_path: Path, name: str, scheme: str
) -> None:
    done = _ran(tmp_path, name, f"{scheme}://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr


def _printed(folder: Path, name: str, target: str) -> list[str]:
    done = _ran(folder, name, target)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _ran(folder: Path, name: str, target: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, str(EXAMPLES / name), target],
        cwd=folder,
        env=environment(folder),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
