"""For API servers: says which version they write of what they store, and gates writes until then.

A `StorageVersionReporter` keeps the server a member and recorded; `WriteGateMiddleware` (ASGI) and
`WriteGateInterceptor` (gRPC) refuse what would be written ahead of that (KEP-2339). For migrators:
`wait_for_agreement` and `migration_guard`.
"""

from apidiscovery_client.storage_versions.agreement import (
    Agreement,
    NoAgreement,
    agreement_progress,
    wait_for_agreement,
)
from apidiscovery_client.storage_versions.asgi import WriteGateMiddleware
from apidiscovery_client.storage_versions.gate import (
    Gate,
    Refusal,
    RequestAttributes,
    WriteGate,
)
from apidiscovery_client.storage_versions.grpc_health import follow_health
from apidiscovery_client.storage_versions.grpc_interceptor import (
    GuardedMethods,
    SyncWriteGateInterceptor,
    WriteGateInterceptor,
)
from apidiscovery_client.storage_versions.migration import AgreementLost, migration_guard
from apidiscovery_client.storage_versions.reporter import ReporterEnded, StorageVersionReporter
from apidiscovery_client.storage_versions.request_info import UnreadablePath, request_attributes
from apidiscovery_client.storage_versions.resources import (
    GroupResource,
    GroupVersionResource,
    StoredResource,
)
from apidiscovery_client.storage_versions.service_channels import CallFailed, ServiceChannels
from apidiscovery_client.storage_versions.timing import Timing

__all__ = [
    "Agreement",
    "AgreementLost",
    "CallFailed",
    "Gate",
    "GroupResource",
    "GroupVersionResource",
    "GuardedMethods",
    "NoAgreement",
    "Refusal",
    "ReporterEnded",
    "RequestAttributes",
    "ServiceChannels",
    "StorageVersionReporter",
    "StoredResource",
    "SyncWriteGateInterceptor",
    "Timing",
    "UnreadablePath",
    "WriteGate",
    "WriteGateInterceptor",
    "WriteGateMiddleware",
    "agreement_progress",
    "follow_health",
    "migration_guard",
    "request_attributes",
    "wait_for_agreement",
]
