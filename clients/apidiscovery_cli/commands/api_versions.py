"""`apidiscovery api-versions`."""

from apidiscovery_client._kubectl import failures_of_groups, listed_versions
from apidiscovery_client._terminal import printable

from apidiscovery_cli.discovery import (
    ONLY_GROUPS,
    SOURCE,
    discover,
    refuse_nothing,
    source_of,
)
from apidiscovery_cli.output import write
from apidiscovery_cli.plain_options import PlainCommand, Values


def _api_versions(values: Values) -> None:
    snapshot = discover(source_of(values), ONLY_GROUPS)
    names = sorted(
        str(version.gv) for group in snapshot.groups for version in listed_versions(group)
    )
    write("".join(f"{printable(name)}\n" for name in names), failures_of_groups(snapshot))
    refuse_nothing(snapshot)


API_VERSIONS = PlainCommand(
    "api-versions",
    'Print the supported API versions on the server, in the form of "group/version".',
    SOURCE,
    _api_versions,
)
