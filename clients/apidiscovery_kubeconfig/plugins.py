"""Which program gives credentials, as `users[].user.exec` of a kubeconfig names it.

Source: client-go plugin/pkg/client/auth/exec/exec.go and pkg/apis/clientauthentication.
"""

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from apidiscovery_kubeconfig.credentials import digest
from apidiscovery_kubeconfig.errors import CredentialsUnavailable
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls

EXTENSION = "client.authentication.k8s.io/exec"  # the cluster extension that is handed on
TIMEOUT_S = 60.0
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
        interactive: Whether it may ask the user; it then has our terminal, and all its time.
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
        """Tell which program is run how, by a digest: there may be secrets among the arguments."""
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
        cluster: Told to the plugin if it asks for that.
        terminal: Whether there is one that the plugin may use.

    Raises:
        ConfigurationError: A key is missing or wrong, or the plugin wants a terminal.
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
        ConfigurationError: The file of the authority cannot be read.
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
