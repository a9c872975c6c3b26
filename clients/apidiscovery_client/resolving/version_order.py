"""The order in which Kubernetes likes versions best, where no server says otherwise.

Source: apimachinery pkg/version/helpers.go `CompareKubeAwareVersionStrings`.

>>> sorted(["v1alpha1", "v11beta2", "v2", "foo10", "v10", "v3beta1", "foo1"], key=kube_aware_key)
['v10', 'v2', 'v11beta2', 'v3beta1', 'v1alpha1', 'foo1', 'foo10']
"""

import re
from typing import TypeAlias

KubeAwareKey: TypeAlias = tuple[int, int, int, str]

_KUBE_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}
_NOT_KUBE_LIKE = len(_STABILITY)
_GO_MAX_INT = 2**63 - 1
_GO_MAX_DIGITS = len(str(_GO_MAX_INT))


def kube_aware_key(version: str) -> KubeAwareKey:
    """Return a key by which an ascending sort puts the greatest version first.

    GA comes before beta before alpha, then the greater number first; whatever does not look like
    `v1`, `v1beta1` or `v1alpha1`, or has a number that Go cannot hold, comes last in alphabetical
    order. Versions that Kubernetes calls equal (`v1`, `v01`) are ordered by name.
    """
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (_NOT_KUBE_LIKE, 0, 0, version)
    major, minor = _go_int(match[1]), _go_int(match[3] or "0")
    if major is None or minor is None:
        return (_NOT_KUBE_LIKE, 0, 0, version)
    return (_STABILITY[match[2]], -major, -minor, version)


def compare_versions(one: str, other: str) -> int:
    """Return 1 where the first version is greater, -1 where it is less, 0 for the same text."""
    key, against = kube_aware_key(one), kube_aware_key(other)
    return (key < against) - (key > against)


def _go_int(digits: str) -> int | None:
    """Return the number; None where Go's int cannot hold it, however long it is."""
    significant = digits.lstrip("0")
    if len(significant) > _GO_MAX_DIGITS or int(significant or "0") > _GO_MAX_INT:
        return None
    return int(significant or "0")
