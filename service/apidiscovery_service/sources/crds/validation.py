"""Validation of CustomResourceDefinitions; of their schemas only if that is asked for.

Source of the rules, their order and words: k8s.io/apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go:ValidateCustomResourceDefinition.

Fields of schemas are named as in the document, `spec.versions[0].schema.openAPIV3Schema`, always:
kube-apiserver says `spec.validation.openAPIV3Schema` where all versions have the same schema, which
is not in what was applied. What it finds by evaluating a schema is not checked: regular expressions
and CEL rules that do not compile, and defaults that are not valid.
"""

import hashlib
from collections.abc import Sequence
from itertools import islice
from urllib.parse import urlsplit

from apidiscovery_service.core.model import Scope
from apidiscovery_service.kube import field_messages
from apidiscovery_service.openapi.crd import structural
from apidiscovery_service.sources.crds import approval as crd_approval
from apidiscovery_service.sources.crds.model import CustomResourceDefinition, Names
from apidiscovery_service.sources.fields import (
    Fields,
    Findings,
    Path,
    json_form,
    label_1035_errors,
    port_errors,
    subdomain_errors,
)

# Errors of one definition, beyond which schemas are not checked; more than are shown.
MAX_FOUND = 200

# Digests of valid schemas, which are not checked again; mostly the same ones are applied again.
# Reading a definition with a schema of 100 fields takes 0.2 ms then instead of 0.55, of 0.8 ms that
# applying it takes in memory.
_valid_schemas: set[bytes] = set()
_MAX_VALID_SCHEMAS = 4096

_COLUMN = ("name", "type", "format", "description", "priority", "jsonPath")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_MAX_SELECTABLE_FIELDS = 8
_MAX_WARNING_BYTES = 256

_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")


def check(
    crd: CustomResourceDefinition,
    top: Fields,
    spec: Fields,
    versions: Sequence[Fields],
    *,
    schemas: bool,
) -> None:
    """Add every error to the findings of the fields.

    Args:
        crd: The definition as it was read.
        top: Its fields.
        spec: The fields of its spec.
        versions: The fields of its versions.
        schemas: Whether to validate the content of schemas as well.
    """
    metadata = top.object("metadata")
    _check_name(crd, top)
    _check_group(crd.group, spec)
    _check_scope(crd.scope, spec)
    _check_versions(crd, spec, versions, schemas=schemas)
    _check_names_given(crd.names, spec)
    _check_names(crd.names, spec.at("names"), spec.findings)
    _check_conversion(spec)
    _check_status(crd, top)
    _check_approval(crd.group, metadata, top)
    if spec.flag("preserveUnknownFields"):
        spec.findings.invalid(
            spec.at("preserveUnknownFields"),
            True,  # noqa: FBT003 - the value that was seen
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead",
        )


def _check_name(crd: CustomResourceDefinition, top: Fields) -> None:
    path = top.at("metadata", "name")
    if not crd.name:
        top.findings.required(path, "name or generateName is required")
        return
    for error in subdomain_errors(crd.name):
        top.findings.invalid(path, crd.name, error)
    if crd.name != f"{crd.names.plural}.{crd.group}":
        top.findings.invalid(path, crd.name, 'must be spec.names.plural+"."+spec.group')


def _check_group(group: str, spec: Fields) -> None:
    path = spec.at("group")
    errors = subdomain_errors(group)
    if not group:
        spec.findings.required(path)
    elif errors:
        spec.findings.invalid(path, group, ",".join(errors))
    elif "." not in group:
        spec.findings.invalid(path, group, "should be a domain with at least one dot")


def _check_scope(scope: str, spec: Fields) -> None:
    if not scope:
        spec.findings.required(spec.at("scope"))
    elif scope not in tuple(Scope):
        spec.findings.unsupported(spec.at("scope"), scope, Scope)


def _check_versions(
    crd: CustomResourceDefinition, spec: Fields, versions: Sequence[Fields], *, schemas: bool
) -> None:
    for fields in versions:
        _check_schema(fields)
    for fields, version in zip(versions, crd.versions, strict=True):
        if errors := label_1035_errors(version.name):
            spec.findings.invalid(fields.at("name"), version.name, ",".join(errors))
        _check_deprecation(fields)
        if schemas:
            _check_structure(fields, status=version.status)
        _check_scale(fields)
        for column in fields.objects("additionalPrinterColumns", *_COLUMN):
            _check_column(column)
        _check_selectable(fields)
    path, names = spec.at("versions"), [version.name for version in crd.versions]
    if len(set(names)) < len(names):
        spec.findings.invalid(path, names, "must contain unique version names")
    if sum(version.storage for version in crd.versions) != 1:
        message = "must have exactly one version marked as storage version"
        spec.findings.invalid(path, names, message)


def _check_schema(version: Fields) -> None:
    schema = version.object("schema", "openAPIV3Schema")
    if schema is None or "openAPIV3Schema" not in schema:
        path = version.at("schema", "openAPIV3Schema")
        version.findings.required(path, "schemas are required")
    else:
        schema.object("openAPIV3Schema")


def _check_structure(version: Fields, *, status: bool) -> None:
    """Note what is not valid or not structural in a schema.

    A schema may be as deep and as large as `openapi.crd_limits` says; of a larger one that is the
    only error.

    Source: validation.go:validateCustomResourceDefinitionVersion (rules) and
    pkg/apis/apiextensions/v1/conversion.go:
    Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec (path).

    Args:
        version: The version that has the schema.
        status: Whether it has the status subresource, which allows less at the root of the schema.
    """
    schema = version.object("schema")
    node = schema.node("openAPIV3Schema") if schema else None
    if node is None:
        return
    value, text = json_form(node.value, node.path)
    digest = hashlib.blake2b(text, key=b"status" if status else b"").digest()
    if digest in _valid_schemas:
        return
    room = max(MAX_FOUND - version.findings.count, 0)
    found = list(islice(structural.violations(value, node.path, status=status), room))
    for path, message in found:
        version.findings.add(path, message)
    if room and not found:
        # Requests are read in several threads: each of these calls is atomic.
        if len(_valid_schemas) >= _MAX_VALID_SCHEMAS:
            _valid_schemas.clear()
        _valid_schemas.add(digest)


def _check_deprecation(version: Fields) -> None:
    if "deprecationWarning" not in version:
        return
    path, warning = version.at("deprecationWarning"), version.text("deprecationWarning")
    if not version.flag("deprecated"):
        version.findings.invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode(errors="surrogatepass")) > _MAX_WARNING_BYTES:
        message = f"must be <= {_MAX_WARNING_BYTES} characters long"
        version.findings.invalid(path, warning, message)
    if not warning:
        version.findings.invalid(path, warning, "must not be an empty string")
    if not warning.isprintable():
        version.findings.invalid(path, warning, "must only contain printable UTF-8 characters")


def _check_scale(version: Fields) -> None:
    subresources = version.object("subresources")
    if subresources is None:
        return
    subresources.object("status")
    scale = subresources.object(
        "scale", "specReplicasPath", "statusReplicasPath", "labelSelectorPath"
    )
    if scale is None:
        return
    for name, roots, under in (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    ):
        path, value = scale.at(name), scale.text(name)
        if not value:
            if name != "labelSelectorPath":
                scale.findings.required(path)
        elif not value.startswith("."):
            scale.findings.invalid(path, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            scale.findings.invalid(path, value, f"should be a json path under {under}")


def _check_column(column: Fields) -> None:
    findings, kind, shape = column.findings, column.text("type"), column.text("format")
    one_of = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.text("name"):
        findings.required(column.at("name"))
    if not kind:
        findings.required(column.at("type"), one_of)
    elif kind not in _COLUMN_TYPES:
        findings.invalid(column.at("type"), kind, one_of)
    if shape and shape not in _COLUMN_FORMATS:
        message = f"must be one of {','.join(_COLUMN_FORMATS)}"
        findings.invalid(column.at("format"), shape, message)
    path = column.text("jsonPath")
    if not path:
        findings.required(column.at("jsonPath"))
    elif not path.startswith("."):
        message = "must be a simple json path starting with ."
        findings.invalid(column.at("jsonPath"), path, message)
    column.text("description")
    column.integer("priority")


def _check_selectable(version: Fields) -> None:
    seen: set[str] = set()
    for field in version.objects("selectableFields", "jsonPath"):
        path = field.text("jsonPath")
        if not path:
            field.findings.required(field.at("jsonPath"))
        elif path in seen:
            field.findings.add(field.at("jsonPath"), field_messages.duplicate(path))
        seen.add(path)
    if len(seen) > _MAX_SELECTABLE_FIELDS:
        message = f"Too many: {len(seen)}: must have at most {_MAX_SELECTABLE_FIELDS} items"
        version.findings.add(version.at("selectableFields"), message)


def _check_names_given(names: Names, spec: Fields) -> None:
    for name, value in (
        ("plural", names.plural),
        ("singular", names.singular),
        ("kind", names.kind),
        ("listKind", names.list_kind),
    ):
        if not value:
            spec.findings.required(spec.at("names", name))


def _check_names(names: Names, path: Path, findings: Findings) -> None:
    """Note names that are not labels; empty ones are ignored."""
    for name, value in (("plural", names.plural), ("singular", names.singular)):
        if value and (errors := label_1035_errors(value)):
            findings.invalid((*path, name), value, ",".join(errors))
    for name, value in (("kind", names.kind), ("listKind", names.list_kind)):
        if value and (errors := label_1035_errors(value.lower())):
            message = f"may have mixed case, but should otherwise match: {','.join(errors)}"
            findings.invalid((*path, name), value, message)
    for name, values in (("shortNames", names.short_names), ("categories", names.categories)):
        for place, value in enumerate(values):
            if errors := label_1035_errors(value):
                findings.invalid((*path, name, place), value, ",".join(errors))
    if names.kind and names.kind == names.list_kind:
        message = "kind and listKind may not be the same"
        findings.invalid((*path, "listKind"), names.list_kind, message)


def _check_conversion(spec: Fields) -> None:
    conversion = spec.object("conversion", "strategy", "webhook")
    if conversion is None:
        return
    strategy = conversion.text("strategy")
    webhook = conversion.object("webhook", "clientConfig", "conversionReviewVersions")
    if not strategy:
        spec.findings.required(conversion.at("strategy"))
    elif strategy not in _STRATEGIES:
        spec.findings.unsupported(conversion.at("strategy"), strategy, _STRATEGIES)
    if strategy == "Webhook":
        _check_webhook(conversion, webhook)
    elif webhook is not None:
        message = "should not be set when strategy is not set to Webhook"
        spec.findings.forbidden(conversion.at("webhook"), message)


def _check_webhook(conversion: Fields, webhook: Fields | None) -> None:
    findings, path = conversion.findings, conversion.at("webhook", "clientConfig")
    client = webhook.object("clientConfig", "url", "service", "caBundle") if webhook else None
    if client is None:
        findings.required(path, "required when strategy is set to Webhook")
    elif ("url" in client) == ("service" in client):
        findings.required(path, "exactly one of url or service is required")
    elif "url" in client:
        _check_url(client)
    else:
        _check_service(client)
    _check_review_versions(webhook, conversion)


def _check_url(client: Fields) -> None:
    """Source: k8s.io/apiserver pkg/util/webhook/validation.go:ValidateWebhookURL."""
    path, text = client.at("url"), client.text("url")
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as error:
        client.findings.required(path, f"url must be a valid URL: {error}{form}")
        return
    for wrong, message in (
        (url.scheme != "https", f"'https' is the only allowed URL scheme{form}"),
        (not url.netloc, f"host must be specified{form}"),
        ("@" in url.netloc, "user information is not permitted in the URL"),
        ("#" in text, "fragments are not permitted in the URL"),
        ("?" in text, "query parameters are not permitted in the URL"),
    ):
        if wrong:
            # Without the value, which may have a password before an @.
            client.findings.invalid_hidden(path, message)


def _check_service(client: Fields) -> None:
    """Source: k8s.io/apiserver pkg/util/webhook/validation.go:ValidateWebhookService."""
    service = client.object("service", "namespace", "name", "path", "port")
    if service is None:
        return
    for name, what in (("name", "service name"), ("namespace", "service namespace")):
        if not service.text(name):
            service.findings.required(service.at(name), f"{what} is required")
    port = service.integer("port")
    if port is not None and (errors := port_errors(port)):
        message = f"port is not valid: {','.join(errors)}"
        service.findings.invalid(service.at("port"), port, message)
    path = service.text("path")
    if path and not path.startswith("/"):
        service.findings.invalid(service.at("path"), path, "must start with a '/'")


def _check_review_versions(webhook: Fields | None, conversion: Fields) -> None:
    findings = conversion.findings
    path = conversion.at("webhook", "conversionReviewVersions")
    versions = webhook.texts("conversionReviewVersions") if webhook else ()
    if not versions:
        findings.required(path)
        return
    for place, version in enumerate(versions):
        if version in versions[:place]:
            findings.invalid((*path, place), version, "duplicate version")
        elif errors := label_1035_errors(version):
            findings.invalid((*path, place), version, ",".join(errors))
    if not set(versions) & set(_REVIEW_VERSIONS):
        message = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        findings.invalid(path, list(versions), message)


def _check_status(crd: CustomResourceDefinition, top: Fields) -> None:
    if crd.stated is None:
        return
    if crd.stated.accepted is not None:
        _check_names(crd.stated.accepted, top.at("status", "acceptedNames"), top.findings)
    versions = {version.name for version in crd.versions}
    for place, stored in enumerate(crd.stated.stored_versions):
        if stored not in versions:
            top.findings.invalid(
                top.at("status", "storedVersions", place),
                stored,
                f"missing from spec.versions; {stored} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {stored} and removes {stored} from status.storedVersions",
            )


def _check_approval(group: str, metadata: Fields | None, top: Fields) -> None:
    """Groups of the Kubernetes project need to say who approved them.

    Source: pkg/apihelpers/helpers.go:IsProtectedCommunityGroup, GetAPIApprovalState.
    """
    if not crd_approval.is_protected(group):
        return
    annotations = metadata.object("annotations") if metadata else None
    approval = annotations.text(crd_approval.ANNOTATION) if annotations else ""
    path = top.at("metadata", "annotations", crd_approval.ANNOTATION)
    if not approval:
        top.findings.required(path, f"{crd_approval.MUST}, {crd_approval.SEE}")
    elif not crd_approval.is_valid(approval):
        wanted = 'with either a URL or a reason starting with "unapproved"'
        top.findings.invalid(path, approval, f"{crd_approval.MUST} {wanted}, {crd_approval.SEE}")
