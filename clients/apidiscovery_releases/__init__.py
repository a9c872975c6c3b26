"""Recorded answers of kube-apiservers, one of each release of Kubernetes: discovery and OpenAPI.

>>> from apidiscovery_releases import Release
>>> Release.read("v1.31").plain("/api")[:21]
b'{"kind":"APIVersions"'
"""

from apidiscovery_releases.facts import facts_text
from apidiscovery_releases.names import UnknownRelease, minor_of, wire_versions
from apidiscovery_releases.release import Release, newest, releases

__all__ = [
    "Release",
    "UnknownRelease",
    "facts_text",
    "minor_of",
    "newest",
    "releases",
    "wire_versions",
]
