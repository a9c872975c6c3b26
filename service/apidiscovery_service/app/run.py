"""The server: its parts and their order, its start and its end.

The listeners, the worker processes and the store are closed last, in this order.
"""

import asyncio
import contextlib
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import cast

import structlog
import uvloop
from apidiscovery_releases import Release, newest

from apidiscovery_service import workers
from apidiscovery_service.app import process
from apidiscovery_service.app.listeners import GrpcListener, HttpListener, SecureServing
from apidiscovery_service.app.readiness import Readiness, once_available
from apidiscovery_service.app.settings import Security, Settings
from apidiscovery_service.app.upstream_specs import ClusterSpecs, service_settings
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import UPSTREAM, Source, SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.fleet.view_documents import ViewDocuments
from apidiscovery_service.history.history import History, history_path
from apidiscovery_service.history.model import MERGED, HistoryError
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.connect.calls import ConnectCalls
from apidiscovery_service.serving.feature_gates import OPENAPI_V3, STORAGE_VERSION_API
from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer
from apidiscovery_service.serving.grpc.admission import admit_call
from apidiscovery_service.serving.grpc.calls import Service
from apidiscovery_service.serving.grpc.fleet import FleetService
from apidiscovery_service.serving.grpc.history import HistoryService
from apidiscovery_service.serving.grpc.openapi import OpenAPIService
from apidiscovery_service.serving.grpc.registry import RegistryService
from apidiscovery_service.serving.grpc.storage_versions import StorageVersionService
from apidiscovery_service.serving.grpc.unread import UnreadInterceptor
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.clusters import ClusterAnswers
from apidiscovery_service.serving.http.cross_origin import CrossOrigin
from apidiscovery_service.serving.http.fleet import FleetAnswers
from apidiscovery_service.serving.http.objects.gateway import ObjectAnswers
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.pages_interface import (
    NoPages,
    PagesOnDemand,
    UserInterface,
    missing_packages,
)
from apidiscovery_service.serving.http.past import PastAnswers
from apidiscovery_service.serving.http.views import ViewAnswers
from apidiscovery_service.serving.unread import UnreadBudget
from apidiscovery_service.sources.catalog import Catalog
from apidiscovery_service.sources.clusters.clusters import Clusters, Contexts
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes
from apidiscovery_service.sources.manifests.folder import Manifests
from apidiscovery_service.sources.registrations import Registrations
from apidiscovery_service.sources.storage_version_api import StorageVersionApi
from apidiscovery_service.sources.upstreams.follower import Upstreams
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import ClusterDocuments
from apidiscovery_service.sources.upstreams.services import ServiceSettings
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.storage_versions.state import StorageVersions
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import Claims, own_holder
from apidiscovery_service.store.observed import ObservedStore
from apidiscovery_service.store.urls import open_store

# The time that requests have after SIGTERM; regular ones take a fraction of a second.
DRAIN_S = 5.0

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        InvalidManifests: A manifest cannot be read at the start.
        InvalidConfiguration: A file that the settings name cannot be used.
        StoreRefused: The store cannot be used at all.
        OSError: An address cannot be listened on, or the ready file cannot be written.
    """
    process.tune()
    try:
        uvloop.run(_serve(settings))
    except BaseExceptionGroup as group:
        # An error of a background task is an error of the server like any other.
        known, unknown = group.split((DiscoveryError, OSError))
        if known is None or unknown is not None:
            raise
        raise _leaves(known)[0] from group


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, and of the groups in it; else the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return [leaf for one in inner for leaf in _leaves(one)]


def software_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("apidiscovery")
    except PackageNotFoundError:
        return "0"


async def _serve(settings: Settings) -> None:
    # Files that the settings name are read before anything is started.
    metrics = Metrics()
    security = SecureServing(settings.security, metrics)
    specs = ClusterSpecs(
        settings.cluster_options,
        openapi=settings.gates[OPENAPI_V3],
        merge=not settings.no_merge,
        may_all_read=security.access.all_may_read,
    )
    upstreams = [specs.upstream(upstream) for upstream in settings.upstreams]
    services = service_settings(settings)
    store = ObservedStore(await open_store(settings.store, settings.etcd), metrics.store)
    server = _Server(
        settings, store, security, metrics, specs=specs, upstreams=upstreams, services=services
    )
    try:
        await server.open_history()
        await server.serve()
    finally:
        await server.close()


def older_release(settings: Settings) -> Release | None:
    """Return the release whose kube-apiserver this server answers as; None for today's forms."""
    release = settings.catalog.release
    return None if release is None or release.name == newest().name else release


class _Server:
    """All parts of a server, and its life from start to end; it runs once."""

    def __init__(  # noqa: PLR0913 - it joins them
        self,
        settings: Settings,
        store: ObservedStore,
        security: SecureServing,
        metrics: Metrics,
        *,
        specs: ClusterSpecs,
        upstreams: list[UpstreamSpec],
        services: ServiceSettings,
    ) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._metrics = metrics
        self._unread = UnreadBudget()
        metrics.register(self._unread)
        self._security = security
        self._older = older_release(settings)
        has_timestamps = self._older is not None and self._older.has_creation_timestamps
        self._registry = Registry(has_creation_timestamps=has_timestamps)
        self._encoding = CurrentEncoding(self._registry)
        self._declarations = declarations = Declarations(self._registry)
        self._manifests = Manifests(settings.manifests, declarations, self._metrics)
        self._registrations = Registrations(store, declarations)
        self._store = store
        self._claims = Claims(store, own_holder())
        self._claims.register("owners", self._registrations.expire_owners)
        self._storage_versions, self._objects = self._make_storage_versions(store)
        self._upstreams = Upstreams(
            store,
            self._registry,
            declarations,
            self._claims,
            self._metrics,
            specs=upstreams,
            services=services,
        )
        self._readiness = Readiness(self._registry, self._upstreams)
        self._clusters = self._make_clusters(specs, upstreams)
        self._fleet = Fleet(settings.views)
        self._upstreams.on_clusters(self._fleet.update)
        self._sources = self._make_sources()
        self._documents = self._make_documents(declarations)
        self._checks = self._make_checks()
        self._history: History | None = None
        self._web: UserInterface | None = None
        _count_snapshots(self._registry, self._metrics)

    def _make_clusters(self, specs: ClusterSpecs, upstreams: list[UpstreamSpec]) -> Clusters:
        settings = self._settings
        contexts = Contexts(settings.kubeconfig, settings.contexts)
        return Clusters(
            self._upstreams.update_mirrors,
            specs.cluster,
            folders=settings.clusters,
            contexts=contexts if contexts.patterns else None,
            taken=[spec.name for spec in upstreams],
            is_trusted=settings.trust_clusters,
        )

    def _make_sources(self) -> list[Source]:
        """Return all sources, in the order in which they are loaded."""
        sources: list[Source] = [self._manifests]
        if self._settings.catalog.release is not None:
            sources.append(Catalog(self._registry, self._settings.catalog.release))
        sources += (self._registrations, self._clusters, self._upstreams)
        if self._storage_versions is not None:
            sources += (self._storage_versions, StorageVersionApi(self._registry))
        return sources

    def _make_documents(self, declarations: Declarations) -> Documents:
        release = self._settings.catalog.release
        recipes = DocumentRecipes(
            self._registry,
            declarations,
            self._upstreams.documents,
            self._metrics.crd_openapi.observe,
            release,
        )
        documents = Documents(recipes, self._metrics.observe_openapi, release=release)
        recipes.on_change(documents.changed)
        return documents

    def _make_storage_versions(
        self, store: Store
    ) -> tuple[StorageVersions | None, ObjectAnswers | None]:
        """Return the state of storage versions, and what answers for it over HTTP."""
        if not self._settings.gates[STORAGE_VERSION_API]:
            return None, None
        state = StorageVersions(store)
        state.claim(self._claims)
        return state, ObjectAnswers(state.collection, state.lease_collection)

    def _make_checks(self) -> Checks:
        checks = Checks(self._metrics.observe_check)
        checks.add("ping", lambda: None)
        checks.add("log", lambda: None)
        checks.add("local-sources", self._readiness.why_not, ["readyz"])
        checks.add(
            "shutdown",
            lambda: "process is shutting down" if self._stopping.is_set() else None,
            ["readyz"],
        )
        checks.add(
            "store", lambda: self._store.damage() or self._registrations.missing(), ["readyz"]
        )
        for warnings in (
            self._declarations.warnings,
            self._store.warnings,
            *(source.warnings for source in self._sources),
            self._documents.warnings,
            self._security.warnings,
        ):
            checks.add_warnings(warnings)
        return checks

    async def open_history(self) -> None:
        """Record changes from now on, if the settings ask for it.

        A server without a history serves all the same, so an error here is only a warning.
        """
        if self._settings.history is None:
            return
        try:
            history = await History.open(
                history_path(self._settings.store),
                self._settings.history,
                lambda name: self._fleet.etag(name) if name else self._registry.snapshot.named.etag,
                self._openapi_of,
            )
        except (HistoryError, OSError) as error:
            reason = str(error)
            _log.warning("no history until the next start", reason=reason)
            self._checks.add_warnings(lambda: [f"no history: {reason}"])
            return
        self._history = history
        self._upstreams.on_clusters(history.clusters_changed)
        self._upstreams.documents.on_published(
            lambda source: history.documents_changed(source.removeprefix(UPSTREAM))
        )
        self._registry.on_touched(self._remember)
        # A schema may change where discovery stays as it was.
        for on_change in (self._declarations.on_documents, self._upstreams.documents.on_change):
            on_change(
                lambda groups: history.merged_documents_changed(self._registry.sources_of(groups))
            )
        self._documents.on_change(lambda: history.merged_documents_changed(()))
        self._checks.add_warnings(history.warnings)
        self._claims.register("history", history.record)

    def _remember(self, _groups: frozenset[str], causes: frozenset[str]) -> None:
        if self._history:
            self._history.merged_changed(self._registry.snapshot, causes)

    async def _openapi_of(self, cluster: str) -> Mapping[str, Recipe]:
        if cluster != MERGED:
            return self._upstreams.documents.all_known(f"{UPSTREAM}{cluster}")
        return await self._documents.current()

    async def close(self) -> None:
        """Close the files, once nothing is served any more."""
        if self._history:
            await self._history.close()
        await self._store.close()

    async def serve(self) -> None:
        """Listen, load the sources, announce it, and serve until a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        services = self._services()
        counted = UnreadInterceptor(self._unread, self._security.access, self._security.peers)
        http, grpc = self._http(services, counted), self._grpc(services, counted)
        failure: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            if http is not None:
                tasks.create_task(http.serve())
            try:
                await self._serve(tasks, http, grpc)
            except (DiscoveryError, OSError) as error:
                failure = error
            finally:
                await self._drain(services, http, grpc)
        # After the last poll, which would report it as a failure of the upstream.
        workers.close()
        if failure is not None:
            raise failure

    async def _serve(
        self, tasks: asyncio.TaskGroup, http: HttpListener | None, grpc: GrpcListener | None
    ) -> None:
        if grpc is not None:
            await grpc.start()
        reloading = tasks.create_task(self._security.follow())
        following: list[asyncio.Task[None]] = [reloading]
        try:
            if not await self._load():
                return
            following += [tasks.create_task(source.follow()) for source in self._sources]
            following.append(tasks.create_task(self._claims.run()))
            if grpc is not None:
                following.append(tasks.create_task(self._say_ready(grpc)))
            addresses = {
                "http": str(http.address) if http else None,
                "grpc": str(grpc.address) if grpc else None,
            }
            with process.ready_file(self._settings.ready_file, addresses):
                shown = _shown(addresses, self._settings.security)
                _log.info("serving", **shown, groups=self._registry.snapshot.named.size)
                await self._stopping.wait()
            _log.info("stopping", delay_s=self._settings.shutdown_delay_s, drain_s=DRAIN_S)
            await self._delay_end([each for each in (http, grpc) if each])
        finally:
            for task in following:
                task.cancel()

    def _stop(self) -> None:
        """Begin to stop; the second time, skip the delay for load balancers."""
        if self._stopping.is_set():
            self._hurried.set()
        self._stopping.set()

    async def _delay_end(self, listeners: Sequence[HttpListener | GrpcListener]) -> None:
        """Answer without being ready for a while, so that new requests go elsewhere."""
        if not self._settings.shutdown_delay_s:
            return
        for listener in listeners:
            await listener.announce_end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdown_delay_s):
                await self._hurried.wait()

    async def _say_ready(self, grpc: GrpcListener) -> None:
        await self._readiness.has_something()
        if not self._stopping.is_set():
            await grpc.set_ready()

    async def _load(self) -> bool:
        """Load the sources; return False if a signal came first."""
        loading = asyncio.create_task(self._load_sources())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            loading.cancel()
            return False
        await loading
        self._readiness.set_loaded()
        return True

    async def _load_sources(self) -> None:
        with process.without_collections():
            for source in self._sources:
                await once_available(source.load)

    async def _drain(
        self,
        services: Sequence[Service],
        http: HttpListener | None,
        grpc: GrpcListener | None,
    ) -> None:
        """Stop both listeners concurrently, and the streams of both."""
        self._stopping.set()
        for streaming in (self._objects, self._web):
            if streaming is not None:
                streaming.stop()
        stops = [server.stop(DRAIN_S) for server in (http, grpc) if server is not None]
        await asyncio.gather(*stops, *(service.streams.end() for service in services))

    def _http(self, services: Sequence[Service], counted: UnreadInterceptor) -> HttpListener | None:
        address = self._settings.http
        if address is None:
            return None
        site = Site(
            self._checks,
            self._metrics,
            self._settings.gates,
            version=software_version(),
            release=self._settings.catalog.release or newest(),
            openapi=OpenAPIAnswers(self._documents),
            objects=self._objects,
            is_defined=self._declarations.defines,
            awaited=self._readiness.awaited,
            aggregated_versions=self._older.aggregated_versions if self._older else None,
        )
        documents = ClusterDocuments(self._upstreams.documents, self._metrics.observe_openapi)
        view_documents = ViewDocuments(self._upstreams.documents, self._metrics.observe_openapi)
        past = PastAnswers(self._history, site)
        fleet = FleetAnswers(
            self._fleet,
            site,
            ClusterAnswers(self._fleet, site, documents),
            ViewAnswers(site, view_documents),
            past,
        )
        gateway = Gateway(
            self._encoding,
            site,
            self._readiness.is_loaded,
            self._security.access,
            self._unread,
            self._security.peers,
            fleet,
            past,
            self._make_web(site, documents),
            ConnectCalls(
                services,
                (*self._security.interceptors(self._metrics, limits_rate=False), counted),
                self._metrics,
            ),
        )
        allowed = self._settings.cors_origins
        application = CrossOrigin(gateway, allowed) if allowed else gateway
        listener = HttpListener(address, application, self._security)
        # Port 0 is replaced by a free one only now.
        site.server_address = str(listener.address)
        return listener

    def _make_web(self, site: Site, documents: ClusterDocuments) -> UserInterface | None:
        """Return the pages for browsers, or why there are none; None where they are off."""
        if not self._settings.web:
            return None
        if missing := missing_packages():
            _log.info("no pages for browsers", missing=missing, extra="apidiscovery[web]")
            return NoPages(missing)

        def make() -> UserInterface:
            from apidiscovery_service.web.application import WebInterface  # noqa: PLC0415
            from apidiscovery_service.web.view import Served  # noqa: PLC0415

            served = Served(
                self._registry,
                self._encoding,
                self._fleet,
                documents,
                site,
                self._statuses,
                self._checks,
                self._readiness.is_loaded,
                self._history,
                self._storage_versions,
            )
            return WebInterface(served, self._security.access)

        self._web = PagesOnDemand(partial(import_module, "apidiscovery_service.web"), make)
        return self._web

    def _grpc(self, services: Sequence[Service], counted: UnreadInterceptor) -> GrpcListener | None:
        address = self._settings.grpc
        if address is None:
            return None
        interceptors = (*self._security.interceptors(self._metrics), counted)
        server = GrpcServer(*services, interceptors=interceptors)
        return GrpcListener(address, server, self._security)

    def _services(self) -> Sequence[Service]:
        """Return the services, which both listeners serve."""
        discovery = DiscoveryService(
            self._registry,
            self._encoding,
            self._settings.gates,
            self._metrics,
            ready=self._readiness.is_loaded,
            awaited=self._readiness.awaited,
            statuses=self._statuses,
            access=self._security.access,
        )
        registry = RegistryService(
            self._registrations,
            self._metrics,
            self._security.access,
            ready=self._readiness.is_loaded,
            statuses=self._statuses,
        )
        openapi = OpenAPIService(
            self._documents,
            self._metrics,
            enabled=self._settings.gates[OPENAPI_V3],
            ready=self._readiness.is_ready,
        )
        storage_versions = StorageVersionService(
            self._storage_versions,
            self._registry,
            self._metrics,
            self._security.access,
            ready=self._readiness.is_loaded,
        )
        fleet = FleetService(
            lambda context: self._fleet.scope(admit_call(self._security.access, context).clusters),
            self._metrics,
            ready=self._readiness.is_loaded,
        )
        history = HistoryService(
            self._history,
            self._metrics,
            ready=self._readiness.is_loaded,
            access=self._security.access,
        )
        return discovery, registry, openapi, storage_versions, fleet, history

    def _statuses(self) -> list[SourceStatus]:
        return [state for source in self._sources for state in source.states()]


def _shown(addresses: dict[str, str | None], security: Security) -> dict[str, str]:
    """Return the addresses as the log shows them, and a command to try."""
    http, grpc = addresses["http"], addresses["grpc"]
    url = f"{'https' if security.has_tls else 'http'}://{http}"
    command = "api-resources --server " + url if http else f"get sources --grpc-server {grpc}"
    if security.has_tls:
        command += " --certificate-authority FILE"
    if security.identifies:
        command += " --token TOKEN"
    urls = {"http": url if http else "", "grpc": grpc or ""}
    shown = {name: where for name, where in urls.items() if where}
    return {**shown, "to_try": f"{shlex.quote(sys.argv[0])} {command}"}


def _count_snapshots(registry: Registry, metrics: Metrics) -> None:
    """Count the snapshots that a registry publishes from now on."""
    before = registry.snapshot

    def count(snapshot: Snapshot) -> None:
        nonlocal before
        metrics.aggregations.inc(
            (snapshot.core is not before.core) + (snapshot.named is not before.named)
        )
        metrics.groups.set(snapshot.core.size + snapshot.named.size)
        before = snapshot

    registry.subscribe(count)
