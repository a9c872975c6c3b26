"""A kube-apiserver 1.25, which has no aggregated discovery."""

import pytest
from real_checks import ReleaseChecks


@pytest.fixture(scope="module")
def release() -> str:
    """Return the release of Kubernetes."""
    return "1.25"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""
