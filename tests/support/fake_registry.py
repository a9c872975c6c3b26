"""RegistryService and ListSources in memory, on a real loopback socket, with errors on demand."""

import copy
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Self

import grpc
import yaml
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
    status_pb2,
)

CREATED_S = 1_700_000_000  # 2023-11-14T22:13:20Z

_KINDS = {
    "APIGroupDiscoveryList": registry_pb2.REGISTRATION_KIND_GROUPS,
    "CustomResourceDefinition": registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION,
    "APIService": registry_pb2.REGISTRATION_KIND_API_SERVICE,
}
_Key = tuple[int, str]
_Object = dict[str, Any]
_Context = grpc.ServicerContext


class Refusal(NamedTuple):
    """How a call ends instead of being answered.

    Attributes:
        done: Whether what was asked for is done all the same, and only the answer is lost.
    """

    code: grpc.StatusCode
    message: str = "no"
    details: tuple[Message, ...] = ()
    done: bool = False


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


class FakeRegistry:
    """The server; use it as a context manager.

    Attributes:
        calls: Every call that arrived.
        refusals: For a method, how its next calls end.
        held: By kind and name.
        page_size: The most registrations in an answer of ListRegistrations.
        before_apply: Called before an Apply is answered.
    """

    def __init__(
        self,
        credentials: grpc.ServerCredentials | None = None,
        sources: tuple[discovery_pb2.DiscoverySource, ...] = (),
    ) -> None:
        self.calls: list[Call] = []
        self.refusals: dict[str, deque[Refusal]] = {}
        self.held: dict[_Key, registry_pb2.Registration] = {}
        self.sources = sources
        self.page_size = 1000
        self.before_apply: Callable[[], object] = lambda: None
        self._revision = 0
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(_Service(self).handlers())
        if credentials is None:
            self._port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self._port = self._server.add_secure_port("127.0.0.1:0", credentials)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def refuse(self, method: str, *refusals: Refusal) -> None:
        """Let the next calls of a method end so."""
        self.refusals.setdefault(method, deque()).extend(refusals)

    def methods(self) -> list[str]:
        return [call.method for call in self.calls]

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]

    def arrived(self, method: str, request: Message, context: _Context) -> Refusal | None:
        """Note a call; end it, or return how it is to end once it is done."""
        metadata = dict(context.invocation_metadata())
        self.calls.append(Call(method, request, metadata))
        waiting = self.refusals.get(method)
        refusal = waiting.popleft() if waiting else None
        if refusal and not refusal.done:
            abort(context, refusal)
        return refusal

    def put(self, registration: registry_pb2.Registration) -> registry_pb2.Registration:
        """Hold a registration under a new revision."""
        with self._lock:
            self._revision += 1
            registration.revision = self._revision
            registration.created.seconds = CREATED_S
            self.held[registration.kind, registration.name] = registration
        return registration

    def apply(self, *texts: str, name: str = "apis") -> None:
        """Hold what manifests define."""
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
        late = self._registry.arrived("Apply", request, context)
        violations = _Violations()
        wanted = list(_documents(request.manifests, violations))
        if violations.found:
            _abort_invalid(context, violations)
        for registration in wanted:
            self._see_revision(registration, request, context)
        answer = registry_pb2.ApplyResponse(
            documents=[self._take(registration, request) for registration in wanted]
        )
        return abort(context, late) if late else answer

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
            abort(context, Refusal(grpc.StatusCode.ABORTED, message))

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
        late = self._registry.arrived("Withdraw", request, context)
        held = self._registry.held
        for reference in request.registrations:
            there = held.get((reference.kind, reference.name))
            if reference.HasField("expected_revision") and there:
                expected = reference.expected_revision
                if expected != there.revision:
                    message = f"{reference.name}: expected {expected}, but it is {there.revision}"
                    abort(context, Refusal(grpc.StatusCode.ABORTED, message))
        keys: list[_Key] = [(one.kind, one.name) for one in request.registrations]
        if request.owner:
            keys += [key for key, value in held.items() if value.owner == request.owner]
        gone = [held.pop(key) for key in keys if key in held]
        answer = registry_pb2.WithdrawResponse(
            withdrawn=[
                registry_pb2.RegistrationReference(
                    kind=one.kind, name=one.name, expected_revision=one.revision
                )
                for one in gone
            ]
        )
        return abort(context, late) if late else answer

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


def abort(context: _Context, refusal: Refusal) -> NoReturn:
    """End a call with a status, with details as google.rpc.Status where it has some."""
    if refusal.details:
        rich = status_pb2.Status(code=refusal.code.value[0], message=refusal.message)
        for detail in refusal.details:
            rich.details.add().Pack(detail)
        context.set_trailing_metadata((("grpc-status-details-bin", rich.SerializeToString()),))
    context.abort(refusal.code, refusal.message)
    raise AssertionError  # abort has raised


def _abort_invalid(context: _Context, violations: _Violations) -> NoReturn:
    details = error_details_pb2.BadRequest()
    for path, message in violations.found:
        details.field_violations.add(field=path, description=message)
    abort(context, Refusal(grpc.StatusCode.INVALID_ARGUMENT, "invalid", (details,)))


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
