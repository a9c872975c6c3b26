"""A kube-apiserver 1.31, which has aggregated discovery v2 and v2beta1."""

import pytest
from real_checks import ReleaseChecks


@pytest.fixture(scope="module")
def release() -> str:
    """Return the release of Kubernetes."""
    return "1.31"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""
