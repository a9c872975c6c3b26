"""Build the sdist and the wheel, and try the wheel as a user has it.

Two fresh virtual environments: one with the client alone, which must work without the server's
packages, and one with the `server` extra, which must serve. What the wheel needs is taken from
requirements.lock, so that the build says something about our code and not about today's index.

Usage:  python tools/build.py
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
DIST = REPO / "dist"
START_S = 30.0

# Run by the environment that has only the wheel.
CLIENT_CHECK = """
import importlib.util, pathlib, apidiscovery_client
from apidiscovery_client.protos import protos_path
import apidiscovery.v2.discovery_pb2, apidiscovery_betterproto.apidiscovery.v2
assert (protos_path() / "apidiscovery/v2/discovery.proto").is_file(), protos_path()
assert importlib.util.find_spec("granian") is None, "the client environment has the server"
assert (pathlib.Path(apidiscovery_client.__file__).parent / "py.typed").is_file()
"""


def run(*command: str | Path) -> str:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def build() -> Path:
    """Build into an empty dist/; return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST))
    (wheel,) = DIST.glob("*.whl")
    return wheel


def install(directory: Path, wheel: Path, *extras: str) -> Path:
    """Make an environment with the wheel and what it needs at the locked versions."""
    venv.create(directory, with_pip=False)
    uv = Path(sys.executable).with_name("uv")
    name = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    python = directory / "bin" / "python"
    constraints = directory / "constraints.txt"
    constraints.write_text(
        run(uv, "pip", "freeze", "--python", sys.executable, "--exclude-editable")
    )
    run(uv, "pip", "install", "--quiet", "--python", python, "--constraint", constraints, name)
    return directory / "bin"


def try_server(bin_directory: Path, scratch: Path) -> None:
    """Serve the catalogue, list it with the wheel's own client, and stop."""
    ready = scratch / "ready.json"
    command = [str(bin_directory / "apidiscovery"), "serve", f"--ready-file={ready}"]
    server = subprocess.Popen([*command, "--http=127.0.0.1:0", "--grpc=127.0.0.1:0"])
    try:
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server of the wheel did not get ready")
            time.sleep(0.05)
        address = json.loads(ready.read_text())["http"]
        listed = run(bin_directory / "apidiscovery", "api-resources", f"--server=http://{address}")
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(START_S)
    if code or "deployments" not in listed:
        sys.exit(f"the server of the wheel ended with {code} and listed:\n{listed}")


def main() -> None:
    os.chdir(REPO)
    wheel = build()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        client = install(scratch / "client", wheel)
        run(client / "python", "-c", CLIENT_CHECK)
        run(client / "apidiscovery", "--help")
        try_server(install(scratch / "server", wheel, "server"), scratch)
    print(f"built and tried: {', '.join(path.name for path in sorted(DIST.iterdir()))}")


if __name__ == "__main__":
    main()
