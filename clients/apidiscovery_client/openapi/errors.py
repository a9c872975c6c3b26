"""What can be wrong with OpenAPI documents, and with what is asked of them."""

from apidiscovery_client._errors import DiscoveryError


class UnsoundDocument(DiscoveryError):
    """A document cannot be used; the text says which one, what was seen and where."""


class NotExplained(DiscoveryError):
    """What was asked for is not in the documents; the text is kubectl's where it has one."""


class UnknownResource(DiscoveryError):
    """No resource is called so; kubectl writes this line without `error:` before it.

    Source: kubectl pkg/cmd/util/helpers.go `checkErr`, for `NoResourceMatchError`.
    """

    def __init__(self, resource: str, group: str = "") -> None:
        where = f' in group "{group}"' if group else ""
        super().__init__(f'the server doesn\'t have a resource type "{resource}"{where}')
