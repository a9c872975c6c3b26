"""Resources of the dynamic clients of `kubernetes` and `kubernetes_asyncio`."""

from typing import Any


def properties(resources: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - not typed well
    """Return all properties of resources but the hash that aggregated documents do not have."""
    found = [one.to_dict() for one in resources]
    for one in found:
        one.pop("storageVersionHash", None)
    return found
