"""An adapter needs only its own package."""

import subprocess
import sys

import pytest

PACKAGES = ("kubernetes", "kubernetes_asyncio", "kr8s", "lightkube")


def imported_by(statement: str) -> set[str]:
    """Return those of the packages that a new process has imported after a statement."""
    script = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-W", "ignore", "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(done.stdout.split()).intersection(PACKAGES)


def test_the_package_of_adapters_imports_none_of_the_packages() -> None:
    assert imported_by("import apidiscovery_client.adapters") == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_an_adapter_imports_its_own_package_alone(package: str) -> None:
    assert imported_by(f"import apidiscovery_client.adapters.{package}") == {package}
