"""A schema as it is read: keywords by name, `$ref` followed when it is reached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, cast

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff.model import InvalidSchema

Resolve: TypeAlias = Callable[[str], object]

ALL_KINDS = frozenset({"string", "integer", "number", "boolean", "object", "array"})
NO_DEFAULT = object()
_MAX_REFS = 64
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def as_number(value: object) -> Fraction | None:
    """Return a JSON number exactly as it is written; None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else Fraction(value)
    if not isinstance(value, float):
        return None
    try:
        return Fraction(str(value))
    except ValueError:  # NaN and infinity, which YAML has
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A schema whose own `$ref` is followed.

    Attributes:
        keywords: By name.
        resolve: Returns the schema that a `$ref` names; None where there is no `$ref`.
        ref: The last `$ref` that led here; empty where none did.
    """

    keywords: Mapping[str, object]
    resolve: Resolve | None = None
    ref: str = ""

    def get(self, keyword: str) -> object:
        """Return a keyword's value; None where it is not there."""
        return self.keywords.get(keyword)

    def read(self, value: object) -> "Schema":
        """Return a schema that stands in this one."""
        return read(value, self.resolve)

    @property
    def kinds(self) -> frozenset[str]:
        """The JSON types that values may have, but for null; `number` always with `integer`."""
        if self.get("x-kubernetes-int-or-string") is True or self.get("format") == "int-or-string":
            return frozenset({"integer", "string"})
        kind = self.get("type")
        if kind == "number":
            return frozenset({"number", "integer"})
        return frozenset({kind}) if isinstance(kind, str) and kind else ALL_KINDS

    @property
    def nullable(self) -> bool:
        """Whether null is a value."""
        return self.get("nullable") is True

    @property
    def preserves(self) -> bool:
        """Whether unknown fields are kept."""
        return self.get(_PRESERVE) is True

    @property
    def embedded(self) -> bool:
        """Whether it is a whole object with apiVersion, kind and metadata."""
        return self.get("x-kubernetes-embedded-resource") is True

    @property
    def properties(self) -> Mapping[str, object]:
        """Schemas of fields by name, unread."""
        return as_object(self.get("properties"))

    @property
    def required(self) -> frozenset[str]:
        """Names of fields."""
        return frozenset(name for name in as_list(self.get("required")) if isinstance(name, str))

    @property
    def additional(self) -> "Schema | None":
        """The schema of fields that `properties` does not name; None where they are pruned."""
        value = self.get("additionalProperties")
        if isinstance(value, dict):
            return self.read(cast("object", value))
        if value is True:
            return BARE
        return ANYTHING if self.preserves else None

    @property
    def items(self) -> "Schema":
        """The schema of the items of an array, which keeps no fields where none is given."""
        value = self.get("items")
        if isinstance(value, dict):
            return self.read(cast("object", value))
        return ANYTHING if self.preserves else NOTHING

    @property
    def default(self) -> object:
        """The default, or `NO_DEFAULT`; as for the server, a default of null is none."""
        value = self.get("default")
        return NO_DEFAULT if value is None else value

    @property
    def list_type(self) -> str:
        """The value of x-kubernetes-list-type."""
        return str(self.get("x-kubernetes-list-type") or "atomic")

    @property
    def list_map_keys(self) -> tuple[str, ...]:
        """The value of x-kubernetes-list-map-keys."""
        return tuple(str(key) for key in as_list(self.get("x-kubernetes-list-map-keys")))

    @property
    def merging(self) -> tuple[str, tuple[str, ...]]:
        """The type and the sorted keys by which server-side apply merges a list of a built-in kind.

        Without a list type the strategy of strategic merge patches decides. Source:
        k8s.io/kube-openapi pkg/schemaconv/smd.go:getListElementRelationship.
        """
        if "x-kubernetes-list-type" in self.keywords:
            return self.list_type, tuple(sorted(self.list_map_keys))
        if self.get("x-kubernetes-patch-strategy") not in ("merge", "merge,retainKeys"):
            return "atomic", ()
        key = self.get("x-kubernetes-patch-merge-key")
        return ("map", (str(key),)) if key else ("set", ())

    def field(self, name: str) -> "Schema | None":
        """Return the schema of a field; None where it is pruned."""
        properties = self.properties
        return self.read(properties[name]) if name in properties else self.additional

    def limit(self, keyword: str) -> Fraction | None:
        """Return a keyword's number."""
        return as_number(self.get(keyword))


ANYTHING = Schema({_PRESERVE: True})
NOTHING = Schema({})  # every field is pruned
BARE = Schema({"nullable": True})  # the values of `additionalProperties: true`; fields are pruned


def read(value: object, resolve: Resolve | None = None) -> Schema:
    """Return a schema whose `$ref`, and that in an `allOf` of one, is followed.

    What stands beside a `$ref` counts, as in Kubernetes' documents, which set defaults there.

    Raises:
        InvalidSchema: A `$ref` leads nowhere or round in a circle.
    """
    keywords = as_object(value)
    if "$ref" not in keywords and "allOf" not in keywords:
        return Schema(keywords, resolve)
    ref = ""
    for _ in range(_MAX_REFS):
        name = keywords.get("$ref")
        beside = {key: found for key, found in keywords.items() if key != "$ref"}
        branches = as_list(keywords.get("allOf"))
        if name is None and len(branches) == 1 and "$ref" in as_object(branches[0]):
            name = as_object(branches[0])["$ref"]
            del beside["allOf"]
        if name is None:
            return Schema(keywords, resolve, ref)
        ref = str(name)
        target = resolve(ref) if resolve is not None else None
        if not isinstance(target, dict):
            raise InvalidSchema(f"no schema {ref!r} is known; pass a resolver that finds it")
        keywords = {**as_object(cast("object", target)), **beside}
    raise InvalidSchema(f"$ref {ref!r} leads to itself")
