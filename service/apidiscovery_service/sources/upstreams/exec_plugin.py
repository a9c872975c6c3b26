"""Credentials from a program, as `users[].user.exec` of a kubeconfig asks for.

Source: client-go plugin/pkg/client/auth/exec/exec.go and pkg/apis/clientauthentication.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import cast

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.credentials import (
    ClientCertificate,
    CredentialsUnavailable,
    Proof,
    bearer,
)
from apidiscovery_service.sources.upstreams.fields import Fields
from apidiscovery_service.sources.upstreams.tls import Tls

EXTENSION = "client.authentication.k8s.io/exec"  # the cluster extension that is handed on
TIMEOUT_S = 60.0
LEEWAY_S = 10.0  # renewed this long before the end, or a fifth of the lifetime if that is less
MAX_OUTPUT_BYTES = 1 << 20
_MAX_STDERR_CHARACTERS = 500
_MAX_SEARCHED_CHARACTERS = 4000  # for secrets, which takes time in the square of it

_GROUP = "client.authentication.k8s.io"
_V1 = f"{_GROUP}/v1"
_API_VERSIONS = (_V1, f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")

_SECRETS = re.compile(
    r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)"
    r"|(?i:\b(?:bearer|basic) +\S+)"
    r"|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"  # a JSON web token
    r"|(?i:(?:token|secret|passw(?:or)?d)(?:=|\"\s*:\s*))\S+"
    r"|\b(?=[\w+~-]*\d)[\w+~-]{20,}=*",  # long, with a digit: no word
    re.DOTALL,
)
_SECRET_NAME = re.compile(r"secret|token|password|passwd|key|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """How the program is run.

    Attributes:
        where: The key of the kubeconfig that asks for it, for errors.
        command: An absolute path, or a name to look up in PATH.
        env: Beside the environment of this process, which they override.
        api_version: Of the ExecCredential that is handed in and must come out.
        install_hint: What the author of the kubeconfig says to whoever lacks the program.
        cluster: What the program is told of the cluster; None for nothing.
    """

    where: str
    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the program."""
        spec: dict[str, object] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        return {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def failed(self, message: str) -> CredentialsUnavailable:
        return CredentialsUnavailable(f"{self.where}: {self.command}: {message}")


def read_plugin(fields: Fields, cluster: Mapping[str, object]) -> Plugin:
    """Return the plugin of the keys under `exec`; `cluster` is told to it if it asks for that.

    Raises:
        InvalidConfiguration: A key is missing or wrong, or the plugin wants a terminal.
    """
    api_version = fields.text("apiVersion")
    if api_version not in _API_VERSIONS:
        wanted = " or ".join(_API_VERSIONS)
        raise fields.wrong("apiVersion", f"want {wanted}, got {api_version or 'nothing'}")
    mode = fields.text("interactiveMode") or ("" if api_version == _V1 else "IfAvailable")
    if mode not in _MODES:
        raise fields.wrong("interactiveMode", f"want Never or IfAvailable, got {mode or 'nothing'}")
    if mode == "Always":
        raise fields.wrong(
            "interactiveMode",
            "Always needs a terminal, and a server has none;"
            " want a plugin that works with Never or IfAvailable",
        )
    command = fields.text("command")
    if not command:
        raise fields.wrong("command", "want the program to run, got nothing")
    return Plugin(
        where=fields.place.rstrip("."),
        command=_resolved(fields) if os.sep in command else command,
        api_version=api_version,
        args=fields.texts("args"),
        env=_variables(fields),
        install_hint=fields.text("installHint"),
        cluster=cluster if fields.flag("provideClusterInfo") else None,
    )


def cluster_info(
    *, url: str, tls: Tls, proxy_url: str, disable_compression: bool, config: object
) -> dict[str, object]:
    """Return `spec.cluster` of an ExecCredential (client-go rest/exec.go `ConfigToExecCluster`).

    Raises:
        InvalidConfiguration: The file of the authority cannot be read.
    """
    info: dict[str, object] = {
        "server": url,
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.insecure,
        "certificate-authority-data": (
            base64.b64encode(tls.ca.read()).decode() if tls.ca is not None else ""
        ),
        "proxy-url": proxy_url,
        "disable-compression": disable_compression,
    }
    told = {key: value for key, value in info.items() if value or key == "server"}
    return told | {"config": config}


@dataclass(frozen=True, slots=True)
class _Issued:
    """What the plugin gave.

    Attributes:
        fresh_until: Seconds since the epoch; None for ever.
    """

    proof: Proof
    fresh_until: float | None


class ExecPlugin:
    """Credentials from a plugin, kept until shortly before they expire.

    One run at a time serves all who wait for it, and goes on when they give up: the next to ask
    finds what it gave.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._issued: _Issued | None = None
        self._run: asyncio.Task[_Issued] | None = None

    async def get(self) -> Proof:
        """Return what is valid now; run the plugin if need be."""
        issued = self._issued
        if issued is not None and (issued.fresh_until is None or time.time() < issued.fresh_until):
            return issued.proof
        if self._run is None:
            self._run = asyncio.create_task(_issue(self._plugin), name="exec plugin")
            self._run.add_done_callback(self._take)
        return (await asyncio.shield(self._run)).proof

    async def certificate(self) -> ClientCertificate | None:
        return (await self.get()).certificate

    def drop(self, refused: str | None = None) -> None:
        """Forget what was issued, unless another one than `refused` was meanwhile."""
        if self._issued is not None and refused in (None, self._issued.proof.authorization):
            self._issued = None

    def describe(self) -> str:
        return f"exec plugin {self._plugin.command}"

    async def aclose(self) -> None:
        """End the plugin if it runs."""
        run = self._run
        if run is not None:
            run.cancel()
            await asyncio.wait([run])

    def _take(self, run: "asyncio.Task[_Issued]") -> None:
        self._run = None
        if not run.cancelled() and run.exception() is None:
            self._issued = run.result()


async def _issue(plugin: Plugin) -> _Issued:
    """Run the plugin; return what it gives, or raise `CredentialsUnavailable`."""
    if shutil.which(plugin.command) is None:
        hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
        raise plugin.failed(f"no such program, or it may not be run{hint}")
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=plugin.environment(),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # so that what it starts itself is ended with it
        )
    except (OSError, ValueError) as error:
        raise plugin.failed(f"cannot be run: {error}") from None
    try:
        async with asyncio.timeout(plugin.timeout_s):
            output, complaints = await _outputs(process)
            status = await process.wait()
    except TimeoutError:
        await _end(process)
        raise plugin.failed(f"not done after {plugin.timeout_s:g} s; it was ended") from None
    except BaseException:
        await _end(process)
        raise
    if len(output) > MAX_OUTPUT_BYTES:
        raise plugin.failed(f"more than {MAX_OUTPUT_BYTES} bytes on its standard output")
    if status != 0:
        said = _without_secrets(complaints.decode("utf-8", "replace"), plugin)
        raise plugin.failed(f"failed with status {status}: {said or 'it said nothing'}")
    return _read(output, plugin)


async def _outputs(process: Process) -> tuple[bytes, bytes]:
    """Return standard output and the beginning of standard error, both read to their ends."""
    if process.stdout is None or process.stderr is None:
        raise TypeError("want a process whose outputs are pipes")
    async with asyncio.TaskGroup() as readers:
        output = readers.create_task(_beginning(process.stdout))
        complaints = readers.create_task(_beginning(process.stderr))
    return output.result(), complaints.result()


async def _beginning(stream: asyncio.StreamReader) -> bytes:
    """Return up to one byte more than `MAX_OUTPUT_BYTES`; skip the rest, so that nobody waits."""
    kept = bytearray()
    while some := await stream.read(1 << 16):
        kept += some[: MAX_OUTPUT_BYTES + 1 - len(kept)]
    return bytes(kept)


async def _end(process: Process) -> None:
    """End a process with those it started, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _read(output: bytes, plugin: Plugin) -> _Issued:
    """Return what an ExecCredential holds; an error does not quote it."""
    try:
        value = cast("object", json.loads(output))
        return _issued(Fields(value, "the ExecCredential."), plugin)
    except (ValueError, RecursionError):
        raise plugin.failed("want an ExecCredential in JSON, got something else") from None
    except InvalidConfiguration as error:
        raise plugin.failed(str(error)) from None


def _issued(credential: Fields, plugin: Plugin) -> _Issued:
    """Return what an ExecCredential holds; raise `InvalidConfiguration`.

    Source: exec.go `refreshCredsLocked`.
    """
    kind, api_version = credential.text("kind"), credential.text("apiVersion")
    if (kind, api_version) != ("ExecCredential", plugin.api_version):
        raise InvalidConfiguration(
            f"want an ExecCredential of {plugin.api_version}, as configured,"
            f" got {kind[:100] or 'no kind'} of {api_version[:100] or 'no apiVersion'}"
        )
    status = credential.inner("status")
    token, certificate = status.text("token"), status.text("clientCertificateData")
    key = status.text("clientKeyData")
    if bool(certificate) != bool(key):
        raise InvalidConfiguration("gave a certificate or a key, want both")
    if not token and not certificate:
        raise InvalidConfiguration("gave no token and no certificate with its key")
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
    if pair is not None:
        Tls().context(pair)
    proof = Proof(bearer(token, status.where("token")) if token else None, pair)
    return _Issued(proof, _fresh_until(status))


def _fresh_until(status: Fields) -> float | None:
    expiration = status.text("expirationTimestamp")
    if not expiration:
        return None
    try:
        end = datetime.fromisoformat(expiration)
    except ValueError:
        raise status.wrong("expirationTimestamp", "no time as RFC 3339 has it") from None
    end_s = (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()
    lifetime_s = max(0.0, end_s - time.time())
    return end_s - min(LEEWAY_S, lifetime_s / 5)


def _without_secrets(text: str, plugin: Plugin) -> str:
    """Return the beginning of what a plugin complains of, on one line."""
    if len(text) > _MAX_SEARCHED_CHARACTERS:
        # Up to a space, for half a secret would not be known as one.
        text = text[:_MAX_SEARCHED_CHARACTERS].rpartition(" ")[0]
    for secret in _known_secrets(plugin):
        text = text.replace(secret, "***")
    return " ".join(_SECRETS.sub("***", text).split())[:_MAX_STDERR_CHARACTERS]


def _known_secrets(plugin: Plugin) -> set[str]:
    """Return the values that the configuration gives under names such as `--client-secret`."""
    named = [(name, value) for name, value in plugin.env.items()]
    named += [(name, value) for name, _, value in (arg.partition("=") for arg in plugin.args)]
    named += [(a, b) for a, b in pairwise(plugin.args) if a.startswith("-") and "=" not in a]
    return {value for name, value in named if value and _SECRET_NAME.search(name)}


def _resolved(fields: Fields) -> str:
    path = fields.path("command")
    return os.path.normpath(path) if path else ""


def _variables(fields: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in fields.inners("env"):
        name = entry.text("name")
        if not name or "=" in name:
            raise entry.wrong("name", "want the name of a variable")
        found[name] = entry.text("value")
    return found
