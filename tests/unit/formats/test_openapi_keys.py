"""Keys of OpenAPI documents."""

import pytest
from apidiscovery_formats.openapi.keys import group_of, group_version_of, key_of


@pytest.mark.parametrize(
    ("key", "group_version", "group"),
    [
        ("api/v1", ("", "v1"), ""),
        ("apis/apps/v1", ("apps", "v1"), "apps"),
        ("apis/apps", None, "apps"),
        ("apis/apps/v1/deployments", None, "apps"),
        ("api", None, None),
        ("apis", None, None),
        ("apis/", None, None),
        ("version", None, None),
        ("", None, None),
    ],
)
def test_keys_tell_their_group_and_version(
    key: str, group_version: tuple[str, str] | None, group: str | None
) -> None:
    assert group_version_of(key) == group_version
    assert group_of(key) == group
    if group_version is not None:
        assert key_of(*group_version) == key
