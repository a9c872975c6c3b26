"""Upstreams as they are configured: by flags, and under the keys `upstreams` and `services`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from apidiscovery_service.errors import InvalidConfiguration

UPSTREAM_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._@:/]*[A-Za-z0-9])?")

_SERVICE = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9]*(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """One upstream, not looked into yet.

    Attributes:
        url: Where it is; empty for one from a kubeconfig.
        kubeconfig: The file; None for kubectl's own rules.
        context: The context of the kubeconfig; empty for the current one.
        options: Everything else, as it stands in the file.
        place: What goes before a key of it in an error.
    """

    name: str
    url: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    place: str = ""


def flagged_upstreams(
    upstreams: tuple[tuple[str, str], ...], kubeconfig: Path | None, contexts: tuple[str, ...]
) -> list[UpstreamSettings]:
    """Return the upstreams that flags name: each URL, and each context of the kubeconfig."""
    named = [UpstreamSettings(name, url, place=f"--upstream {name}: ") for name, url in upstreams]
    if kubeconfig is not None and not contexts:
        contexts = ("",)
    return named + [
        UpstreamSettings(
            context or "kubeconfig", kubeconfig=kubeconfig, context=context, place="--"
        )
        for context in contexts
    ]


def configured_upstreams(value: object) -> list[UpstreamSettings]:
    """Return the upstreams of the key `upstreams`: a mapping from a name to its settings.

    Raises:
        InvalidConfiguration: It is no such mapping, or an upstream has no `url` and no
            `kubeconfig` or `context`, or both.
    """
    return [_upstream(name, settings) for name, settings in _mapping("upstreams", value).items()]


def _upstream(name: str, value: object) -> UpstreamSettings:
    where = f"upstreams.{name}"
    if not UPSTREAM_NAME.fullmatch(name):
        raise InvalidConfiguration(f"{where}: want a name of letters, digits, dots and dashes")
    if isinstance(value, str):
        return UpstreamSettings(name, value, place=f"{where}.")
    options = _mapping(where, value)
    url, kubeconfig, context = (
        _text(where, options, key) for key in ("url", "kubeconfig", "context")
    )
    if bool(url) == bool(kubeconfig or context):
        raise InvalidConfiguration(f"{where}: want url, or kubeconfig or context, one of the two")
    file = Path(kubeconfig) if kubeconfig else None
    return UpstreamSettings(name, url, file, context, options, f"{where}.")


def configured_services(value: object) -> dict[str, str]:
    """Return the key `services`: addresses by `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.

    Raises:
        InvalidConfiguration: It is no such mapping.
    """
    services: dict[str, str] = {}
    for name, url in _mapping("services", value).items():
        if not _SERVICE.fullmatch(name):
            raise InvalidConfiguration(
                f"services.{name}: want NAMESPACE/NAME or NAMESPACE/NAME:PORT"
            )
        if not isinstance(url, str):
            raise InvalidConfiguration(f"services.{name}: want a URL")
        services[name] = url
    return services


def _mapping(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        seen = "nothing" if value is None else type(value).__name__
        raise InvalidConfiguration(f"{where}: want keys and values, got {seen}")
    entries = cast("Mapping[object, object]", value)
    return {str(key): element for key, element in entries.items()}


def _text(where: str, options: dict[str, object], key: str) -> str:
    value = options.pop(key, None)
    if value is not None and not isinstance(value, str):
        raise InvalidConfiguration(f"{where}.{key}: want text, got {type(value).__name__}")
    return value or ""
