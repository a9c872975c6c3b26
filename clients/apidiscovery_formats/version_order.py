"""The order of versions in Kubernetes, by stability and number.

Source: k8s.io/apimachinery pkg/version/helpers.go:CompareKubeAwareVersionStrings.

>>> sorted(["v1alpha1", "v11beta2", "v2", "foo10", "v10", "v3beta1", "foo1"], key=kube_aware_key)
['v10', 'v2', 'v11beta2', 'v3beta1', 'v1alpha1', 'foo1', 'foo10']
"""

import re
from functools import lru_cache
from typing import TypeAlias

KubeAwareKey: TypeAlias = tuple[int, int, int, str]

_KUBE_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}
_GO_MAX_INT = 2**63 - 1
_GO_MAX_DIGITS = len(str(_GO_MAX_INT))
_NOT_KUBE_LIKE = len(_STABILITY)


@lru_cache(maxsize=4096)
def kube_aware_key(version: str) -> KubeAwareKey:
    """Return a key by which an ascending sort puts the greatest version first.

    GA comes before beta before alpha, then the greater number first. Versions that do not look like
    `v1`, `v1beta1` or `v1alpha1`, or have a number beyond Go's int, come last in alphabetical
    order. Versions that are equal in Kubernetes (`v1`, `v01`) are ordered by name, so that the
    order is total.
    """
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (_NOT_KUBE_LIKE, 0, 0, version)
    major, minor = _go_int(match[1]), _go_int(match[3] or "0")
    if major is None or minor is None:
        return (_NOT_KUBE_LIKE, 0, 0, version)
    return (_STABILITY[match[2]], -major, -minor, version)


def _go_int(digits: str) -> int | None:
    """Return the number; None if Go's int cannot hold it, however many digits it has."""
    significant = digits.lstrip("0")
    if len(significant) > _GO_MAX_DIGITS or int(significant or "0") > _GO_MAX_INT:
        return None
    return int(significant or "0")
