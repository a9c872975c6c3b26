"""Decodes bodies into objects, as kube-apiserver does.

Sources: k8s.io/apimachinery pkg/runtime/serializer/json/json.go and protobuf/protobuf.go (Decode);
k8s.io/apiserver pkg/endpoints/handlers/rest.go (transformDecodeError) and create.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery_formats.go_text import quote
from apidiscovery_formats.negotiation import PROTOBUF, YAML, Serializer

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import (
    json_text,
    limits,
    messages,
    typed_values,
    yaml_text,
)
from apidiscovery_service.kube.objects.go_structs import Field, Struct, in_go_form
from apidiscovery_service.kube.objects.json_text import NotJSON, Tree
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.objects.limits import Budget
from apidiscovery_service.kube.objects.messages import NotProtobuf
from apidiscovery_service.kube.objects.typed_values import Mistyped
from apidiscovery_service.kube.objects.yaml_text import NotYAML

_MAGIC = b"k8s\x00"
_SUMMARY = 30  # bytes of a body that an error shows
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"


class Undecodable(Exception):
    """A body is not an object of the kind; the text is the message of the 400 Bad Request.

    Attributes:
        why: The reason alone, which is the message for bodies that are not resources.
    """

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded body.

    Attributes:
        object: The object as Go writes it: keys in the order of the Go struct, `kind` and
            `apiVersion` first, without fields that Go leaves out.
        problems: What `fieldValidation=Strict` refuses and `Warn` warns of, in Kubernetes' words
            and the order of the body: `unknown field "spec.foo"`, `duplicate field "metadata"`.
            At most 100, and one of YAML; none of protobuf.
    """

    object: Object
    problems: tuple[str, ...] = ()


def decode(body: bytes, serializer: Serializer, kind: ObjectKind) -> Decoded:
    """Return the object of a request body.

    Args:
        body: The body.
        serializer: That of its Content-Type.
        kind: The kind it must have. A body may omit `kind` and `apiVersion`.

    Raises:
        Undecodable: It is not an object of the kind.
        ObjectError: It exceeds `limits`; 413.
    """
    try:
        if serializer is PROTOBUF:
            return _from_protobuf(body, kind)
        problems: tuple[str, ...] = ()
        if serializer is YAML:
            tree, problems = yaml_text.parse(body)
        else:
            limits.check_json(body)
            tree = json_text.parse(body)
        return _from_tree(tree, kind, problems)
    except NotJSON as error:
        raise _unrecognized(body, kind, f"{_NO_KIND}: {error}") from None
    except (_NoKind, NotProtobuf, NotYAML) as error:
        raise _unrecognized(body, kind, str(error)) from None


def from_value(value: JSONValue, kind: ObjectKind) -> Decoded:
    """Return the object of a JSON value, such as the result of a patch.

    Args:
        value: The value, which is not changed.
        kind: The kind it must have. It may omit `kind` and `apiVersion`.

    Raises:
        Undecodable: It is not an object of the kind.
    """
    try:
        return _from_tree(value, kind)
    except _NoKind as error:
        message = f"the object provided is unrecognized (must be of type {kind.kind}): {error}"
        raise Undecodable(message, str(error)) from None


def refusal(problems: Sequence[str], kind: ObjectKind) -> str:
    """Return the message with which strict decoding refuses a body for its problems."""
    said = _Said(kind.kind, kind.version)
    return _cannot_be(said, kind, f"strict decoding error: {', '.join(problems)}")


@dataclass(frozen=True, slots=True)
class _Said:
    """The kind that a body states."""

    kind: str
    version: str


class _NoKind(Exception):
    """The kind and version of a value cannot be read."""


_NO_KIND = "couldn't get version/kind; json parse error"
_TYPE_META = (Field("kind"), Field("apiVersion"))
# The Go type of the variable into which Kubernetes reads the two before anything else.
_INTERPRETED = Struct(
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }',
    _TYPE_META,
)


def _from_tree(tree: Tree, kind: ObjectKind, problems: tuple[str, ...] = ()) -> Decoded:
    try:
        meta, _ = typed_values.read(_INTERPRETED, tree)
    except Mistyped as error:
        raise _NoKind(f"{_NO_KIND}: {error}") from None
    said = _said(meta, kind)
    try:
        fields, more = typed_values.read(_with_type_meta(kind), tree)
    except Mistyped as error:
        raise Undecodable(_cannot_be(said, kind, str(error)), str(error)) from None
    return Decoded(_object(kind, fields), problems + more)


def _from_protobuf(body: bytes, kind: ObjectKind) -> Decoded:
    if not body:
        raise NotProtobuf("empty data")
    if not body.startswith(_MAGIC):
        raise NotProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, _MAGIC))}]"
        )
    if body == _MAGIC:
        raise NotProtobuf("empty body")
    limits.check_size(body, limits.MAX_PROTOBUF_BYTES)
    unknown = messages.parse(runtime_pb2.Unknown, body[len(_MAGIC) :])
    meta = unknown.type_meta
    said = _said({"kind": meta.kind, "apiVersion": meta.api_version}, kind)
    try:
        fields = messages.fields_of(messages.parse(kind.message, unknown.raw), Budget())
    except NotProtobuf as error:
        raise Undecodable(_cannot_be(said, kind, str(error)), str(error)) from None
    return Decoded(_object(kind, fields))


@cache
def _with_type_meta(kind: ObjectKind) -> Struct:
    return Struct(kind.struct.go_type, (*_TYPE_META, *kind.struct.fields))


def _object(kind: ObjectKind, fields: Mapping[str, JSONValue]) -> Object:
    head: Object = {"kind": kind.kind, "apiVersion": kind.api_version}
    return head | in_go_form(kind.struct, fields)


def _said(meta: Mapping[str, JSONValue], kind: ObjectKind) -> _Said:
    """Return the kind that a body states; what it omits is taken from the kind it must have.

    Raises:
        Undecodable: It states another kind.
    """
    name, api_version = str(meta.get("kind") or kind.kind), str(meta.get("apiVersion", ""))
    group, _, version = api_version.rpartition("/")
    if "/" in group:
        raise _NoKind(f"unexpected GroupVersion string: {api_version}")
    if not version and group in ("", kind.group):
        group, version = kind.group, kind.version
    said = _Said(name, version)
    same_version = (group, version) == (kind.group, kind.version) or kind.in_every_group
    if name != kind.kind or not same_version:
        where = quote(api_version or kind.api_version)
        why = f"no kind {quote(name)} is registered for version {where} in scheme {quote(_SCHEME)}"
        raise Undecodable(_cannot_be(said, kind, why), why)
    return said


def _cannot_be(said: _Said, kind: ObjectKind, why: str) -> str:
    return f"{said.kind} in version {quote(said.version)} cannot be handled as a {kind.kind}: {why}"


def _unrecognized(body: bytes, kind: ObjectKind, why: str) -> Undecodable:
    return Undecodable(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} "
        f"({_summary(body)})",
        why,
    )


def _summary(body: bytes) -> str:
    """Return the start of a body (rest.go, summarizeData)."""
    if not body:
        return "<empty>"
    start = body[:_SUMMARY]
    text = start.decode("utf-8", "replace") if body.startswith(b"{") else start.hex()
    return text + " ..." if len(body) > _SUMMARY else text
