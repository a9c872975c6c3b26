"""What Kubernetes asks of the schemas of CustomResourceDefinitions (apiextensions.k8s.io/v1)."""

from collections.abc import Iterator

from apidiscovery_service.openapi.crd import invariants, rules, schema_fields
from apidiscovery_service.openapi.crd.errors import Problem, field_path
from apidiscovery_service.openapi.crd.schema_fields import Reading
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

__all__ = ["field_path", "is_structural", "violations"]


def violations(
    schema: object, path: Path = (), *, status: bool = False, takes_null: bool = True
) -> Iterator[Problem]:
    """Yield what Kubernetes would not accept in a schema: where it is, and why, in its words.

    `field_path` writes the place as Kubernetes does. What would need something of the schema to be
    evaluated is not looked at: regular expressions, CEL rules, and whether defaults are valid.

    Args:
        schema: An `openAPIV3Schema` as JSON values.
        path: Where it is.
        status: Whether its version has the status subresource, which allows less at the root.
        takes_null: Whether a field that is null is taken as absent, as Kubernetes takes it.
    """
    try:
        reading = schema_fields.read(schema, path)
    except InvalidOpenAPI as error:
        yield error.path, error.message
        return
    for place, names in reading.unknown:
        for name in names:
            yield (*place, name), f'unknown field "{field_path((*place, name))}"'
    if malformed := reading.malformed + ([] if takes_null else reading.nulls):
        yield from malformed
        return
    found = reading.types + reading.unstructural + reading.unsupported
    if not reading.unstructural:
        found += invariants.problems(reading.schema, path)
    found += rules.problems(reading.schema, path, status=status)
    yield from sorted(
        dict.fromkeys(found), key=lambda problem: (field_path(problem[0]), problem[1])
    )


def is_structural(reading: Reading) -> bool:
    """Tell whether Kubernetes publishes the fields of a schema.

    It does so of a structural schema, even of one that `violations` are found in: it may have been
    accepted before they were looked for.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:generateBuilder.
    """
    if reading.malformed or reading.types or reading.unstructural:
        return False
    return not invariants.problems(reading.schema)
