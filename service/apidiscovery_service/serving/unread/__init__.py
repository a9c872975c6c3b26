"""Answers that their readers have not taken yet: how much of them there may be.

A server that is asked faster than it is read keeps what it answers, and HTTP/2 lets one connection
ask a hundred times without reading a byte. So what is unread is counted, for each caller and in
total, and a connection that takes nothing is cut.
"""

from apidiscovery_service.serving.unread.connections import end_name
from apidiscovery_service.serving.unread.ledger import Place, Unread, UnreadLimits

__all__ = ["Place", "Unread", "UnreadLimits", "end_name"]
