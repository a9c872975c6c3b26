"""Values of JSON documents that know where they stand, for messages that say so."""

from dataclasses import dataclass
from typing import cast

from apidiscovery_cli.conformance.check import FailedError
from apidiscovery_cli.conformance.exchange import Reply

_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Node:
    """A value in the body of an answer.

    Attributes:
        value: None also where there is none.
        path: Such as `items[0].versions[1]`, empty for the document.
    """

    reply: Reply
    value: object
    path: str = ""

    def fail(self, wanted: str) -> FailedError:
        """Return the error that the value is not what is wanted."""
        text = repr(self.value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        seen = f"{self.path or 'the document'} is {shown if self.value is not None else 'missing'}"
        return FailedError(seen, wanted, self.reply.asked)

    def __getitem__(self, name: str) -> "Node":
        """Return a member of an object."""
        members = self._members
        path = f"{self.path}.{name}" if self.path else name
        return Node(self.reply, members.get(name), path)

    @property
    def names(self) -> list[str]:
        """The names of the members of an object."""
        return list(self._members)

    @property
    def _members(self) -> dict[str, object]:
        value = self.value
        if not isinstance(value, dict):
            raise self.fail("a JSON object")
        return cast("dict[str, object]", value)

    @property
    def items(self) -> "list[Node]":
        """The items of a list."""
        value = self.value
        if not isinstance(value, list):
            raise self.fail("a JSON list")
        values = cast("list[object]", value)
        return [Node(self.reply, item, f"{self.path}[{i}]") for i, item in enumerate(values)]

    @property
    def items_if_any(self) -> "list[Node]":
        """The items of a list, none where there is no list."""
        return [] if self.value is None else self.items

    @property
    def text(self) -> str:
        """Text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.fail("text that is not empty")
        return self.value

    def one_of(self, *wanted: object) -> None:
        """See that it is one of some values."""
        if self.value not in wanted:
            raise self.fail(" or ".join(map(repr, wanted)))


def document(reply: Reply) -> Node:
    """Return the JSON document of an answer.

    Raises:
        FailedError: It is no JSON.
    """
    try:
        return Node(reply, reply.json())
    except ValueError as error:
        raise FailedError(f"{reply}: {error}", "a JSON document", reply.asked) from None
