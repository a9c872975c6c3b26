"""The protos and their generated modules: complete, importable, with Kubernetes' bytes."""

import base64
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import betterproto
import pytest
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.meta.v1 import discovery_pb2 as unaggregated_pb2
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.openapi.v3 import openapi_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1_pb2
from apidiscovery_betterproto.apidiscovery.runtime import v1 as betterproto_runtime
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message
from repository import ROOT

GENERATED = ROOT / "generated"
MAGIC = b"k8s\0"
SAMPLES = sorted((ROOT / "tests/golden/kubernetes-wire").glob("*/*.pb"))
CONCRETE: dict[str, type[Message]] = {
    "apidiscovery.k8s.io.v2.APIGroupDiscovery": discovery_pb2.APIGroupDiscovery,
    "apidiscovery.k8s.io.v2beta1.APIGroupDiscovery": v2beta1_pb2.APIGroupDiscovery,
    "coordination.k8s.io.v1.Lease": lease_pb2.Lease,
    "internal.apiserver.k8s.io.v1alpha1.StorageVersion": storageversion_pb2.StorageVersion,
}
each_sample = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{p.parent.name}-{p.stem}" for p in SAMPLES]
)


def modules() -> list[str]:
    """Return the name of every generated module."""
    paths = (p.relative_to(GENERATED).with_suffix("") for p in GENERATED.rglob("*.py"))
    return sorted(".".join(p.parts).removesuffix(".__init__") for p in paths)


def messages() -> Iterator[Descriptor]:
    """Yield every message of our protos, nested ones too, but not the entries of maps."""
    for name in modules():
        if name.endswith("_pb2") and not name.startswith("apidiscovery_etcd."):
            file = cast("FileDescriptor", importlib.import_module(name).DESCRIPTOR)
            for message in file.message_types_by_name.values():
                yield message
                yield from (n for n in message.nested_types if not n.GetOptions().map_entry)


ALL = {message.full_name: message for message in messages()}


def betterproto_class(name: str) -> type[betterproto.Message]:
    """Return betterproto's class for the message `name`; it spells APIGroup as ApiGroup.

    It has no nested classes: `Outer.Inner` is `OuterInner`.
    """
    package = ALL[name].file.package
    short = name.removeprefix(f"{package}.").replace(".", "")
    module = importlib.import_module(f"apidiscovery_betterproto.{package}")
    classes = inspect.getmembers(module, inspect.isclass)
    (found,) = (c for n, c in classes if n.lower() == short.lower())
    return cast("type[betterproto.Message]", found)


def unwrap(body: bytes) -> runtime_pb2.Unknown:
    assert body.startswith(MAGIC)
    return runtime_pb2.Unknown.FromString(body.removeprefix(MAGIC))


def test_every_generated_module_imports() -> None:
    for name in modules():
        module = importlib.import_module(name)
        assert module.__doc__ or name.startswith("apidiscovery_betterproto"), name


def test_every_proto_has_a_module_of_each_family() -> None:
    names = modules()
    for proto in (ROOT / "protos/apidiscovery").rglob("*.proto"):
        path = proto.relative_to(ROOT / "protos").with_suffix("")
        assert ".".join(path.parts) + "_pb2" in names
        assert ".".join(("apidiscovery_betterproto", *path.parent.parts)) in names


# -- Kubernetes' published samples --------------------------------------------------------------


def test_there_are_samples_of_three_releases() -> None:
    assert len(SAMPLES) == 3 * len(CONCRETE)


@each_sample
def test_grpcio_stubs_write_the_bytes_that_kubernetes_writes(sample: Path) -> None:
    body = sample.read_bytes()
    envelope = unwrap(body)
    concrete = CONCRETE[sample.stem].FromString(envelope.raw)
    concrete.DiscardUnknownFields()  # they would come out as they went in

    assert concrete.SerializeToString(deterministic=True) == envelope.raw
    assert MAGIC + envelope.SerializeToString(deterministic=True) == body


@each_sample
def test_the_json_sample_makes_the_bytes_of_the_protobuf_sample(sample: Path) -> None:
    """The samples have a value in every field, so that JSON leaves none out."""
    document = json.loads(sample.with_suffix(".json").read_bytes())
    envelope = unwrap(sample.read_bytes())
    assert envelope.type_meta.api_version == document.pop("apiVersion")
    assert envelope.type_meta.kind == document.pop("kind")

    message = CONCRETE[sample.stem]()
    json_format.Parse(json.dumps(without_scalars_for_messages(document)), message)
    assert message.SerializeToString(deterministic=True) == envelope.raw


def without_scalars_for_messages(value: object, key: str = "") -> object:
    """Replace the values that Kubernetes' JSON writes in its own form: times and FieldsV1."""
    if key == "fieldsV1":
        return {"Raw": base64.b64encode(json.dumps(value).encode()).decode()}
    if key == "time" or key.endswith(("Time", "Timestamp")):
        since_epoch = datetime.fromisoformat(str(value)) - datetime.fromisoformat("1970-01-01T00Z")
        nanos = since_epoch.microseconds * 1000
        return {"seconds": since_epoch // timedelta(seconds=1), "nanos": nanos}
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {k: without_scalars_for_messages(v, k) for k, v in fields.items()}
    if isinstance(value, list):
        return [without_scalars_for_messages(v) for v in cast("list[object]", value)]
    return value


@each_sample
def test_betterproto_stubs_read_a_sample_and_what_they_wrote_themselves(sample: Path) -> None:
    """They promise no more: betterproto has no presence for messages.

    It leaves out a message that is set but empty, such as `spec` of a StorageVersion, so its bytes
    are not Kubernetes'.
    """
    envelope = betterproto_runtime.Unknown().parse(sample.read_bytes().removeprefix(MAGIC))
    assert envelope.raw is not None
    message_type = betterproto_class(CONCRETE[sample.stem].DESCRIPTOR.full_name)
    message = message_type().parse(envelope.raw)

    assert message != message_type()
    assert message_type().parse(bytes(message)) == message
    assert betterproto_runtime.Unknown().parse(bytes(envelope)) == envelope


# -- known bytes --------------------------------------------------------------------------------

LIST_META = "0a00 1200 1a00"
OBJECT_META = "1200 1a00 2200 2a00 3200 3800 4200"  # all but the name
NOTHING: dict[str, object] = {}


@pytest.mark.parametrize(
    ("text", "message_type", "value"),
    [
        pytest.param(
            "0a02 7631 1a05 5374616c65",
            discovery_pb2.APIVersionDiscovery,
            {"version": "v1", "freshness": "Stale"},
            id="stale-version",
        ),
        pytest.param(
            LIST_META,
            meta_pb2.ListMeta,
            {"selfLink": "", "resourceVersion": "", "continue": ""},
            id="empty-list-meta",
        ),
        pytest.param(
            f"0a04 61707073 {OBJECT_META}",
            meta_pb2.ObjectMeta,
            {
                **dict.fromkeys(("generateName", "namespace", "selfLink", "uid"), ""),
                "name": "apps",
                "resourceVersion": "",
                "generation": 0,
                "creationTimestamp": NOTHING,
            },
            id="object-meta-with-a-name",
        ),
        pytest.param(
            f"0a00 {OBJECT_META}",
            meta_pb2.ObjectMeta,
            {
                **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid"), ""),
                "resourceVersion": "",
                "generation": 0,
                "creationTimestamp": NOTHING,
            },
            id="empty-object-meta",
        ),
        pytest.param(
            "1206 0a00 1200 1a00",
            discovery_pb2.APIResourceDiscovery,
            {"responseKind": {"group": "", "version": "", "kind": ""}},
            id="empty-response-kind",
        ),
        pytest.param(
            "8a01 00", meta_pb2.ObjectMeta, {"managedFields": [NOTHING]}, id="managed-fields-tag"
        ),
        pytest.param(
            "0800 1000", meta_pb2.MicroTime, {"seconds": 0, "nanos": 0}, id="time-of-the-epoch"
        ),
        pytest.param("2200", unaggregated_pb2.APIResource, {"verbs": NOTHING}, id="no-verbs"),
    ],
)
def test_a_value_is_written_as_its_known_bytes_and_read_from_them(
    text: str, message_type: type[Message], value: dict[str, object]
) -> None:
    message = json_format.ParseDict(value, message_type())
    assert message.SerializeToString(deterministic=True) == bytes.fromhex(text)
    assert message_type.FromString(bytes.fromhex(text)) == message


def test_openapi_writes_no_zero_but_in_a_oneof() -> None:
    schema = openapi_pb2.Schema(description="", min_length=0, nullable=False)
    assert schema.SerializeToString() == b""
    assert openapi_pb2.DefaultType(boolean=False).SerializeToString() == bytes.fromhex("1000")


# -- numbers, names and presence ----------------------------------------------------------------


# Message, colon, its fields; what is true of v2 is true of v2beta1.
FIELDS = """
runtime.v1.TypeMeta: apiVersion=1 kind=2
runtime.v1.Unknown: typeMeta=1 raw=2 contentEncoding=3 contentType=4
meta.v1.ListMeta: selfLink=1 resourceVersion=2 continue=3 remainingItemCount=4 shardInfo=5
meta.v1.ObjectMeta: name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6
  generation=7 creationTimestamp=8 deletionTimestamp=9 deletionGracePeriodSeconds=10 labels=11
  annotations=12 ownerReferences=13 finalizers=14 managedFields=17
meta.v1.OwnerReference: kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7
meta.v1.ManagedFieldsEntry: manager=1 operation=2 apiVersion=3 time=4 fieldsType=6 fieldsV1=7
  subresource=8
meta.v1.FieldsV1: Raw=1
meta.v1.Time: seconds=1 nanos=2
meta.v1.MicroTime: seconds=1 nanos=2
meta.v1.GroupVersionKind: group=1 version=2 kind=3
meta.v1.Condition: type=1 status=2 observedGeneration=3 lastTransitionTime=4 reason=5 message=6
meta.v1.APIVersions: versions=1 serverAddressByClientCIDRs=2
meta.v1.ServerAddressByClientCIDR: clientCIDR=1 serverAddress=2
meta.v1.APIGroupList: groups=1
meta.v1.APIGroup: name=1 versions=2 preferredVersion=3 serverAddressByClientCIDRs=4
meta.v1.GroupVersionForDiscovery: groupVersion=1 version=2
meta.v1.APIResourceList: groupVersion=1 resources=2
meta.v1.APIResource: name=1 namespaced=2 kind=3 verbs=4 shortNames=5 singularName=6 categories=7
  group=8 version=9 storageVersionHash=10
meta.v1.Status: metadata=1 status=2 message=3 reason=4 details=5 code=6
meta.v1.StatusDetails: name=1 group=2 kind=3 causes=4 retryAfterSeconds=5 uid=6
meta.v1.StatusCause: reason=1 message=2 field=3
meta.v1.WatchEvent: type=1 object=2
meta.v1.PartialObjectMetadataList: metadata=1 items=2
meta.v1beta1.PartialObjectMetadataList: items=1 metadata=2
meta.v1.DeleteOptions: gracePeriodSeconds=1 preconditions=2 orphanDependents=3
  propagationPolicy=4 dryRun=5 ignoreStoreReadErrorWithClusterBreakingPotential=6
meta.v1.Preconditions: uid=1 resourceVersion=2
v2.APIGroupDiscoveryList: metadata=1 items=2
v2.APIGroupDiscovery: metadata=1 versions=2
v2.APIVersionDiscovery: version=1 resources=2 freshness=3
v2.APIResourceDiscovery: resource=1 responseKind=2 scope=3 singularResource=4 verbs=5 shortNames=6
  categories=7 subresources=8
v2.APISubresourceDiscovery: subresource=1 responseKind=2 acceptedTypes=3 verbs=4
storageversion.v1alpha1.StorageVersion: metadata=1 spec=2 status=3
storageversion.v1alpha1.StorageVersionStatus: storageVersions=1 commonEncodingVersion=2 conditions=3
storageversion.v1alpha1.ServerStorageVersion: apiServerID=1 encodingVersion=2 decodableVersions=3
  servedVersions=4
coordination.v1.LeaseSpec: holderIdentity=1 leaseDurationSeconds=2 acquireTime=3 renewTime=4
  leaseTransitions=5 strategy=6 preferredHolder=7
apiregistration.v1.APIServiceSpec: service=1 group=2 version=3 insecureSkipTLSVerify=4 caBundle=5
  groupPriorityMinimum=7 versionPriority=8
apiregistration.v1.APIServiceCondition: type=1 status=2 lastTransitionTime=3 reason=4 message=5
apiextensions.v1.CustomResourceDefinitionSpec: group=1 names=3 scope=4 versions=7 conversion=9
  preserveUnknownFields=10
apiextensions.v1.CustomResourceDefinitionVersion: name=1 served=2 storage=3 schema=4 subresources=5
  additionalPrinterColumns=6 deprecated=7 deprecationWarning=8 selectableFields=9
apiextensions.v1.CustomResourceDefinitionStatus: conditions=1 acceptedNames=2 storedVersions=3
  observedGeneration=4
apiextensions.v1.CustomResourceValidation: openAPIV3Schema=1
apiextensions.v1.WebhookConversion: clientConfig=2 conversionReviewVersions=3
storagemigration.v1.StorageVersionMigrationStatus: conditions=1 resourceVersion=2
storagemigration.v1alpha1.StorageVersionMigrationSpec: resource=1 continueToken=2
openapi.v3.Document: openapi=1 info=2 servers=3 paths=4 components=5 security=6 tags=7
  externalDocs=8 specificationExtension=9
openapi.v3.Info: title=1 description=2 termsOfService=3 contact=4 license=5 version=6
  specificationExtension=7 summary=8
openapi.v3.Reference: $ref=1 summary=2 description=3
"""


def test_fields_have_the_numbers_and_json_names_of_upstream() -> None:
    wanted = {
        words[0]: words[1:] for words in map(str.split, re.split(r"\n(?=\S)", FIELDS.strip()))
    }
    wanted |= {k.replace("v2.", "v2beta1."): v for k, v in wanted.items() if k.startswith("v2.")}
    found = {
        name: [f"{field.json_name}={field.number}" for field in ALL[full_name(name)].fields]
        for name in wanted
    }
    assert found == wanted


def full_name(name: str) -> str:
    return f"apidiscovery.{name.removesuffix(':')}"


def test_fields_are_written_in_the_order_of_their_numbers() -> None:
    for name, message in ALL.items():
        numbers = [field.number for field in message.fields]
        assert numbers == sorted(numbers), name


def test_scalars_of_kubernetes_have_presence_and_those_of_gnostic_do_not() -> None:
    """Our own messages use presence where it means something."""
    for name, message in ALL.items():
        if name.startswith("apidiscovery.service."):
            continue
        explicit = not name.startswith("apidiscovery.openapi.")
        for field in message.fields:
            if not field.is_repeated and field.message_type is None and not in_oneof(field):
                assert field.has_presence == explicit, field.full_name


def in_oneof(field: FieldDescriptor) -> bool:
    """Return whether the field is in a oneof of the source: `optional` makes one of its own."""
    oneof = field.containing_oneof
    return oneof is not None and oneof.name != f"_{field.name}"


# -- both families agree ------------------------------------------------------------------------

SCALARS: dict[int, object] = {
    # Together they are also a Duration, which betterproto keeps as a float of seconds.
    FieldDescriptor.CPPTYPE_INT32: 500_000_000,
    FieldDescriptor.CPPTYPE_INT64: 1 << 33,
    FieldDescriptor.CPPTYPE_UINT32: 7,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.5,
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_ENUM: 1,
    FieldDescriptor.CPPTYPE_STRING: "text",
}


def filled(descriptor: Descriptor, depth: int = 1) -> Message:
    """Return a message with a value in every field, the last one of each oneof, `depth` deep."""
    message = message_factory.GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if field.message_type is not None and depth == 0:
            continue
        value = sample_value(field, depth)
        if is_map(field):
            fill_map(message, field, depth)
        elif field.is_repeated:
            getattr(message, field.name).append(value)
        elif isinstance(value, Message):
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)
    return message


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def fill_map(message: Message, field: FieldDescriptor, depth: int) -> None:
    assert field.message_type is not None
    value = sample_value(field.message_type.fields_by_name["value"], depth)
    if isinstance(value, Message):
        getattr(message, field.name)["key"].CopyFrom(value)
    else:
        getattr(message, field.name)["key"] = value


def sample_value(field: FieldDescriptor, depth: int) -> object:
    if field.message_type is not None:
        return filled(field.message_type, depth - 1)
    return b"bytes" if field.type == FieldDescriptor.TYPE_BYTES else SCALARS[field.cpp_type]


def test_betterproto_loses_no_field_that_grpcio_wrote() -> None:
    """Going through betterproto changes nothing, whatever the fields are called."""
    for name, descriptor in ALL.items():
        message = filled(descriptor)
        read = betterproto_class(name)().parse(message.SerializeToString())
        assert type(message).FromString(bytes(read)) == message, name


def test_no_betterproto_field_hides_a_method() -> None:
    for name, descriptor in ALL.items():
        names = set(inspect.get_annotations(betterproto_class(name)))
        assert names.isdisjoint(dir(betterproto.Message)), name
        assert len(names) == len(descriptor.fields), name
