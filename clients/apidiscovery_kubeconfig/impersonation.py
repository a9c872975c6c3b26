"""Whom a request is to be judged as, in place of who sends it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apidiscovery_kubeconfig.fields import Fields

# RFC 9110 section 5.6.2, tchar.
_TOKEN_CHARACTERS = frozenset(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom a request is to be judged as (`as` and its companions in a kubeconfig)."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def lines(self) -> list[tuple[str, str]]:
        """Return the header lines; a name may be there several times.

        Source: client-go transport/round_trippers.go `impersonatingRoundTripper.RoundTrip`.
        """
        lines = [("Impersonate-User", self.user)]
        if self.uid:
            lines.append(("Impersonate-Uid", self.uid))
        lines += [("Impersonate-Group", group) for group in self.groups]
        lines += [
            (f"Impersonate-Extra-{_escape(key)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return lines


def read_impersonation(fields: Fields) -> Impersonation | None:
    """Return what the keys `as`, `as-uid`, `as-groups` and `as-user-extra` ask for, if anything.

    Raises:
        ConfigurationError: One is there without `as`, or cannot stand in a header.
    """
    asked = Impersonation(
        fields.text("as"),
        fields.text("as-uid"),
        fields.texts("as-groups"),
        fields.text_lists("as-user-extra"),
    )
    values = {
        "as": (asked.user,),
        "as-uid": (asked.uid,),
        "as-groups": asked.groups,
        "as-user-extra": tuple(text for texts in asked.extra.values() for text in texts),
    }
    for key, texts in values.items():
        if key in fields and not asked.user:
            raise fields.wrong(key, "want `as` beside it: whom to impersonate")
        if not all(map(is_header_value, texts)):
            raise fields.wrong(key, "holds a control character, which no header may")
    return asked if asked.user else None


def is_header_value(text: str) -> bool:
    """Return whether a text can stand in a header (RFC 9110 section 5.5, UTF-8 let through)."""
    return all(character >= " " and character != "\x7f" for character in text)


def _escape(key: str) -> str:
    """Return a key fit for a header name (`headerKeyEscape` of the same file)."""
    return "".join(
        chr(byte) if chr(byte) in _TOKEN_CHARACTERS and chr(byte) != "%" else f"%{byte:02X}"
        for byte in key.encode()
    )
