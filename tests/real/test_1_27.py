"""A kube-apiserver 1.27, whose aggregated discovery is v2beta1."""

from real_checks import ReleaseChecks

RELEASE = "1.27"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""
