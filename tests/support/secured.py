"""HTTP and gRPC behind the TLS front, in this process, with certificates and tokens."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio
import httpx2
from apidiscovery_service.access import Grant, Role
from apidiscovery_service.access.authenticator import Access, Peers
from apidiscovery_service.access.limits import CallerLimits
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.connect.calls import ConnectCalls
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.front import (
    Certificates,
    Front,
    FrontMetrics,
    TokenFile,
    follow,
)
from apidiscovery_service.serving.grpc import (
    AdmissionInterceptor,
    DiscoveryService,
    GrpcServer,
)
from apidiscovery_service.serving.grpc.fleet import FleetService
from apidiscovery_service.serving.grpc.openapi import OpenAPIService
from apidiscovery_service.serving.grpc.storage_versions import StorageVersionService
from apidiscovery_service.serving.grpc.unread import UnreadInterceptor
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, HttpServer, Site
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.unread import UnreadBudget
from apidiscovery_service.sources.catalog import kubernetes_catalog
from certificates import Authority, KeyPair
from fleet_clusters import cluster, fleet_of
from metrics_text import Scraped
from openapi_recipes import APPS_DOCUMENT, APPS_KEY, FakeRecipes
from waiting import WITHIN_S

Metadata: TypeAlias = tuple[tuple[str, str], ...]

# By user. No log, error, metric or repr may ever show a token.
TOKENS = {
    "rita": "token-of-rita",
    "paul": "token-of-paul",
    "ada": "token-of-ada",
    "nemo": "token-of-nemo",
}

# A group may read, paul may publish API groups below example.com, and nemo may do nothing.
GRANTS = (
    Grant(Role.READER, groups=frozenset({"readers"})),
    Grant(Role.PUBLISHER, users=frozenset({"paul"}), api_groups=("*.example.com",)),
    Grant(Role.ADMIN, users=frozenset({"ada"})),
)


@dataclass
class Secured(Scraped):
    """Running servers and their parts."""

    folder: Path
    authority: Authority
    pair: KeyPair
    token_file: Path
    access: Access
    registry: Registry
    metrics: Metrics
    certificates: Certificates
    tokens: TokenFile
    http_front: Front
    grpc_front: Front

    def client(
        self, user: str = "", *, certificate: KeyPair | None = None, http2: bool = False
    ) -> httpx2.AsyncClient:
        """Return a client with a user's token or certificate, or with neither."""
        return httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{self.http_front.port}",
            verify=self.authority.trusted(certificate),
            http1=not http2,
            http2=http2,
            headers=bearer(user),
            trust_env=False,
            timeout=WITHIN_S,
        )

    def channel(self, certificate: KeyPair | None = None) -> grpc.aio.Channel:
        """Return a channel, with a certificate or without."""
        files = [file.read_bytes() for file in certificate] if certificate else [None, None]
        credentials = grpc.ssl_channel_credentials(
            self.authority.ca_file.read_bytes(), files[1], files[0]
        )
        return grpc.aio.secure_channel(f"127.0.0.1:{self.grpc_front.port}", credentials)

    def write_tokens(self, users: Sequence[str]) -> None:
        write_tokens(self.token_file, users)


def bearer(user: str) -> dict[str, str]:
    """Return the header with a user's token; that of the stranger is unknown."""
    if not user:
        return {}
    token = "unheard-of" if user == "stranger" else TOKENS[user]
    return {"authorization": f"Bearer {token}"}


def call_metadata(user: str) -> Metadata:
    """Return the same for a gRPC call."""
    return tuple(bearer(user).items())


def write_tokens(file: Path, users: Sequence[str]) -> None:
    """Write a token file; `rita` is in the group `readers`."""
    lines = [
        f'{TOKENS[user]},{user},{number},"{"readers" if user == "rita" else ""}"\n'
        for number, user in enumerate(users)
    ]
    file.write_text("".join(lines))


@asynccontextmanager
async def secured(
    folder: Path,
    *,
    grants: Sequence[Grant] = GRANTS,
    limits: CallerLimits | None = None,
) -> AsyncGenerator[Secured]:
    """Serve the built-in catalogue and one OpenAPI document, with these grants."""
    authority = Authority(folder / "ca")
    pair = authority.server(["127.0.0.1", "::1", "localhost"])
    token_file = folder / "tokens.csv"
    write_tokens(token_file, tuple(TOKENS))
    metrics, counts, registry, peers = Metrics(), FrontMetrics(), Registry(), Peers()
    metrics.register(counts)
    registry.publish(kubernetes_catalog())
    encoding = CurrentEncoding(registry)
    certificates = Certificates(*pair, authority.ca_file, counts)
    tokens = TokenFile(token_file, metrics=counts)
    access = Access(grants, tokens.value, peers, limits)
    tokens.use = access.use_tokens
    checks = Checks()
    checks.add("ping", lambda: None)
    checks.add_warnings(certificates.warnings)
    checks.add_warnings(tokens.warnings)
    documents = Documents(FakeRecipes({"apps": {APPS_KEY: APPS_DOCUMENT}}))
    site = Site(checks, metrics, openapi=OpenAPIAnswers(documents))
    fleet = fleet_of(cluster("east"))
    fronts = [
        Front(
            name,
            "127.0.0.1",
            0,
            certificates=certificates,
            peers=peers,
            limits=access.limits,
            metrics=counts,
        )
        for name in ("http", "grpc")
    ]
    services = (
        DiscoveryService(registry, encoding, FeatureGates(), metrics),
        OpenAPIService(documents, metrics),
        FleetService(lambda _context: fleet.scope(), metrics),
        StorageVersionService(None, registry, metrics, access),
    )
    calls = ConnectCalls(
        services,
        [
            AdmissionInterceptor(access, metrics, limits_rate=False),
            UnreadInterceptor(UnreadBudget(), access, peers),
        ],
        metrics,
    )
    gateway = Gateway(encoding, site, access=access, peers=peers, calls=calls)
    http = HttpServer(gateway, fronts[0].server_path)
    rpc = GrpcServer(*services, interceptors=[AdmissionInterceptor(access, metrics)])
    await rpc.start(f"unix:{fronts[1].server_path}")
    await rpc.set_ready()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(http.serve())
        tasks.create_task(fronts[0].serve())
        tasks.create_task(fronts[1].serve())
        following = tasks.create_task(follow(certificates, tokens))
        try:
            yield Secured(
                *(folder, authority, pair, token_file, access, registry, metrics),
                *(certificates, tokens, fronts[0], fronts[1]),
            )
        finally:
            following.cancel()
            await asyncio.gather(http.stop(0.2), rpc.stop(0.2), *(f.stop(0.2) for f in fronts))
