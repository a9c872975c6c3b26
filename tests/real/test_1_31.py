"""A kube-apiserver 1.31, which has aggregated discovery v2 and v2beta1."""

from real_checks import ReleaseChecks

RELEASE = "1.31"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""
