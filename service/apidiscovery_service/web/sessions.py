"""Sessions of people who have entered a token, and the tokens of forms.

The cookie holds the name of a session; the credentials stay in memory of this process, and are
checked again with every request. A restart ends all sessions.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apidiscovery_service.recent import Recent

SESSION_COOKIE: Final = "__Host-apidiscovery-session"
FORM_COOKIE: Final = "__Host-apidiscovery-form"

_NAME_BYTES = 32
_IDLE_S = 8 * 3600.0
_MAX_SESSIONS = 1024


@dataclass(slots=True)
class _Session:
    authorization: bytes
    used: float


class Sessions:
    """The sessions of one process.

    Args:
        clock: Returns seconds, which only rise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: Recent[str, _Session] = Recent(_MAX_SESSIONS)
        self._secret = secrets.token_bytes(_NAME_BYTES)

    def begin(self, authorization: bytes) -> str:
        """Begin a session with an Authorization field; return its name."""
        name = secrets.token_urlsafe(_NAME_BYTES)
        self._sessions.put(name, _Session(authorization, self._clock()))
        return name

    def end(self, name: str) -> None:
        """End a session; unknown ones are ignored."""
        self._sessions.drop(name)

    def authorization(self, name: str) -> bytes | None:
        """Return the Authorization field of a session; None for one that has ended."""
        found = self._sessions.get(name)
        if found is None:
            return None
        now = self._clock()
        if now - found.used > _IDLE_S:
            self._sessions.drop(name)
            return None
        found.used = now
        return found.authorization

    def form_token(self, bound_to: str) -> str:
        """Return the token that a form must send back, bound to a cookie of the same browser."""
        return hmac.new(self._secret, bound_to.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, text: str, bound_to: str) -> bool:
        """Return whether a form has sent back its token."""
        return bool(bound_to) and hmac.compare_digest(
            text.encode(), self.form_token(bound_to).encode()
        )


def cookie(field: str, name: str) -> str:
    """Return the value of a cookie in a Cookie field; empty without one.

    Those of other servers on this host come with it, in any form: `http.cookies` gives up on all
    of a field for one that it cannot read. Source: RFC 6265, section 5.4.
    """
    for part in field.split(";"):
        found, _, value = part.partition("=")
        if found.strip() == name:
            return value.strip().strip('"')
    return ""


def set_cookie(name: str, value: str) -> bytes:
    """Return the Set-Cookie field that keeps a cookie until the browser closes; empty ends it."""
    age = "" if value else "; Max-Age=0"
    return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{age}".encode()
