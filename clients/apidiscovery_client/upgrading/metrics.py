"""Reads which deprecated APIs were called from the metrics of a kube-apiserver."""

import re
from dataclasses import dataclass

from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._http.reply import Reply

_METRIC = "apiserver_requested_deprecated_apis"
_LINE = re.compile(rf"^{_METRIC}\{{(.*)\}} +([0-9.e+]+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')
# A kube-apiserver has such metrics; servers that are like it, such as ours, have not.
_OF_KUBERNETES = re.compile(
    r"^(kubernetes_|apiserver_(admission|audit|flowcontrol|storage)_)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, order=True)
class Called:
    """A deprecated resource that clients asked one kube-apiserver for since it started.

    Attributes:
        removed: The first release without it, such as `1.32`; empty where none is planned.
    """

    group: str
    version: str
    resource: str
    removed: str


def called_in(reply: Reply) -> tuple[Called, ...]:
    """Return the deprecated resources that were called, sorted; subresources count as their parent.

    Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go `deprecatedRequestGauge`.

    Args:
        reply: To a request for `/metrics`.

    Raises:
        RequestRefused: The status is not 200.
        UnexpectedDocument: These are no metrics of Kubernetes.
    """
    text = reply.read(lambda _type, body: body.decode("utf-8", "replace"))
    if not _OF_KUBERNETES.search(text):
        raise UnexpectedDocument("these are no metrics of a kube-apiserver", url=reply.url)
    found = set[Called]()
    for line in _LINE.finditer(text):
        if float(line[2]) > 0:
            labels = {label[1]: label[2] for label in _LABEL.finditer(line[1])}
            names = ("group", "version", "resource", "removed_release")
            found.add(Called(*(labels.get(name, "") for name in names)))
    return tuple(sorted(found))
