"""The schemas of releases of Kubernetes, as a kube-apiserver of each served them."""

from collections.abc import Iterable, Mapping

from apidiscovery_releases import Release, UnknownRelease

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._fields import Fields
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.openapi.asking import group_version_of, key_of
from apidiscovery_client.openapi.json_documents import load
from apidiscovery_client.schemas.model import Components, Documents
from apidiscovery_client.snapshots.releases import PREFIX, known_groups


class ReleasedSchemas:
    """The schemas of the built-in kinds of a release; in all else as `SchemaSource`.

    Args:
        version: Such as `1.31`, `v1.31` or `1.31.4`; only the minor version counts.

    Raises:
        InvalidConfiguration: It is not a release, or one whose schemas are not recorded.
    """

    is_partial = False

    def __init__(self, version: str) -> None:
        try:
            self._release = Release.read(version)
        except UnknownRelease as error:
            raise InvalidConfiguration(f"{PREFIX}{version}: schemas: {error}") from None
        self.name = f"{PREFIX}{self._release.name}"
        self.definitions: Mapping[str, Fields] = {}

    @property
    def group_versions(self) -> frozenset[GroupVersion]:
        """Those that the release serves by default."""
        found = map(group_version_of, self._release.openapi_hashes)
        return frozenset(gv for gv in found if gv is not None)

    def documents(self, wanted: Iterable[GroupVersion]) -> Documents:
        """Return recorded documents."""
        keys = {key_of(gv): gv for gv in wanted}
        if not keys:
            return Documents()
        recorded = self._release.openapi_v3_documents(keys)
        return Documents(
            {
                gv: Components.of(load(recorded[key], f"the OpenAPI document of {key}"))
                for key, gv in keys.items()
            }
        )

    def covers(self, group: str) -> bool:
        """Tell whether a group is one of Kubernetes."""
        return group in known_groups()
