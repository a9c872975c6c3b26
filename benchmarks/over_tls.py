"""The warm request path over TLS: ours in front of the server, against Granian's own."""

import contextlib
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from documents import groups, manifest
from load import Target, interleaved, missing
from processes import Failed, serving
from report import Clock, Row
from warm import GROUPS, LOADS, PATH, RESOURCES, Case, empty, ratio_row, read_cases

_CASES = ("304", "200 gzip")
# The same programs load over TLS; HTTP/2 is agreed upon in the handshake then.
_PROTOCOLS = {"HTTP/1.1": "HTTP/1.1", "h2c": "h2"}


def measure(folder: Path, rounds: int, seconds: int, clock: Clock) -> Iterator[Row]:
    """Yield a row for each case and protocol."""
    if not shutil.which("openssl"):
        yield Row("tls", "over TLS", "", skipped="no openssl (apt-get install openssl)")
        return
    file = folder / "600.json"
    file.write_bytes(manifest(groups(GROUPS, RESOURCES)))
    cert, key = _certificate(folder)
    context = ssl.create_default_context(cafile=str(cert))
    flags = ("--manifests", file, "--tls-cert-file", cert, "--tls-private-key-file", key)
    with serving(folder, *flags) as served:
        ours = Target(served.pid, f"https://{served.http}{PATH}")
        for case in read_cases(served.http, _CASES, context):
            with contextlib.ExitStack() as stack:
                first, second = (
                    stack.enter_context(empty(folder, case, (cert, key, context))) for _ in range(2)
                )
                cell = _Cell(case, {"empty": first, "ours": ours, "control": second}, clock)
                yield from (cell.row(protocol, rounds, seconds) for protocol in _PROTOCOLS)


@dataclass(frozen=True, slots=True)
class _Cell:
    case: Case
    targets: dict[str, Target]
    clock: Clock

    def row(self, plain: str, rounds: int, seconds: int) -> Row:
        """Load all targets; there is no budget, for how much TLS costs is not ours to say."""
        name = f"{self.case.name}, TLS {_PROTOCOLS[plain]}"
        tool, load = LOADS[plain]
        reason = missing(tool) or ("out of time" if self.clock.out() else None)
        if reason:
            return Row("tls", name, "", skipped=reason)
        runs = {
            key: partial(load, target, self.case.headers, seconds)
            for key, target in self.targets.items()
        }
        samples = interleaved(runs, rounds, self.clock.out)
        row = ratio_row("tls", name, samples, len(self.case.answer.body))
        return replace(row, budget="", passed=None, unclear=False)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / "server.crt", folder / "server.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    done = subprocess.run([*command.split(), *names, *files], capture_output=True, check=False)
    if done.returncode:
        raise Failed(f"openssl: {done.stderr.decode(errors='replace').strip()}")
    return cert, key
