"""The approval condition of CustomResourceDefinitions in groups of the Kubernetes community.

Source: k8s.io/apiextensions-apiserver pkg/apihelpers/helpers.go:IsProtectedCommunityGroup,
GetAPIApprovalState, and pkg/controller/apiapproval/apiapproval_controller.go:calculateCondition.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from apidiscovery_formats.go_text import quote

from apidiscovery_service.sources.crds.model import Condition

CONFORMANT: Final = "KubernetesAPIApprovalPolicyConformant"
ANNOTATION: Final = "api-approved.kubernetes.io"
SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
MUST: Final = f'protected groups must have approval annotation "{ANNOTATION}"'

_PROTECTED_GROUP = re.compile(r"(?:.*\.)?(?:k8s|kubernetes)\.io")
_UNAPPROVED: Final = "unapproved"


def is_protected(group: str) -> bool:
    """Return whether a group belongs to the community."""
    return _PROTECTED_GROUP.fullmatch(group) is not None


def is_valid(approval: str) -> bool:
    """Return whether the annotation is a URL of an approval, or says that there is none."""
    return approval.startswith(_UNAPPROVED) or _is_url(approval)


def condition(group: str, approval: str, since: str) -> tuple[Condition, ...]:
    """Return the condition of a definition; none outside of protected groups.

    Args:
        group: Its group.
        approval: Its annotation.
        since: The time of the condition.
    """
    if not is_protected(group):
        return ()
    if not approval:
        return (Condition(CONFORMANT, "False", "MissingAnnotation", f"{MUST}, {SEE}", since),)
    if approval.startswith(_UNAPPROVED):
        message = f"not approved: {quote(approval)}"
        return (Condition(CONFORMANT, "False", "UnapprovedAnnotation", message, since),)
    if _is_url(approval):
        message = f"approved in {approval}"
        return (Condition(CONFORMANT, "True", "ApprovedAnnotation", message, since),)
    message = f'{MUST} with either a URL or a reason starting with "unapproved", {SEE}'
    return (Condition(CONFORMANT, "False", "InvalidAnnotation", message, since),)


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    return bool(url.scheme and url.netloc)
