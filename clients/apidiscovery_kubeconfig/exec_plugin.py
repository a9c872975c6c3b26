"""Credentials from a program, which `users[].user.exec` of a kubeconfig names.

Source: client-go plugin/pkg/client/auth/exec/exec.go and pkg/apis/clientauthentication.
"""

import base64
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import cast

from apidiscovery_kubeconfig.credentials import ClientCertificate, Proof, bearer, digest
from apidiscovery_kubeconfig.errors import ConfigurationError, CredentialsUnavailable
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.programs import MAX_OUTPUT_BYTES, Program
from apidiscovery_kubeconfig.tls import Tls

EXTENSION = "client.authentication.k8s.io/exec"  # the cluster extension passed to the plugin
TIMEOUT_S = 60.0
_MAX_STDERR_CHARACTERS = 500
_MAX_SEARCHED_CHARACTERS = 4000  # for secrets, in quadratic time

_GROUP = "client.authentication.k8s.io"
_V1 = f"{_GROUP}/v1"
_API_VERSIONS = (_V1, f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")

_SECRETS = re.compile(
    r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)"
    r"|(?i:\b(?:bearer|basic) +\S+)"
    r"|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"  # a JSON web token
    r"|(?i:(?:token|secret|passw(?:or)?d)(?:=|\"\s*:\s*))\S+"
    r"|\b(?=[\w+~-]*\d)[\w+~-]{20,}=*",  # long and with a digit, so not a word
    re.DOTALL,
)
_SECRET_NAME = re.compile(r"secret|token|password|passwd|key|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """How to run a plugin.

    Attributes:
        where: The key in the kubeconfig, for errors.
        command: An absolute path, or a name to look up in PATH.
        env: Variables that override those of this process.
        api_version: Of the ExecCredential, both input and output.
        install_hint: Shown where the program is not installed.
        cluster: The cluster information for the program; None for none.
        interactive: Whether it may ask the user: it gets our terminal and has no time limit.
        timeout_s: For a run that is not interactive.
    """

    where: str
    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    interactive: bool = False
    timeout_s: float = TIMEOUT_S

    @property
    def identity(self) -> str:
        """A digest of the command line, whose arguments may be secrets."""
        return digest(json.dumps([self.command, self.args, sorted(self.env.items())]))

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the program."""
        spec: dict[str, object] = {"interactive": self.interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        return {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def failed(self, message: str) -> CredentialsUnavailable:
        return CredentialsUnavailable(f"{self.where}: {self.command}: {message}")


def read_plugin(fields: Fields, cluster: Mapping[str, object], *, terminal: bool = False) -> Plugin:
    """Return the plugin of the keys under `exec`.

    Args:
        fields: The keys.
        cluster: Passed to a plugin with `provideClusterInfo`.
        terminal: Whether the plugin may use a terminal.

    Raises:
        ConfigurationError: A key is missing or wrong, or the plugin needs a terminal.
    """
    api_version = fields.text("apiVersion")
    if api_version not in _API_VERSIONS:
        wanted = " or ".join(_API_VERSIONS)
        raise fields.wrong("apiVersion", f"want {wanted}, got {api_version or 'nothing'}")
    mode = fields.text("interactiveMode") or ("" if api_version == _V1 else "IfAvailable")
    if mode not in _MODES:
        raise fields.wrong("interactiveMode", f"want Never or IfAvailable, got {mode or 'nothing'}")
    if mode == "Always" and not terminal:
        raise fields.wrong(
            "interactiveMode",
            "Always needs a terminal, and there is none here;"
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
        interactive=terminal and mode != "Never",
    )


def cluster_info(
    *, url: str, tls: Tls, proxy_url: str, disable_compression: bool, config: object
) -> dict[str, object]:
    """Return `spec.cluster` of an ExecCredential (client-go rest/exec.go `ConfigToExecCluster`).

    Raises:
        ConfigurationError: The file of the certificate authority cannot be read.
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
    present = {key: value for key, value in info.items() if value or key == "server"}
    return present | {"config": config}


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


def without_secrets(text: str, plugin: Plugin) -> str:
    """Return the start of the plugin's stderr on one line, with secrets replaced."""
    if len(text) > _MAX_SEARCHED_CHARACTERS:
        # Up to a space: half a secret would not be recognised.
        text = text[:_MAX_SEARCHED_CHARACTERS].rpartition(" ")[0]
    for secret in _known_secrets(plugin):
        text = text.replace(secret, "***")
    return " ".join(_SECRETS.sub("***", text).split())[:_MAX_STDERR_CHARACTERS]


def _known_secrets(plugin: Plugin) -> set[str]:
    """Return the values of arguments and variables with names such as `--client-secret`."""
    named = [(name, value) for name, value in plugin.env.items()]
    named += [(name, value) for name, _, value in (arg.partition("=") for arg in plugin.args)]
    named += [(a, b) for a, b in pairwise(plugin.args) if a.startswith("-") and "=" not in a]
    return {value for name, value in named if value and _SECRET_NAME.search(name)}


LEEWAY_S = 10.0  # renewed so long before the end, or a fifth of the lifetime if that is less


@dataclass(frozen=True, slots=True)
class Issued:
    """Credentials from a plugin.

    Attributes:
        fresh_until: Seconds since the epoch; None for no expiry.
    """

    proof: Proof
    fresh_until: float | None


def read_credential(output: bytes, plugin: Plugin) -> Issued:
    """Return the credentials of an ExecCredential; errors do not quote it."""
    try:
        value = cast("object", json.loads(output))
        return _issued(Fields(value, "the ExecCredential."), plugin)
    except (ValueError, RecursionError):
        raise plugin.failed("want an ExecCredential in JSON, got something else") from None
    except ConfigurationError as error:
        raise plugin.failed(str(error)) from None


def _issued(credential: Fields, plugin: Plugin) -> Issued:
    """Source: exec.go `refreshCredsLocked`."""
    kind, api_version = credential.text("kind"), credential.text("apiVersion")
    if (kind, api_version) != ("ExecCredential", plugin.api_version):
        raise ConfigurationError(
            f"want an ExecCredential of {plugin.api_version}, as configured,"
            f" got {kind[:100] or 'no kind'} of {api_version[:100] or 'no apiVersion'}"
        )
    status = credential.inner("status")
    token, certificate = status.text("token"), status.text("clientCertificateData")
    key = status.text("clientKeyData")
    if bool(certificate) != bool(key):
        raise ConfigurationError("gave a certificate or a key, want both")
    if not token and not certificate:
        raise ConfigurationError("gave no token and no certificate with its key")
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
    if pair is not None:
        Tls().context(pair)
    proof = Proof(bearer(token, status.where("token")) if token else None, pair)
    return Issued(proof, _fresh_until(status))


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


class ExecPlugin:
    """Credentials from a plugin, cached until shortly before they expire.

    One run at a time serves all waiting threads.
    """

    gives_certificates = True

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._lock = threading.Lock()
        self._issued: Issued | None = None
        self._run: _Run | None = None

    @property
    def identity(self) -> str:
        return f"exec plugin {self._plugin.identity}"

    def cached(self) -> Proof | None:
        issued = self._issued
        is_fresh = issued is not None and (
            issued.fresh_until is None or time.time() < issued.fresh_until
        )
        return issued.proof if issued is not None and is_fresh else None

    def get(self) -> Proof:
        """Return valid credentials; run the plugin if needed."""
        with self._lock:
            if (cached := self.cached()) is not None:
                return cached
            run, is_ours = self._run, self._run is None
            if run is None:
                run = self._run = _Run(self._plugin)
        if is_ours:
            self._perform(run)
        return run.outcome.result().proof

    def drop(self, refused: str | None = None) -> None:
        """Forget the cached credentials, unless others than `refused` were issued meanwhile."""
        with self._lock:
            issued = self._issued
            if issued is not None and refused in (None, issued.proof.authorization):
                self._issued = None

    def close(self) -> None:
        """Kill a running plugin with its children, and wait for its end."""
        run = self._run
        if run is not None:
            run.stop()
            run.outcome.exception()

    def _perform(self, run: "_Run") -> None:
        issued: Issued | None = None
        error: BaseException | None = None
        try:
            issued = run.perform()
        except BaseException as caught:  # noqa: BLE001 - raised in every waiting thread
            error = caught
        with self._lock:
            self._run = None
            self._issued = issued or self._issued
        if issued is not None:
            run.outcome.set_result(issued)
        else:
            run.outcome.set_exception(error)


class _Run:
    """One run of a plugin.

    Attributes:
        outcome: The result, for all waiting threads.
    """

    def __init__(self, plugin: Plugin) -> None:
        self.outcome: Future[Issued] = Future()
        self._plugin = plugin
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Kill the plugin, or keep it from starting."""
        with self._lock:
            self._is_stopped = True
            if self._program is not None:
                self._program.kill()

    def perform(self) -> Issued:
        """Run the plugin; return its credentials, or raise `CredentialsUnavailable`."""
        plugin = self._plugin
        if shutil.which(plugin.command) is None:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise plugin.failed(f"no such program, or it may not be run{hint}")
        program = self._started()
        try:
            finished = program.wait(None if plugin.interactive else plugin.timeout_s)
        except TimeoutError:
            raise plugin.failed(f"not done after {plugin.timeout_s:g} s; it was ended") from None
        if self._is_stopped:
            raise plugin.failed("ended before it was done")
        if len(finished.output) > MAX_OUTPUT_BYTES:
            raise plugin.failed(f"more than {MAX_OUTPUT_BYTES} bytes on its standard output")
        if finished.status != 0:
            said = without_secrets(finished.stderr.decode("utf-8", "replace"), plugin)
            raise plugin.failed(
                f"failed with status {finished.status}: {said or 'it said nothing'}"
            )
        return read_credential(finished.output, plugin)

    def _started(self) -> Program:
        plugin = self._plugin
        with self._lock:
            if self._is_stopped:
                raise plugin.failed("ended before it was begun")
            try:
                self._program = Program(
                    [plugin.command, *plugin.args],
                    plugin.environment(),
                    interactive=plugin.interactive,
                )
            except (OSError, ValueError) as error:
                raise plugin.failed(f"cannot be run: {error}") from None
            return self._program
