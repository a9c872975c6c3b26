"""The command that adds an extra to this installation of the package."""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "apidiscovery"


def install_command(extra: str) -> str:
    """Return the shell command, for the tool that this environment was made with.

    A wheel that was installed from a file is named by its path: an index need not have the package.
    """
    environment = Path(sys.prefix)
    if (environment / "pipx_metadata.json").is_file():
        tool = ["pipx", "install", "--force"]
    elif (environment / "uv-receipt.toml").is_file():
        tool = ["uv", "tool", "install", "--force"]
    elif find_spec("pip"):
        tool = [sys.executable, "-m", "pip", "install"]
    else:
        tool = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*tool, f"{_wheel() or _NAME}[{extra}]"])


def _wheel() -> Path | None:
    """Return the file that the package was installed from (PEP 610), if it is still there."""
    try:
        origin = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(json.loads(origin)["url"] if origin else "")
    path = Path(url2pathname(url.path))
    return path if url.scheme == "file" and path.suffix == ".whl" and path.is_file() else None
