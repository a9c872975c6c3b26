"""How long a command takes from its start to its end, beside kubectl's on the same server."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apidiscovery_client.testing import FakeApiServer
from processes import Failed
from report import Clock, Row

COMMAND = Path(sys.executable).with_name("apidiscovery")
BUDGET = 2.0  # times that of kubectl
_COMMANDS = (("api-resources",), ("api-resources", "-o", "wide"), ("api-versions",))


def measure(folder: Path, repeats: int, clock: Clock) -> Iterator[Row]:
    """Yield a row for each command: ours and kubectl's run in turns, with warm caches."""
    kubectl = shutil.which("kubectl")
    environment = _environment(folder)
    with FakeApiServer() as server:
        for command in _COMMANDS:
            name = f"{' '.join(command)}, start to end"
            if kubectl is None or clock.out():
                yield Row("command", name, "", skipped="out of time" if kubectl else "no kubectl")
                continue
            args = (*command, "--server", server.url)
            both = [(str(COMMAND), *args), (kubectl, *args)]
            ours, theirs = _taken(both, environment, repeats)
            yield _row(name, ours, theirs)


def _row(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    mine, kubectls = statistics.median(ours), statistics.median(theirs)
    ratio = mine / kubectls
    return Row(
        "command",
        name,
        f"<= {BUDGET} x kubectl",
        f"{mine:.0f} ms, kubectl {kubectls:.0f} ms: {ratio:.2f} x",
        passed=ratio <= BUDGET,
        numbers={"milliseconds": list(ours), "kubectl_milliseconds": list(theirs)},
    )


def _taken(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], repeats: int
) -> list[list[float]]:
    """Return the times of each command in milliseconds, without the first, which fills caches."""
    times: list[list[float]] = [[] for _ in commands]
    for turn in range(repeats + 1):
        for command, taken in zip(commands, times, strict=True):
            milliseconds = _run(command, environment)
            if turn:
                taken.append(milliseconds)
    return times


def _run(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    milliseconds = (time.perf_counter() - began) * 1e3
    if done.returncode:
        raise Failed(f"{command[0]}: {done.stderr.decode(errors='replace').strip()}")
    return milliseconds


def _environment(folder: Path) -> dict[str, str]:
    """Return variables with which both have caches of their own, and Python keeps bytecode."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    unwanted = ("PYTHONDONTWRITEBYTECODE", "KUBECONFIG", "KUBECACHEDIR")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    prefix = str(folder / f"bytecode-{sys.version_info[0]}.{sys.version_info[1]}")
    return {**kept, "HOME": str(home), "PYTHONPYCACHEPREFIX": prefix}
