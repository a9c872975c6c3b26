"""Health checks: whether the server is alive and ready.

`/healthz` and `/livez` tell whether to restart the process, `/readyz` whether to send it requests.
The format of a report is that of k8s.io/apiserver pkg/server/healthz/healthz.go.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Endpoint: TypeAlias = Literal["healthz", "livez", "readyz"]
ENDPOINTS: tuple[Endpoint, ...] = get_args(Endpoint)

# Returns None for success, else the error.
Probe: TypeAlias = Callable[[], str | None]
# Called with the name of a check, the endpoint and whether it passed.
Observer: TypeAlias = Callable[[str, Endpoint, bool], None]


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    probe: Probe
    endpoints: Collection[Endpoint]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an endpoint's checks.

    Attributes:
        passed: Whether all checks passed that were not excluded.
        text: One line for each check, then the result, as `?verbose` shows it.
    """

    passed: bool
    text: str


class Checks:
    """The checks of this process, in the order of `add`."""

    def __init__(self, observe: Observer = lambda _name, _endpoint, _passed: None) -> None:
        self._observe = observe
        self._checks: list[_Check] = []
        self._warnings: list[Callable[[], Iterable[str]]] = []

    def add(self, name: str, probe: Probe, endpoints: Collection[Endpoint] = ENDPOINTS) -> None:
        """Add a check to some endpoints."""
        self._checks.append(_Check(name, probe, endpoints))

    def add_warnings(self, warnings: Callable[[], Iterable[str]]) -> None:
        """Show warnings in reports of `/readyz`, which they never make fail."""
        self._warnings.append(warnings)

    def warnings(self) -> list[str]:
        """Return a line for each problem that makes no check fail."""
        return [text for warnings in self._warnings for text in warnings()]

    def names(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return the names of an endpoint's checks, in order."""
        return tuple(check.name for check in self._checks if endpoint in check.endpoints)

    def report(self, endpoint: Endpoint, exclude: Collection[str] = ()) -> Report:
        """Run an endpoint's checks but for those excluded by name."""
        unmatched, lines, passed = set(exclude), list[str](), True
        for check in self._checks:
            if endpoint not in check.endpoints:
                continue
            if check.name in exclude:
                unmatched.discard(check.name)
                lines.append(f"[+]{check.name} excluded: ok")
            elif self._run(check, endpoint) is None:
                lines.append(f"[+]{check.name} ok")
            else:
                passed = False
                lines.append(f"[-]{check.name} failed: reason withheld")
        if unmatched:
            # Quoted, since the caller chose them: a line feed in a name must not make a line.
            names = ",".join(json.dumps(name, ensure_ascii=False) for name in sorted(unmatched))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if endpoint == "readyz":
            lines += [f"warn: {text}" for text in self.warnings()]
        lines.append(f"{endpoint} check {'passed' if passed else 'failed'}")
        return Report(passed, "".join(f"{line}\n" for line in lines))

    def single(self, endpoint: Endpoint, name: str) -> str | None:
        """Run one check; return its error, None for success.

        Raises:
            KeyError: The endpoint has no check of that name.
        """
        for check in self._checks:
            if check.name == name and endpoint in check.endpoints:
                return self._run(check, endpoint)
        raise KeyError(name)

    def _run(self, check: _Check, endpoint: Endpoint) -> str | None:
        wrong = check.probe()
        self._observe(check.name, endpoint, wrong is None)
        return wrong
