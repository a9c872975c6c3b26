"""What Kubernetes wants of the schemas of a CustomResourceDefinition that is applied.

Fields are called as they stand in the document, `spec.versions[0].schema.openAPIV3Schema`, always:
kube-apiserver says `spec.validation.openAPIV3Schema` where all versions have the same schema, which
nobody finds in what was applied. Words and what follows in the path are its own. What it finds by
evaluating a schema is not looked for: regular expressions and CEL rules that do not compile, and
defaults that are not valid.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go:
validateCustomResourceDefinitionVersion (rules) and pkg/apis/apiextensions/v1/conversion.go:
Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec (the path).
"""

import hashlib
from itertools import islice
from threading import Lock

from apidiscovery_service.openapi.crd import structural
from apidiscovery_service.sources.fields import Fields, json_form

# Of a definition, with what else is wrong with it; more than anybody is told.
MAX_FOUND = 200

# Digests of schemas in which nothing was wrong, the latest last: whoever keeps a cluster at what
# stands in files applies the same ones again and again.
_MAX_GOOD = 4096
_good: dict[bytes, None] = {}
# Requests are read in several threads.
_keeping = Lock()


def check(version: Fields, *, status: bool) -> None:
    """Note in the findings of a version what is wrong with its schema.

    A schema may be as deep and as large as `openapi.crd_limits` says; what is wrong with one that
    is more is only that. Nothing is looked at any more once enough is found, nor is a schema in
    which nothing was wrong the last time.

    Args:
        version: Of which the schema is.
        status: Whether it has the status subresource, which allows less at the root of the schema.
    """
    schema = version.object("schema")
    node = schema.node("openAPIV3Schema") if schema else None
    if node is None:
        return
    value, text = json_form(node.value, node.path)
    digest = hashlib.blake2b(text, key=b"status" if status else b"").digest()
    if digest in _good:
        return
    room = max(MAX_FOUND - version.findings.count, 0)
    found = list(islice(structural.violations(value, node.path, status=status), room))
    for path, message in found:
        version.findings.add(path, message)
    if room and not found:
        keep_good(digest)


def keep_good(digest: bytes) -> None:
    """Remember a schema in which nothing was wrong, in place of the one that came first."""
    with _keeping:
        _good[digest] = None
        while len(_good) > _MAX_GOOD:
            del _good[next(iter(_good))]
