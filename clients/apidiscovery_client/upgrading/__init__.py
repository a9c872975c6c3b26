"""Plans the steps before a cluster is upgraded to a release of Kubernetes.

For example:

    with DiscoveryClient(transport) as client:
        evidence = read_cluster("prod", client.refresh(), transport)
        steps = plan(evidence, "1.36").steps
"""

from apidiscovery_client.upgrading.evidence import Evidence as Evidence
from apidiscovery_client.upgrading.evidence import read_cluster as read_cluster
from apidiscovery_client.upgrading.model import Plan as Plan
from apidiscovery_client.upgrading.model import Rule as Rule
from apidiscovery_client.upgrading.model import Step as Step
from apidiscovery_client.upgrading.model import Urgency as Urgency
from apidiscovery_client.upgrading.planning import plan as plan
