"""Validates names, labels and versions as Kubernetes does.

Each function that returns `Errors` returns the messages in Kubernetes' words and order; none for a
valid text. Lengths are in bytes of UTF-8. Sources: k8s.io/apimachinery
pkg/util/validation/validation.go, pkg/api/validate/content and pkg/api/validation/generic.go;
kubernetes/kubernetes pkg/apis/apiserverinternal/validation/validation.go.
"""

import re
from typing import TypeAlias

Errors: TypeAlias = list[str]

_LABEL_MAX = 63
_SUBDOMAIN_MAX = 253

_DNS1123_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_DNS1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"

_LABEL_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_RULE = (
    "must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_EMPTY = "must be non-empty"


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text is a DNS subdomain (RFC 1123), as the name of an API group is."""
    return len(text) <= _SUBDOMAIN_MAX and _matches(_DNS1123_SUBDOMAIN, text)


def is_dns1035_label(text: str) -> bool:
    """Return whether a text is a DNS label (RFC 1035), as the name of an API version is."""
    return len(text) <= _LABEL_MAX and _matches(_DNS1035_LABEL, text)


def _too_long(limit: int, unit: str = "bytes") -> str:
    return f"must be no more than {limit} {unit}"


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    # Kubernetes joins examples with ", " and " or " both.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _size(text: str) -> int:
    return len(text.encode())


def dns_subdomain(text: str, unit: str = "bytes") -> Errors:
    """Validate a DNS subdomain (RFC 1123).

    Args:
        text: The text.
        unit: The unit of its length in messages: kube-apiserver 1.36 says `characters` for
            definitions and APIServices.
    """
    errors = [_too_long(_SUBDOMAIN_MAX, unit)] if _size(text) > _SUBDOMAIN_MAX else []
    if not _matches(_DNS1123_SUBDOMAIN, text):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(_mismatch(rule, _DNS1123_SUBDOMAIN, "example.com"))
    return errors


def dns_label(text: str) -> Errors:
    """Validate a DNS label (RFC 1123), such as the name of a namespace."""
    errors = [_too_long(_LABEL_MAX)] if _size(text) > _LABEL_MAX else []
    if _matches(_DNS1123_LABEL, text):
        return errors
    if _matches(_DNS1123_SUBDOMAIN, text):
        return [*errors, "must not contain dots"]
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*errors, _mismatch(rule, _DNS1123_LABEL, "my-name", "123-abc")]


def dns1035_label(text: str, unit: str = "bytes") -> Errors:
    """Validate a DNS label (RFC 1035), which begins with a letter.

    Args:
        text: The text.
        unit: As for `dns_subdomain`.
    """
    errors = [_too_long(_LABEL_MAX, unit)] if _size(text) > _LABEL_MAX else []
    if not _matches(_DNS1035_LABEL, text):
        rule = f"a DNS-1035 label {_DNS1035_RULE}"
        errors.append(_mismatch(rule, _DNS1035_LABEL, "my-name", "abc-123"))
    return errors


def qualified_name(text: str) -> Errors:
    """Validate the key of a label: a name with an optional `prefix/`."""
    mismatch = _mismatch(_LABEL_KEY_RULE, _LABEL_KEY, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rest = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {mismatch} {rest}"]
    errors = [f"prefix part {error}" for error in _part(prefix, bool(slash))]
    if not name:
        errors.append(f"name part {_EMPTY}")
    elif _size(name) > _LABEL_MAX:
        errors.append(f"name part {_too_long(_LABEL_MAX)}")
    if not _matches(_LABEL_KEY, name):
        errors.append(f"name part {mismatch}")
    return errors


def _part(subdomain: str, given: bool) -> Errors:  # noqa: FBT001 - private, two callers
    if not given:
        return []
    return dns_subdomain(subdomain) if subdomain else [_EMPTY]


def label_value(text: str) -> Errors:
    """Validate the value of a label, which may be empty."""
    errors = [_too_long(_LABEL_MAX)] if _size(text) > _LABEL_MAX else []
    if not _matches(_LABEL_VALUE, text):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', "
            "'_' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(_mismatch(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


def api_version(text: str) -> Errors:
    """Validate `version` or `group/version`."""
    group, slash, version = text.rpartition("/")
    if "/" in group:
        rule = f"a DNS-1035 label, which {_DNS1035_RULE}"
        mismatch = _mismatch(rule, _DNS1035_LABEL, "my-name", "abc-123")
        rest = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
        return [f"an apiVersion is {mismatch} {rest}"]
    errors = [f"group part: {error}" for error in _part(group, bool(slash))]
    of_version = dns1035_label(version) if version else [_EMPTY]
    return errors + [f"version part: {error}" for error in of_version]


def storage_version_name(text: str) -> Errors:
    """Validate the name of a StorageVersion: `group.resource`."""
    group, dot, resource = text.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    errors = [f"the group segment {error}" for error in dns_subdomain(group)]
    return errors + [f"the resource segment {error}" for error in dns1035_label(resource)]


def path_segment(text: str) -> Errors:
    """Validate a name as a segment of a URL path.

    Source: k8s.io/apimachinery pkg/api/validation/path/name.go.
    """
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return path_segment_prefix(text)


def path_segment_prefix(text: str) -> Errors:
    """Validate the beginning of a name as part of a segment of a URL path."""
    return [f"may not contain '{mark}'" for mark in "/%" if mark in text]


def without_trailing_dash(prefix: str) -> str:
    """Return the beginning of a name in a form that can be validated as a whole name.

    Kubernetes removes a trailing dash *and* the letter before it, and appends a letter. Source:
    k8s.io/apimachinery pkg/api/validation/generic.go, `maskTrailingDash`.
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
