"""What an upgrade needs to know of CustomResourceDefinitions."""

from collections.abc import Mapping
from dataclasses import dataclass

from apidiscovery_client._fields import Fields
from apidiscovery_client.openapi.json_documents import as_array, as_object


@dataclass(frozen=True, slots=True)
class Definition:
    """The versions and the conversion of a CustomResourceDefinition, without its schemas.

    Attributes:
        name: Its plural and its group: `widgets.example.com`.
        served: Its versions, and whether each is served.
        deprecated: Its deprecated versions.
        storage: The version that new objects are stored in.
        stored: The versions in which objects may be stored, `status.storedVersions`.
        service: Namespace and name of the Service of its conversion webhook; None without one.
        url: Of a webhook without a Service; empty for none.
    """

    name: str
    group: str
    served: Mapping[str, bool]
    deprecated: frozenset[str]
    storage: str
    stored: tuple[str, ...]
    service: tuple[str, str] | None
    url: str


def definition_of(found: Fields) -> Definition:
    """Return what counts of a definition as the server has it."""
    spec = _inner(found, "spec")
    versions = {
        str(one.get("name") or ""): one
        for one in map(as_object, as_array(spec.get("versions")) or ())
        if one
    }
    conversion = _inner(spec, "conversion")
    # Fields of a webhook are kept beside another strategy.
    is_called = conversion.get("strategy") == "Webhook"
    client = _inner(_inner(conversion, "webhook" if is_called else ""), "clientConfig")
    service = _inner(client, "service")
    return Definition(
        name=str(_inner(found, "metadata").get("name") or ""),
        group=str(spec.get("group") or ""),
        served={name: one.get("served") is True for name, one in versions.items()},
        deprecated=frozenset(name for name, one in versions.items() if one.get("deprecated")),
        storage=next((name for name, one in versions.items() if one.get("storage")), ""),
        stored=tuple(map(str, as_array(_inner(found, "status").get("storedVersions")) or ())),
        service=(str(service.get("namespace")), str(service.get("name"))) if service else None,
        url=str(client.get("url") or ""),
    )


def _inner(fields: Fields, name: str) -> Fields:
    return as_object(fields.get(name)) or {}
