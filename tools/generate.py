"""Regenerate generated/ from protos/, or with --check fail if it is stale.

generated/ has the output of the generators, an __init__.py in each package (protoc writes none)
and a py.typed at each root. Never edit it by hand. etcd's protos have no betterproto stubs, since
only the service uses them.

Usage:  python tools/generate.py [--check]
"""

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PROTOS = REPO / "protos"
GENERATED = REPO / "generated"
BIN = Path(sys.executable).parent  # not resolved: in a virtual environment it is a link
PLUGINS = ("mypy", "mypy_grpc", "python_betterproto")
INIT = '"""Generated from protos/ by tools/generate.py. DO NOT EDIT."""\n'


def protoc(*args: str) -> None:
    """Run protoc with the plugins of this Python's environment, whatever PATH says."""
    plugins = [f"--plugin=protoc-gen-{name}={BIN / f'protoc-gen-{name}'}" for name in PLUGINS]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", *plugins, *args]
    # A developer's own settings of Python or of a generator must not change the output.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BETTERPROTO"))}
    result = subprocess.run(command, check=False, env=env, capture_output=True, text=True)
    if result.returncode:  # betterproto also writes to stderr on success
        sys.exit(f"protoc {' '.join(args)} failed:\n{result.stdout}{result.stderr}")


def generate(out: Path) -> None:
    """Write every stub under the empty directory `out`."""
    files = sorted(p.relative_to(PROTOS).as_posix() for p in PROTOS.rglob("*.proto"))
    services = [f for f in files if "\nservice " in (PROTOS / f).read_text(encoding="utf-8")]
    if not files:
        sys.exit(f"no .proto file below {PROTOS}")
    protoc(f"--python_out={out}", f"--mypy_out=quiet:{out}", *files)
    if services:
        protoc(f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}", *services)
    betterproto = out / "apidiscovery_betterproto"
    betterproto.mkdir()
    ours = [f for f in files if not f.startswith("apidiscovery_etcd/")]
    protoc(f"--python_betterproto_out={betterproto}", *ours)
    for directory in [p for p in sorted(out.rglob("*")) if p.is_dir()]:
        init = directory / "__init__.py"
        if not init.exists() or not init.read_bytes():
            init.write_bytes(INIT.encode())
    for root in sorted(out.iterdir()):
        (root / "py.typed").touch()


def tree(root: Path) -> set[str]:
    files = (p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(root).as_posix() for p in files}


def stale(fresh: Path) -> list[str]:
    """Return a line for each stale path of generated/, sorted by path."""
    wanted, present = tree(fresh), tree(GENERATED)
    different = filecmp.cmpfiles(fresh, GENERATED, wanted & present, shallow=False)[1]
    kinds = (("missing", wanted - present), ("extra", present - wanted), ("different", different))
    found = sorted((path, kind) for kind, paths in kinds for path in paths)
    return [f"{kind}: generated/{path}" for path, kind in found]


def main() -> int:
    parser = argparse.ArgumentParser(description="Regenerate generated/ from protos/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory)
        generate(fresh)
        if not check:
            shutil.rmtree(GENERATED, ignore_errors=True)
            shutil.copytree(fresh, GENERATED)
            return 0
        lines = stale(fresh)
    if lines:
        print(*lines, "generated/ is stale; run `make generate`", sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
