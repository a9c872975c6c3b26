"""Clients that write, read and watch through real replicas, and record what they did and saw."""

import asyncio
import contextlib
import hashlib
import itertools
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc.aio
import httpx2
from apidiscovery.service.v1 import (
    discovery_pb2,
    discovery_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from google.protobuf.duration_pb2 import Duration
from grpc_holding import Holding
from media_types import JSON_V2

from tests.robustness import documents
from tests.robustness.cluster import Replica
from tests.robustness.history import Event, History, Note, Read, Renewal, Write

CALL_S = 5.0
_SILENCE_S = 5.0
_HEARTBEAT_S = 1

_CHANNEL = (
    ("grpc.enable_retries", 0),  # a history has every attempt
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", -1),
)
# What says that nothing was done, whatever happened on the way.
_REFUSALS = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
_JSON = "application/json"

Work: TypeAlias = Coroutine[object, object, None]


@dataclass
class Target:
    """A replica as clients reach it."""

    replica: Replica
    channel: grpc.aio.Channel
    registry: "registry_pb2_grpc.RegistryServiceAsyncStub" = field(init=False)
    discovery: "discovery_pb2_grpc.DiscoveryServiceAsyncStub" = field(init=False)

    def __post_init__(self) -> None:
        self.registry = registry_pb2_grpc.RegistryServiceStub(self.channel)
        self.discovery = discovery_pb2_grpc.DiscoveryServiceStub(self.channel)

    @property
    def name(self) -> str:
        return self.replica.name


class Traffic:
    """What all clients of a round share.

    Attributes:
        targets: The replicas.
        writes: Set while writers may write.
        idle: How many writers are in the middle of nothing.
    """

    def __init__(self, history: History, targets: Sequence[Target], seed: int) -> None:
        self.history = history
        self.targets = targets
        self.seed = seed
        self.writes = asyncio.Event()
        self.writes.set()
        self._numbers = itertools.count(1)
        self._writing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def random(self, client: str) -> random.Random:
        """Return a source of chance of a client's own, the same for the same seed."""
        return random.Random(f"{self.seed} {client}")  # noqa: S311 - no secret

    def value(self) -> str:
        return documents.value(next(self._numbers))

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """Wait until writers may write; they are waited for by `quiet` meanwhile."""
        await self.writes.wait()
        self._writing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()

    async def quiet(self) -> None:
        """Let no writer write, and return when none is in the middle of it."""
        self.writes.clear()
        await self._idle.wait()


@asynccontextmanager
async def targets_of(replicas: Sequence[Replica]) -> AsyncGenerator[list[Target]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            Target(
                replica,
                await stack.enter_async_context(
                    grpc.aio.insecure_channel(replica.grpc, options=_CHANNEL)
                ),
            )
            for replica in replicas
        ]


@asynccontextmanager
async def clients(work: Sequence[Work]) -> AsyncGenerator[None]:
    """Run clients until the block ends; one that fails fails the round."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if isinstance(one, Exception):
            raise one


# --------------------------------------------------------------------------------------------------
# Writers.


class Key:
    """A group that is written, and what its writer knows of it."""

    def __init__(self, group: str, *, is_definition: bool) -> None:
        self.group = group
        self.is_definition = is_definition
        self.revision: int | None = 0

    @property
    def reference(self) -> tuple[registry_pb2.RegistrationKind.ValueType, str]:
        if self.is_definition:
            kind = registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION
            return kind, documents.definition_name(self.group)
        return registry_pb2.REGISTRATION_KIND_GROUPS, self.group


async def write(traffic: Traffic, client: str, keys: Sequence[Key], rate: float) -> None:
    """Write keys at random through replicas at random, until cancelled."""
    chance = traffic.random(client)
    while True:
        await asyncio.sleep(chance.expovariate(rate))
        async with traffic.writing():
            await _write_once(traffic, client, chance.choice(keys), chance)


async def _write_once(traffic: Traffic, client: str, key: Key, chance: random.Random) -> None:
    target = chance.choice(traffic.targets)
    value = traffic.value()
    expected = key.revision if chance.random() < 0.5 else None
    kind = chance.random()
    if kind < 0.06:
        op, call = "invalid", _invalid(target, key, value)
    elif kind < 0.12:
        expected = 1  # the first revision of a store is never one of a registration of ours
        op, call = "mismatch", _put(target, key, value, expected)
    elif kind < 0.25:
        op, call = "withdraw", _withdraw(target, key, expected)
    else:
        op, call = "put", _put(target, key, value, expected)
    began = traffic.history.now()
    outcome, detail, revision = await _outcome(call)
    traffic.history.add(
        Write(
            client,
            target.name,
            op,
            key.group,
            None if op == "withdraw" else value,
            began,
            traffic.history.now(),
            outcome,
            detail,
            revision,
            expected,
        )
    )
    key.revision = _known(key, op, outcome, detail, revision)


def _known(key: Key, op: str, outcome: str, detail: str, revision: int) -> int | None:
    """Return which revision the next write may expect."""
    if op in ("invalid", "mismatch"):
        return key.revision
    if outcome == "ok":
        return 0 if op == "withdraw" else revision
    # A mismatch means that somebody else has written, which only happens where keys are shared.
    return key.revision if outcome == "refused" and not detail.startswith("ABORTED") else None


async def _outcome(call: Coroutine[object, object, int]) -> tuple[str, str, int]:
    try:
        return "ok", "", await call
    except grpc.aio.AioRpcError as error:
        outcome = "refused" if error.code() in _REFUSALS else "unknown"
        return outcome, f"{error.code().name}: {error.details()}", 0


async def _put(target: Target, key: Key, value: str, expected: int | None) -> int:
    kind, name = key.reference
    if not key.is_definition:
        published = await target.registry.Publish(
            registry_pb2.PublishRequest(
                name=name, groups=documents.published(key.group, value), expected_revision=expected
            ),
            timeout=CALL_S,
        )
        return published.registration.revision
    reference = registry_pb2.RegistrationReference(kind=kind, name=name, expected_revision=expected)
    applied = await target.registry.Apply(
        registry_pb2.ApplyRequest(
            manifests=[
                registry_pb2.ApplyRequest.Manifest(content=documents.definition(key.group, value))
            ],
            expected=[] if expected is None else [reference],
        ),
        timeout=CALL_S,
    )
    return applied.documents[0].registration.revision


async def _invalid(target: Target, key: Key, value: str) -> int:
    """Ask for what must not be taken: a priority, or a group beside a definition, out of range."""
    if key.is_definition:
        sound = registry_pb2.ApplyRequest.Manifest(content=documents.definition(key.group, value))
        broken = documents.definition(key.group, value).replace(b'"Namespaced"', b'"Nowhere"')
        request = registry_pb2.ApplyRequest(
            manifests=[sound, registry_pb2.ApplyRequest.Manifest(content=broken)]
        )
        await target.registry.Apply(request, timeout=CALL_S)
        return 0
    groups = documents.published(key.group, value)
    groups.groups[0].group_priority_minimum = 10**6
    await target.registry.Publish(
        registry_pb2.PublishRequest(name=key.group, groups=groups), timeout=CALL_S
    )
    return 0


async def _withdraw(target: Target, key: Key, expected: int | None) -> int:
    kind, name = key.reference
    reference = registry_pb2.RegistrationReference(kind=kind, name=name, expected_revision=expected)
    await target.registry.Withdraw(
        registry_pb2.WithdrawRequest(registrations=[reference]), timeout=CALL_S
    )
    return 0


async def renew(
    traffic: Traffic, group: str, lease_s: float, removal_s: float, silence_s: float
) -> None:
    """Publish a group under a lease, renew it, be silent for a time, and begin again."""
    client, key = f"owner of {group}", Key(group, is_definition=False)
    chance = traffic.random(client)
    while True:
        until = traffic.history.now() + chance.uniform(2, 4) * lease_s
        while traffic.history.now() < until:
            await _renew_once(traffic, client, key, chance, lease_s, removal_s)
            await asyncio.sleep(lease_s / 4)
        await asyncio.sleep(silence_s)


async def _renew_once(  # noqa: PLR0913, PLR0917 - the lease in two numbers
    traffic: Traffic,
    client: str,
    key: Key,
    chance: random.Random,
    lease_s: float,
    removal_s: float,
) -> None:
    target = chance.choice(traffic.targets)
    began = traffic.history.now()
    outcome, detail, _ = await _outcome(_renew(target, key.group))
    if detail.startswith("NOT_FOUND"):
        async with traffic.writing():
            began, value = traffic.history.now(), traffic.value()
            lease = registry_pb2.OwnerLease(
                duration=_duration(lease_s), removal_after=_duration(removal_s)
            )
            request = registry_pb2.PublishRequest(
                name=key.group,
                groups=documents.published(key.group, value),
                owner=key.group,
                lease=lease,
            )
            outcome, detail, revision = await _outcome(_publish(target, request))
            ended = traffic.history.now()
            traffic.history.add(
                Write(
                    client,
                    target.name,
                    "lease",
                    key.group,
                    value,
                    began,
                    ended,
                    outcome,
                    detail,
                    revision,
                )
            )
    ended = traffic.history.now()
    traffic.history.add(Renewal(target.name, key.group, began, ended, outcome, lease_s, removal_s))


async def _publish(target: Target, request: registry_pb2.PublishRequest) -> int:
    return (await target.registry.Publish(request, timeout=CALL_S)).registration.revision


async def _renew(target: Target, owner: str) -> int:
    await target.registry.Renew(registry_pb2.RenewRequest(owner=owner), timeout=CALL_S)
    return 0


def _duration(seconds: float) -> Duration:
    return Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))


# --------------------------------------------------------------------------------------------------
# Readers over HTTP.


@dataclass(frozen=True, slots=True)
class Form:
    """A document in one form, and how it is read."""

    name: str
    path: str
    accept: str
    told: Callable[[bytes], documents.Told]


AGGREGATED = Form("aggregated /apis", "/apis", JSON_V2, documents.of_aggregated)
FORMS = (
    AGGREGATED,
    Form("plain /apis", "/apis", _JSON, documents.of_group_list),
    Form("OpenAPI index", "/openapi/v3", _JSON, documents.of_index),
)


async def read(
    traffic: Traffic,
    client: str,
    target: Target,
    rate: float,
    forms: Sequence[Form] = (AGGREGATED, *FORMS),
) -> None:
    """Read documents of a replica over HTTP, some under a condition, until cancelled."""
    chance = traffic.random(client)
    etags = dict[str, str]()
    async with httpx2.AsyncClient(trust_env=False, timeout=CALL_S) as http:
        while True:
            await asyncio.sleep(chance.expovariate(rate))
            form = chance.choice(forms)
            condition = etags.get(form.name, "") if chance.random() < 0.3 else ""
            answer = await ask(traffic.history, client, http, target.replica, form, condition)
            if answer.etag:
                etags[form.name] = answer.etag


async def ask(  # noqa: PLR0913, PLR0917 - a question and who keeps it
    history: History,
    client: str,
    http: httpx2.AsyncClient,
    replica: Replica,
    form: Form,
    condition: str = "",
) -> Read:
    """Ask once, and record it."""
    headers = {"Accept": form.accept} | ({"If-None-Match": condition} if condition else {})
    life, began = replica.life, history.now()
    status, etag, body, content, problem = "", "", "", "", ""
    try:
        answer = await http.get(f"http://{replica.http}{form.path}", headers=headers)
        status, etag = str(answer.status_code), answer.headers.get("etag", "")
        if status == "200":
            body = hashlib.sha256(answer.content).hexdigest()
            told = form.told(answer.content)
            content = history.content(told.values, told.stale)
    except httpx2.HTTPError as error:
        status, problem = "", f"{type(error).__name__}: {error}"
    except (ValueError, KeyError, TypeError) as error:
        problem = f"unreadable: {error!r}"
    done = Read(
        client,
        replica.name,
        life,
        form.name,
        began,
        history.now(),
        status,
        condition,
        etag,
        body,
        content,
        problem,
    )
    history.add(done)
    return done


# --------------------------------------------------------------------------------------------------
# Readers and watchers over gRPC.


def _values(held: Holding) -> dict[str, str]:
    return {item.name: documents.of_message(item.message) for item in held.named}  # type: ignore[arg-type]


def _stale(held: Holding) -> tuple[str, ...]:
    return tuple(
        item.name
        for item in held.named
        if any(version.freshness != "Current" for version in item.message.versions)
    )


async def get(traffic: Traffic, client: str, rate: float) -> None:
    """Ask replicas in turn for what has changed since the last answer, until cancelled."""
    chance, held = traffic.random(client), Holding()
    while True:
        await asyncio.sleep(chance.expovariate(rate))
        if chance.random() < 0.05:
            held = Holding()
        await _get_once(traffic, client, chance.choice(traffic.targets), held)


async def _get_once(traffic: Traffic, client: str, target: Target, held: Holding) -> None:
    scope = discovery_pb2.DISCOVERY_SCOPE_GROUPS
    life, began, history = target.replica.life, traffic.history.now(), traffic.history
    status, etag, content, problem = "OK", "", "", ""
    try:
        request = discovery_pb2.GetDiscoveryRequest(scope=scope, known_groups=held.known)
        answer = await target.discovery.GetDiscovery(request, timeout=CALL_S)
        etag = answer.etag
        held.apply(answer.delta)
        if held.etag(scope) != etag:
            problem = f"unreadable: the delta leads to {held.etag(scope)}"
        content = history.content(_values(held), _stale(held))
    except grpc.aio.AioRpcError as error:
        status, problem = error.code().name, error.details() or ""
    except AssertionError as error:
        problem = f"unreadable: the delta does not fit: {error}"
    if problem.startswith("unreadable"):
        held.core, held.named = [], []
    what, ended = "gRPC", history.now()
    history.add(
        Read(
            client, target.name, life, what, began, ended, status,
            etag=etag, content=content, problem=problem,
        )
    )  # fmt: skip


async def watch(
    traffic: Traffic, client: str, targets: Sequence[Target], lasts_s: float | None = None
) -> None:
    """Watch one of the replicas, go on at another when that ends, until cancelled.

    A stream is given up after `lasts_s`.
    """
    chance, held = traffic.random(client), Holding()
    for number in itertools.count():
        stream = f"{client}/{number}"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(lasts_s):
                await _watch_once(traffic, stream, chance.choice(targets), held)
        await asyncio.sleep(chance.uniform(0.05, 0.3))


async def _watch_once(traffic: Traffic, stream: str, target: Target, held: Holding) -> None:
    history, scope, life = (
        traffic.history,
        discovery_pb2.DISCOVERY_SCOPE_GROUPS,
        target.replica.life,
    )
    client = stream.partition("/")[0]

    def record(kind: str, *, etag: str = "", changed: dict[str, str] | None = None,
               removed: Sequence[str] = (), problem: str = "") -> None:  # fmt: skip
        ours = held.etag(scope) if etag else ""
        history.add(
            Event(
                client, target.name, life, stream, kind, history.now(),
                etag, ours, changed or {}, tuple(removed), problem,
            )
        )  # fmt: skip

    record("open", changed=_values(held))
    request = discovery_pb2.WatchDiscoveryRequest(
        scope=scope, known_groups=held.known, heartbeat_interval=Duration(seconds=_HEARTBEAT_S)
    )
    call = target.discovery.WatchDiscovery(request)
    try:
        while True:
            async with asyncio.timeout(_SILENCE_S):
                message = await call.read()
            if not isinstance(message, discovery_pb2.WatchDiscoveryResponse):
                record("end", problem="ended without a status")
                return
            if message.HasField("heartbeat"):
                record("heartbeat", etag=message.heartbeat.etag)
                continue
            delta = message.changes.delta
            held.apply(delta)
            changed = {one.name: documents.of_message(one.v2) for one in delta.changed}
            record("changes", etag=message.changes.etag, changed=changed, removed=delta.removed)
    except TimeoutError:
        record("end", problem=f"silent for {_SILENCE_S} s")
    except grpc.aio.AioRpcError as error:
        record("end", problem=f"{error.code().name}: {error.details()}")
    except AssertionError as error:
        record("end", problem=f"unreadable: the delta does not fit: {error}")
        held.core, held.named = [], []
    finally:
        call.cancel()


def see_ends(history: History, replicas: Sequence[Replica]) -> None:
    """Record replicas that have ended by themselves."""
    for replica in replicas:
        if replica.has_ended:
            history.add(Note(history.now(), replica.name, "ended by itself"))
