"""Checks manifests for a server: kinds that it does not serve, fields that it does not know.

For example:

    with DiscoveryClient(transport) as client:
        schemas = ServedSchemas(transport, name)
        checked = check(read_manifests(text, name), client.refresh(), schemas)
        broken = checked.of(Severity.ERROR)
"""

from apidiscovery_client.checking.checker import check as check
from apidiscovery_client.checking.model import Checked as Checked
from apidiscovery_client.checking.model import Finding as Finding
from apidiscovery_client.checking.model import Rule as Rule
from apidiscovery_client.checking.model import Severity as Severity
