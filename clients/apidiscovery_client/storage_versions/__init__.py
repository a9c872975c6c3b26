"""For API servers: reports their storage versions, and refuses writes before the report (KEP-2339).

A `StorageVersionReporter` keeps the server a member and its versions recorded;
`WriteGateMiddleware` (ASGI), `WriteGateInterceptor` and `AsyncWriteGateInterceptor` (gRPC) refuse
earlier writes. For migrations: `wait_for_agreement` and `migration_guard`.
"""

from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.storage_versions.agreement import (
    Agreement,
    NoAgreement,
    agreement_progress,
    wait_for_agreement,
)
from apidiscovery_client.storage_versions.asgi import WriteGateMiddleware
from apidiscovery_client.storage_versions.gate import (
    Gate,
    GroupResource,
    Refusal,
    RequestAttributes,
    StoredResource,
    WriteGate,
)
from apidiscovery_client.storage_versions.grpc_server import (
    AsyncWriteGateInterceptor,
    GuardedMethods,
    WriteGateInterceptor,
    follow_health,
)
from apidiscovery_client.storage_versions.migration import AgreementLost, migration_guard
from apidiscovery_client.storage_versions.reporter import (
    ReporterEnded,
    StorageVersionReporter,
    Timing,
)
from apidiscovery_client.storage_versions.request_info import UnreadablePath, request_attributes
from apidiscovery_client.storage_versions.service import ServiceChannels

__all__ = [
    "Agreement",
    "AgreementLost",
    "AsyncWriteGateInterceptor",
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
