"""Build the sdist and the wheel, and test the wheel in fresh virtual environments.

The client alone must discover a server in JSON; with the extra `grpc` all modules must import,
except those of other extras; with `betterproto` its stubs must import; with `server` the server
must serve. The extras `server` and `betterproto` are added by the commands that the errors name, of
uv and of pip. Dependencies have the versions of requirements.lock, so that the result does not
depend on the index.

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
UV = Path(sys.executable).with_name("uv")
START_S = 30.0

# Runs in the environment with the wheel alone.
CLIENT_CHECK = """
import importlib.util, apidiscovery_client
from apidiscovery_client.testing import FakeApiServer
for package in ("grpc", "google", "betterproto", "granian"):
    assert importlib.util.find_spec(package) is None, f"the client environment has {package}"
with FakeApiServer() as server, apidiscovery_client.DiscoveryClient(server.url) as client:
    assert client.resolve("deploy").resource.kind == "Deployment"
from apidiscovery_releases import Release
assert Release.read("v1.31").openapi_v3("apis/apps/v1").startswith(b'{"openapi":')
try:
    apidiscovery_client.DiscoveryClient("grpc://127.0.0.1:1")
except apidiscovery_client.InvalidConfiguration as error:
    assert "[grpc]" in str(error), error
else:
    raise AssertionError("grpcio is not missed")
"""

# Runs in the environment with the extra `grpc`.
GRPC_CHECK = """
import importlib, importlib.util, pathlib, pkgutil
import apidiscovery_cli, apidiscovery_client, apidiscovery_formats, apidiscovery_kubeconfig
import apidiscovery_releases
OURS = (apidiscovery_cli, apidiscovery_client, apidiscovery_formats, apidiscovery_kubeconfig,
        apidiscovery_releases)
# Adapters import packages that their users have installed.
ADAPTED = ("kr8s", "kubernetes", "kubernetes_asyncio", "lightkube")
FOR_OTHERS = {f"apidiscovery_client.adapters.{name}" for name in ADAPTED}
FOR_OTHERS |= {"apidiscovery_client.testing.plugin"}  # pytest
from apidiscovery_client.protos import protos_path
import apidiscovery.v2.discovery_pb2
assert (protos_path() / "apidiscovery/v2/discovery.proto").is_file(), protos_path()
assert importlib.util.find_spec("granian") is None, "the client environment has the server"
assert importlib.util.find_spec("betterproto") is None, "the client environment has betterproto"
for package in OURS:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if "betterproto" not in module.name and module.name not in FOR_OTHERS:
            importlib.import_module(module.name)
try:
    apidiscovery_client.DiscoveryClient("grpc://127.0.0.1:1", stubs="betterproto")
except apidiscovery_client.InvalidConfiguration as error:
    print(str(error).partition("run: ")[2])
else:
    raise AssertionError("betterproto is not missed")
assert (pathlib.Path(apidiscovery_client.__file__).parent / "py.typed").is_file()
"""

BETTERPROTO_CHECK = """
import apidiscovery_betterproto.apidiscovery.v2
import apidiscovery_client
apidiscovery_client.DiscoveryClient("grpc://127.0.0.1:1", stubs="betterproto")
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


def pin_versions(scratch: Path) -> None:
    """Let uv and pip install the versions of this environment, and let a shell find this uv."""
    constraints = scratch / "constraints.txt"
    constraints.write_text(
        run(UV, "pip", "freeze", "--python", sys.executable, "--exclude-editable")
    )
    os.environ["UV_CONSTRAINT"] = os.environ["PIP_CONSTRAINT"] = str(constraints)
    os.environ["PATH"] = f"{UV.parent}{os.pathsep}{os.environ['PATH']}"


def install(directory: Path, wheel: str, *, with_pip: bool = False) -> Path:
    """Make an environment with the wheel; return its folder of programs."""
    venv.create(directory, with_pip=with_pip)
    run(UV, "pip", "install", "--quiet", "--python", directory / "bin" / "python", wheel)
    return directory / "bin"


def follow(advice: str, wheel: Path, extra: str) -> None:
    """Run the command that an error message names for an extra of the wheel."""
    if f"{wheel}[{extra}]" not in advice:
        sys.exit(f"a missing extra does not name {wheel}[{extra}]: {advice}")
    run("sh", "-c", advice)


def try_server(bin_directory: Path, scratch: Path) -> None:
    """Serve the catalogue, list it with the wheel's own client, and stop."""
    ready = scratch / "ready.json"
    command = [str(bin_directory / "apidiscovery"), "serve", f"--ready-file={ready}"]
    server = subprocess.Popen([*command, "--http=127.0.0.1:0", "--grpc=127.0.0.1:0"])
    try:
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server of the wheel did not become ready")
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
        pin_versions(scratch)
        client = install(scratch / "client", str(wheel))
        run(client / "python", "-c", CLIENT_CHECK)
        run(client / "apidiscovery", "--help")
        missing = subprocess.run(
            [client / "apidiscovery", "serve"], check=False, capture_output=True, text=True
        )
        follow(missing.stderr.partition("run: ")[2].partition("\n")[0], wheel, "server")
        try_server(client, scratch)
        grpc = install(scratch / "grpc", f"{wheel}[grpc]", with_pip=True)
        follow(run(grpc / "python", "-c", GRPC_CHECK).strip(), wheel, "betterproto")
        run(grpc / "python", "-c", BETTERPROTO_CHECK)
    print(f"built and tested: {', '.join(path.name for path in sorted(DIST.iterdir()))}")


if __name__ == "__main__":
    main()
