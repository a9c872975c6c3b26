"""What stands before both servers: limits, TLS, who calls, and what they may do."""

import asyncio
from collections.abc import Sequence

from grpc.aio import ServerInterceptor

from apidiscovery_service.access.authenticator import Access, Peers
from apidiscovery_service.app.listeners import Fronts
from apidiscovery_service.app.settings import Security
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.front import Certificates, FrontMetrics, TokenFile, follow
from apidiscovery_service.serving.grpc import AdmissionInterceptor, CallAccess


class SecureServing:
    """What the settings of security make.

    Attributes:
        access: Who may ask for what; None lets everybody ask for everything.
        fronts: What listeners are put behind.
    """

    def __init__(self, security: Security, metrics: Metrics) -> None:
        """Read the files.

        Raises:
            InvalidConfiguration: One cannot be used.
        """
        counts = FrontMetrics()
        metrics.register(counts)
        self.peers = peers = Peers()
        self._tokens: TokenFile | None = None
        self._certificates: Certificates | None = None
        self.access: Access | None = None
        if security.token_auth_file:
            self._tokens = TokenFile(security.token_auth_file, metrics=counts)
        if security.identifies:
            tokens = self._tokens.value if self._tokens else None
            self.access = Access(security.grants, tokens, peers, security.limits)
            if self._tokens:
                self._tokens.use = self.access.use_tokens
        if security.tls_cert_file and security.tls_private_key_file:
            self._certificates = Certificates(
                security.tls_cert_file,
                security.tls_private_key_file,
                security.client_ca_file,
                counts,
            )
        self.fronts = Fronts(self._certificates, peers, security.limits, counts)

    @property
    def call_access(self) -> CallAccess | None:
        """What gRPC handlers ask."""
        return CallAccess(self.access) if self.access else None

    def interceptors(self, metrics: Metrics) -> Sequence[ServerInterceptor]:
        """Return what stands around gRPC calls."""
        return [AdmissionInterceptor(self.access, metrics)] if self.access else []

    def warnings(self) -> list[str]:
        """Return what is wrong with the files as they are now."""
        return [text for file in self._files() for text in file.warnings()]

    async def follow(self) -> None:
        """Read files again when they change, until cancelled."""
        if files := self._files():
            await follow(*files)
        else:
            await asyncio.Event().wait()

    def _files(self) -> list[Certificates | TokenFile]:
        return [file for file in (self._certificates, self._tokens) if file]
