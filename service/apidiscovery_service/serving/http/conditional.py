"""If-None-Match by RFC 9110, section 13.1.2."""

import re

_ENTITY_TAG = re.compile(r'(?:W/)?("[^"\x00-\x20\x7f]*")')


def none_match(if_none_match: str, etag: str) -> bool:
    """Tell whether the client does not have the document yet.

    Args:
        if_none_match: The header, lists joined by commas; empty when there is none.
        etag: The current entity tag in its double quotes.

    Returns:
        False, so that 304 is the answer, for `*` or any tag in the list that is the current one
        by weak comparison. What is no entity tag, such as one without quotes, matches nothing.
    """
    if if_none_match.strip() == "*":
        return False
    return etag not in _ENTITY_TAG.findall(if_none_match)
