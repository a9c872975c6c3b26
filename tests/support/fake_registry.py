"""A fake RegistryService, and a fake ListSources, with errors on demand."""

import copy
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
import yaml
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpc_fakes import End, ThreadedServer

CREATED_S = 1_700_000_000  # 2023-11-14T22:13:20Z

_KINDS = {
    "APIGroupDiscoveryList": registry_pb2.REGISTRATION_KIND_GROUPS,
    "CustomResourceDefinition": registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION,
    "APIService": registry_pb2.REGISTRATION_KIND_API_SERVICE,
}
_Key = tuple[int, str]
_Object = dict[str, Any]
_Context = grpc.ServicerContext


@dataclass(frozen=True)
class Call:
    """A call that arrived."""

    method: str
    request: Message
    metadata: Mapping[str, str | bytes]


@dataclass
class _Violations:
    found: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, path: str, message: str) -> None:
        self.found.append((path, message))


class FakeRegistry(ThreadedServer):
    """The server.

    Attributes:
        calls: Every call that arrived.
        ends: By method, how the next calls end, without being carried out.
        losses: By method, how the next calls end after being carried out.
        held: By kind and name.
        page_size: The most registrations in an answer of ListRegistrations.
        before_apply: Called before an Apply is answered.
    """

    def __init__(
        self,
        credentials: grpc.ServerCredentials | None = None,
        sources: tuple[discovery_pb2.DiscoverySource, ...] = (),
    ) -> None:
        super().__init__(credentials)
        self.calls: list[Call] = []
        self.ends: dict[str, deque[End]] = defaultdict(deque)
        self.losses: dict[str, deque[End]] = defaultdict(deque)
        self.held: dict[_Key, registry_pb2.Registration] = {}
        self.sources = sources
        self.page_size = 1000
        self.before_apply: Callable[[], object] = lambda: None
        self._revision = 0
        self._lock = threading.Lock()
        self.server.add_generic_rpc_handlers(_Service(self).handlers())

    def methods(self) -> list[str]:
        return [call.method for call in self.calls]

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]

    def arrived(self, method: str, request: Message, context: _Context) -> None:
        """Record a call, and end it if `ends` has an entry."""
        self.calls.append(Call(method, request, dict(context.invocation_metadata())))
        if self.ends[method]:
            self.ends[method].popleft().abort(context)

    def done(self, method: str, context: _Context) -> None:
        """End a call that was carried out, if `losses` has an entry."""
        if self.losses[method]:
            self.losses[method].popleft().abort(context)

    def put(self, registration: registry_pb2.Registration) -> registry_pb2.Registration:
        """Hold a registration under a new revision."""
        with self._lock:
            self._revision += 1
            registration.revision = self._revision
            registration.created.seconds = CREATED_S
            self.held[registration.kind, registration.name] = registration
        return registration

    def apply(self, *texts: str, name: str = "apis") -> None:
        """Hold the registrations of manifests."""
        manifests = [
            registry_pb2.ApplyRequest.Manifest(content=text.encode(), list_name=name)
            for text in texts
        ]
        for registration in _documents(manifests, _Violations()):
            self.put(registration)


class _Service:
    def __init__(self, registry: FakeRegistry) -> None:
        self._registry = registry

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        return [
            _handler(
                "RegistryService",
                {
                    "Apply": (self.apply, registry_pb2.ApplyRequest),
                    "Withdraw": (self.withdraw, registry_pb2.WithdrawRequest),
                    "ListRegistrations": (self.list, registry_pb2.ListRegistrationsRequest),
                },
            ),
            _handler(
                "DiscoveryService",
                {"ListSources": (self.list_sources, discovery_pb2.ListSourcesRequest)},
            ),
        ]

    def apply(
        self, request: registry_pb2.ApplyRequest, context: _Context
    ) -> registry_pb2.ApplyResponse:
        self._registry.before_apply()
        self._registry.arrived("Apply", request, context)
        violations = _Violations()
        wanted = list(_documents(request.manifests, violations))
        if violations.found:
            _abort_invalid(context, violations)
        for registration in wanted:
            self._see_revision(registration, request, context)
        documents = [self._take(registration, request) for registration in wanted]
        self._registry.done("Apply", context)
        return registry_pb2.ApplyResponse(documents=documents)

    def _see_revision(
        self,
        registration: registry_pb2.Registration,
        request: registry_pb2.ApplyRequest,
        context: _Context,
    ) -> None:
        key = registration.kind, registration.name
        held = self._registry.held.get(key)
        here = held.revision if held else 0
        expected = [
            reference.expected_revision
            for reference in request.expected
            if (reference.kind, reference.name) == key
        ]
        if registration.revision:  # its resourceVersion
            expected.append(registration.revision)
        if any(revision != here for revision in expected):
            message = f"{registration.name}: expected revision {expected[0]}, but it is at {here}"
            End(grpc.StatusCode.ABORTED, message).abort(context)

    def _take(
        self, registration: registry_pb2.Registration, request: registry_pb2.ApplyRequest
    ) -> registry_pb2.AppliedDocument:
        outcomes = registry_pb2.AppliedDocument
        registration.owner = request.owner
        held = self._registry.held.get((registration.kind, registration.name))
        if held and _content(held) == _content(registration):
            return outcomes(registration=held, outcome=outcomes.OUTCOME_UNCHANGED)
        if not request.dry_run:
            self._registry.put(registration)
        outcome = outcomes.OUTCOME_CONFIGURED if held else outcomes.OUTCOME_CREATED
        return outcomes(registration=registration, outcome=outcome)

    def withdraw(
        self, request: registry_pb2.WithdrawRequest, context: _Context
    ) -> registry_pb2.WithdrawResponse:
        self._registry.arrived("Withdraw", request, context)
        held = self._registry.held
        for reference in request.registrations:
            there = held.get((reference.kind, reference.name))
            if reference.HasField("expected_revision") and there:
                expected = reference.expected_revision
                if expected != there.revision:
                    message = f"{reference.name}: expected {expected}, but it is {there.revision}"
                    End(grpc.StatusCode.ABORTED, message).abort(context)
        keys: list[_Key] = [(one.kind, one.name) for one in request.registrations]
        if request.owner:
            keys += [key for key, value in held.items() if value.owner == request.owner]
        gone = [held.pop(key) for key in keys if key in held]
        self._registry.done("Withdraw", context)
        return registry_pb2.WithdrawResponse(
            withdrawn=[
                registry_pb2.RegistrationReference(
                    kind=one.kind, name=one.name, expected_revision=one.revision
                )
                for one in gone
            ]
        )

    def list(
        self, request: registry_pb2.ListRegistrationsRequest, context: _Context
    ) -> registry_pb2.ListRegistrationsResponse:
        self._registry.arrived("ListRegistrations", request, context)
        chosen = [
            registration
            for key, registration in sorted(self._registry.held.items())
            if (not request.kinds or key[0] in request.kinds)
            and (not request.names or key[1] in request.names)
        ]
        start = int(request.page_token or 0)
        end = start + min(self._registry.page_size, request.page_size or 1000)
        return registry_pb2.ListRegistrationsResponse(
            registrations=chosen[start:end],
            next_page_token=str(end) if end < len(chosen) else "",
        )

    def list_sources(
        self, request: discovery_pb2.ListSourcesRequest, context: _Context
    ) -> discovery_pb2.ListSourcesResponse:
        self._registry.arrived("ListSources", request, context)
        return discovery_pb2.ListSourcesResponse(sources=self._registry.sources)


def _handler(
    service: str, methods: Mapping[str, tuple[Callable[..., Message], type[Message]]]
) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(
        f"apidiscovery.service.v1.{service}",
        {
            name: grpc.unary_unary_rpc_method_handler(
                answer, request.FromString, lambda message: message.SerializeToString()
            )
            for name, (answer, request) in methods.items()
        },
    )


def _abort_invalid(context: _Context, violations: _Violations) -> NoReturn:
    details = error_details_pb2.BadRequest()
    for path, message in violations.found:
        details.field_violations.add(field=path, description=message)
    End(grpc.StatusCode.INVALID_ARGUMENT, "invalid", (details,)).abort(context)


def _documents(
    manifests: Any,  # noqa: ANN401 - a repeated field or a list
    violations: _Violations,
) -> Iterator[registry_pb2.Registration]:
    """Yield the documents; their `revision` is the resourceVersion that they name."""
    for place, manifest in enumerate(manifests):
        lists = 0
        for number, value in enumerate(_values(manifest, place, violations)):
            where = f"manifests[{place}].documents[{number}]"
            kind = _KINDS.get(value.get("kind", ""))
            spec, name = value.get("spec"), value.get("metadata", {}).get("name", "")
            if kind is None:
                violations.add(f"{where}.kind", f"{manifest.file}:1: want a kind that is known")
                continue
            if kind == registry_pb2.REGISTRATION_KIND_GROUPS:
                lists += 1
                name = name or manifest.list_name + (f"-{lists}" if lists > 1 else "")
            elif not isinstance(spec, dict):
                violations.add(f"{where}.spec", f"{manifest.file}:3: required")
                violations.add(f"{where}.metadata", "seen too")
                continue
            yield _registration(kind, name, value)


def _values(
    manifest: registry_pb2.ApplyRequest.Manifest, place: int, violations: _Violations
) -> Iterator[_Object]:
    try:
        loaded = list(yaml.load_all(manifest.content, yaml.CSafeLoader))
    except yaml.YAMLError:
        violations.add(f"manifests[{place}].content", f"{manifest.file}:1: no YAML")
        return
    for value in loaded:
        if value is not None:
            yield from value["items"] if value.get("kind") == "List" else [value]


def _registration(
    kind: registry_pb2.RegistrationKind.ValueType, name: str, value: _Object
) -> registry_pb2.Registration:
    value = copy.deepcopy(value)
    version = value.get("metadata", {}).pop("resourceVersion", "0")
    registration = registry_pb2.Registration(
        kind=kind,
        name=name,
        revision=int(version),
        state=registry_pb2.REGISTRATION_STATE_CURRENT,
    )
    if kind == registry_pb2.REGISTRATION_KIND_GROUPS:
        for item in value["items"]:
            ParseDict(item, registration.groups.groups.add().group)
        registration.groups.SetInParent()
    else:
        registration.manifest = json.dumps(value).encode()
    return registration


def _content(registration: registry_pb2.Registration) -> object:
    if registration.WhichOneof("content") == "groups":
        return registration.groups
    return json.loads(registration.manifest)
