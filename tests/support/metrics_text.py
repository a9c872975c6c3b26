"""Sums samples in the text of `/metrics`, also of a server of this process."""

import re

from apidiscovery_service.metrics import Metrics
from raw_http import get

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def sample_sum(text: str, name: str, /, **labels: str) -> float:
    """Return the sum of the samples of that name that have at least these labels."""
    return sum(
        float(value)
        for sample, pairs, value in _SAMPLE.findall(text)
        if sample == name and labels.items() <= dict(_LABEL.findall(pairs)).items()
    )


class Scraped:
    """A server of this process, whose metrics are read as a scrape shows them."""

    metrics: Metrics

    def sample(self, name: str, **labels: str) -> float:
        """Return a metric; 0 when it is absent."""
        return sample_sum(self.metrics.text().decode(), name, **labels)

    @property
    def watchers(self) -> float:
        """The number of open watches of discovery and of fleets."""
        return self.sample("apidiscovery_grpc_watchers")


def total(port: int, name: str, /, **labels: str) -> float:
    """Return this sum for a server."""
    return sample_sum(get(port, "/metrics").body.decode(), name, **labels)


def requests(port: int, **labels: str) -> float:
    """Return the number of answered requests with these labels."""
    return total(port, "apidiscovery_http_requests_total", **labels)
