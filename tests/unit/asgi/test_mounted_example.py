"""`examples/mounted.py` under a real server routes what it declares."""

import asyncio
import runpy
from pathlib import Path

from http_server import served
from programs import kubectl
from repository import EXAMPLES

from tools import find_tool

EXAMPLE = EXAMPLES / "mounted.py"


async def test_kubectl_gets_widgets(tmp_path: Path) -> None:
    find_tool("kubectl")
    async with served(runpy.run_path(str(EXAMPLE))["application"]()) as url:
        for where in ((), ("-n", "x"), ("-A",)):
            asked = ("--server", url, "get", "widgets", *where)
            outcome = await asyncio.to_thread(kubectl, tmp_path, *asked)
            assert outcome.exit_code == 0, outcome.stderr
            assert outcome.stderr.startswith("No resources found")
