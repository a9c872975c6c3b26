"""Declarations of an API server written in Python: groups, versions, resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from apidiscovery_service.extension_server.models import Model

# Kubernetes' default priorities: k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go,
# `AddGroupVersion`.
GROUP_PRIORITY = 1000
VERSION_PRIORITY = 15

_READS = ("get", "list")
_STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class ApiSubresource:
    """An endpoint below an object.

    Attributes:
        name: Such as `restart`.
        kind: Kind of the answer; empty for the resource's own.
        verbs: The verbs; `create` is POST, `update` PUT.
        group: Group of the kind; empty for the resource's own.
        version: Version of the kind; empty for the resource's own.
    """

    name: str
    kind: str = ""
    verbs: Sequence[str] = _STATUS_VERBS
    group: str = ""
    version: str = ""


class Declared(TypedDict, total=False):
    """The fields of `ApiResource` that a model does not have."""

    namespaced: bool
    verbs: Sequence[str]
    singular: str | None
    list_kind: str | None
    short_names: Sequence[str]
    categories: Sequence[str]
    subresources: Sequence[str | ApiSubresource]
    storage_version: str


SCALE = ApiSubresource("scale", "Scale", group="autoscaling", version="v1")


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A served kind of object.

    Attributes:
        plural: As in URLs, such as `widgets`.
        kind: Such as `Widget`.
        namespaced: Whether objects are at `namespaces/{namespace}/{plural}`.
        verbs: The implemented verbs, on which clients rely. `kubectl get` needs get and list.
        singular: None for the kind in lower case.
        list_kind: None for the kind and `List`.
        short_names: Such as `wd`, for kubectl.
        categories: Such as `all`, for kubectl.
        subresources: The string `scale` stands for a subresource of kind autoscaling/v1 Scale, any
            other string for one of the resource's kind.
        schema: JSON schema of objects for `kubectl explain`, structural as that of a
            CustomResourceDefinition, and without null; apiVersion, kind and metadata are added. Or
            a Pydantic model, whose schema is made structural. None for any object.
        storage_version: The version in which objects are stored, to show clients when it changes
            (`storageVersionHash`); empty to hide it.
    """

    plural: str
    kind: str
    namespaced: bool = True
    verbs: Sequence[str] = _READS
    singular: str | None = None
    list_kind: str | None = None
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    subresources: Sequence[str | ApiSubresource] = ()
    schema: Mapping[str, Any] | Model | None = None
    storage_version: str = ""

    @classmethod
    def from_model(
        cls, model: Model, plural: str, *, kind: str = "", **declared: Unpack[Declared]
    ) -> "ApiResource":
        """Return the resource of the objects that a Pydantic model describes.

        Args:
            model: The class of a whole object, with fields such as `spec` and `status`. Whether it
                has a structural schema is checked with the other fields, by `discovery_app`.
            plural: As in URLs, such as `widgets`.
            kind: Empty for the name of the model.
            declared: Other fields of `ApiResource`.
        """
        return cls(plural, kind or getattr(model, "__name__", ""), schema=model, **declared)

    def below(self) -> tuple[ApiSubresource, ...]:
        """Return the subresources, with texts replaced by declarations."""
        return tuple(
            one
            if isinstance(one, ApiSubresource)
            else (SCALE if one == SCALE.name else ApiSubresource(one))
            for one in self.subresources
        )


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """A version of a group.

    Attributes:
        name: Such as `v1`.
        resources: In the order in which they are listed.
        priority: The highest is preferred; of equal ones v2 is before v1 before v1beta1.
    """

    name: str
    resources: Sequence[ApiResource] = ()
    priority: int = VERSION_PRIORITY


@dataclass(frozen=True, slots=True)
class ApiGroup:
    """An API group, with at least one version.

    Attributes:
        name: Such as `example.dev`.
        versions: In any order; their priority counts.
        priority: The highest is listed first, equal ones by name. Behind kube-aggregator the
            priorities in APIService objects count instead.
    """

    name: str
    versions: Sequence[ApiVersion] = ()
    priority: int = GROUP_PRIORITY
