"""A kube-apiserver 1.25, which has no aggregated discovery."""

from real_checks import ReleaseChecks

RELEASE = "1.25"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""
