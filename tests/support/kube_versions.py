"""Kubernetes' order of versions, without code of the service."""

import re

GO_MAX_INT = 9223372036854775807


def _parsed(version: str) -> tuple[int, int, int] | None:
    match = re.fullmatch(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?", version)
    if not match or max(int(match[1]), int(match[3] or 0)) > GO_MAX_INT:
        return None
    return ({None: 2, "beta": 1, "alpha": 0}[match[2]], int(match[1]), int(match[3] or 0))


def contract_less(a: str, b: str) -> bool:
    """Tell whether `a` is before `b`; False if Kubernetes takes them for equal, as v1 and v01."""
    left, right = _parsed(a), _parsed(b)
    if left is None or right is None:
        return left is not None or (right is None and a < b)
    return left > right
