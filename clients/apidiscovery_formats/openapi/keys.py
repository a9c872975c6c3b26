"""Keys of OpenAPI v3 documents, which are the paths that they describe.

`api/v1`, `apis/apps/v1`, and above group-versions `api`, `apis`, `apis/apps` and `version`.
"""


def key_of(group: str, version: str) -> str:
    """Return the key of the document of a group-version; the group is empty for the core group.

    >>> key_of("apps", "v1"), key_of("", "v1")
    ('apis/apps/v1', 'api/v1')
    """
    return f"{prefix_of(group)}/{version}"


def prefix_of(group: str) -> str:
    """Return what the keys of a group begin with, before a slash: `apis/GROUP` or `api`."""
    return f"apis/{group}" if group else "api"


def group_version_of(key: str) -> tuple[str, str] | None:
    """Return the group and version that a document is about; None for those of other paths."""
    match key.split("/"):
        case ["api", version]:
            return "", version
        case ["apis", group, version]:
            return group, version
        case _:
            return None


def group_of(key: str) -> str | None:
    """Return the group of a document, empty for the core group; None for `api`, `version`, ..."""
    root, _, rest = key.partition("/")
    if root == "api" and rest:
        return ""
    return (rest.partition("/")[0] or None) if root == "apis" else None
