"""Reads numbers out of `/metrics`."""

import re

from raw_http import get

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def total(port: int, name: str, /, **labels: str) -> float:
    """Return the sum of the samples of that name that have at least these labels."""
    text = get(port, "/metrics").body.decode()
    return sum(
        float(value)
        for sample, pairs, value in _SAMPLE.findall(text)
        if sample == name and labels.items() <= dict(_LABEL.findall(pairs)).items()
    )


def requests(port: int, **labels: str) -> float:
    """Return how many requests with these labels were answered."""
    return total(port, "apidiscovery_http_requests_total", **labels)
