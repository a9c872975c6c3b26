"""Reads the objects of a collection of an API server, page by page."""

from collections.abc import Iterator
from urllib.parse import quote

from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._fields import Fields
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client.openapi.asking import FetchesPaths
from apidiscovery_client.openapi.json_documents import as_list, as_object, is_list, load

_MAX_PAGES = 1000


def listed(
    transport: FetchesPaths, path: str, what: str, *, limit: int = 500, selector: str = ""
) -> Iterator[Fields]:
    """Yield the objects of a collection in the server's order.

    Args:
        transport: To the server.
        path: Of the collection, without a query.
        what: The objects, in the plural, for errors.
        limit: How many objects an answer has at most.
        selector: Labels that the objects must have, such as `app=web`; empty for all.

    Raises:
        DiscoveryError: The server refuses, also in the middle, or does not answer.
    """
    query = f"limit={limit}" + (f"&labelSelector={quote(selector, safe='')}" if selector else "")
    token = url = ""
    for _ in range(_MAX_PAGES):
        more = f"&continue={quote(token, safe='')}" if token else ""
        reply = transport.get(f"{path}?{query}{more}", ACCEPT_PLAIN)
        url = reply.url
        answer = reply.read(lambda _type, body: load(body, f"the list of {what}"))
        items = answer.get("items")
        if not is_list(items) and not str(answer.get("kind")).endswith("List"):
            raise UnexpectedDocument(f"want a list of {what}, got no list", url=url)
        yield from map(as_object, as_list(items))
        token = str(as_object(answer.get("metadata")).get("continue") or "")
        if not token:
            return
    raise UnexpectedDocument(f"the list of {what} has more than {_MAX_PAGES} pages", url=url)
