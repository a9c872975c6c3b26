"""OpenAPI 3.0 documents as `application/com.github.proto-openapi.spec.v3.v1.0+protobuf`.

The bytes are those of kube-openapi's handler3 (`ToV3ProtoBinary`): `ParseDocument` of
gnostic-models openapiv3/document.go, then `proto.Marshal`.
"""

from apidiscovery.openapi.v3 import openapi_pb2
from google.protobuf.descriptor import Descriptor

from apidiscovery_service.openapi.protobuf.encoder import Encoder, Make, delimited
from apidiscovery_service.openapi.protobuf.json_reader import Value
from apidiscovery_service.openapi.protobuf.messages import type_of
from apidiscovery_service.openapi.protobuf.scalars import default
from apidiscovery_service.openapi.protobuf.shapes import COMMON, named


def _default(_encoder: Encoder, _message: Descriptor) -> Make:
    return default


def _expression_or_any(encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes AnyOrExpression.

    gnostic takes everything for an expression, a map of which scalars make an empty one. It fails
    on lists; here, they are of the other kind.
    """
    any_value, expression = message.fields
    write_any = delimited(any_value.number, encoder.maker(type_of(any_value)))
    write = delimited(expression.number, encoder.maker(type_of(expression)))

    def make(value: Value, depth: int) -> bytes:
        if isinstance(value, list):
            return write_any(value, depth)
        return write(value if isinstance(value, dict) else None, depth)

    return make


_DOCUMENT = openapi_pb2.Document.DESCRIPTOR
_ENCODER = Encoder(
    _DOCUMENT,
    {
        **COMMON,
        "AnyOrExpression": _expression_or_any,
        "Callback": named("path", also_extensions=True),
        "DefaultType": _default,
        "Responses": named("response_or_reference"),
    },
)


def encode_v3(document: bytes) -> bytes:
    """Return the protobuf form of an OpenAPI 3.0 document.

    Args:
        document: JSON text. It need not be canonical; numbers in examples, enumerations and
            extensions are repeated as they are written.

    Raises:
        InvalidOpenAPI: It is not JSON, a value is of a wrong type or out of range, or it is nested
            too deeply: where, and why. Unknown keys are left out; nothing is required.
    """
    return _ENCODER.encode(document)
