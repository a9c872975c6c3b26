"""Schemas of Pydantic models: their structural form, and fields that have none."""

import asyncio
import json
import runpy
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import pytest
from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiVersion,
    InvalidFields,
    discovery_app,
)
from apidiscovery_service.extension_server.models import structural_schema
from http_server import served
from programs import kubectl
from pydantic import BaseModel, ConfigDict, Field, RootModel
from repository import EXAMPLES

from tools import find_tool

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EXAMPLE = EXAMPLES / "fastapi_server.py"


class Wood(Enum):
    """Where it is from."""

    OAK = "Oak"
    ELM = "Elm"


class Leg(BaseModel):
    """A leg."""

    length: int = Field(gt=0, le=900, description="In millimetres.")
    wood: Wood = Wood.OAK


class Chair(BaseModel):
    """A chair."""

    model_config = ConfigDict(extra="forbid")

    legs: list[Leg] = Field(min_length=3)
    spare: Leg | None = Field(None, description="The spare one.")
    label: str | None = Field(None, examples=["mine"])
    port: int | str = 80
    maybe_port: int | str | None = Field(None, alias="maybePort")
    tags: set[str] = set()
    anything: Any = None
    free: dict[str, Any] = {}
    names: dict[str, Leg] = {}
    made: datetime | None = None
    mode: Literal["a", "b"] = "a"
    one: Literal[1] = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


LEG: dict[str, Any] = {
    "type": "object",
    "description": "A leg.",
    "required": ["length"],
    "properties": {
        "length": {
            "type": "integer",
            "description": "In millimetres.",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 900,
        },
        "wood": {
            "type": "string",
            "description": "Where it is from.",
            "enum": ["Oak", "Elm"],
            "default": "Oak",
        },
    },
}


def groups(model: type[BaseModel]) -> list[ApiGroup]:
    return [ApiGroup("example.dev", [ApiVersion("v1", [ApiResource.from_model(model, "things")])])]


def test_each_field_has_its_structural_form() -> None:
    either = {"x-kubernetes-int-or-string": True}
    assert structural_schema(Chair) == {
        "type": "object",
        "description": "A chair.",
        "required": ["legs"],
        "properties": {
            "legs": {"type": "array", "items": LEG, "minItems": 3},
            "spare": {**LEG, "description": "The spare one.", "nullable": True},
            "label": {"type": "string", "nullable": True, "example": "mine"},
            "port": {**either, "default": 80},
            "maybePort": {**either, "nullable": True},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "default": [],
            },
            "anything": {PRESERVE: True},
            "free": {"type": "object", PRESERVE: True, "default": {}},
            "names": {"type": "object", "additionalProperties": LEG, "default": {}},
            "made": {"type": "string", "format": "date-time", "nullable": True},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "one": {"type": "integer", "enum": [1], "default": 1},
        },
    }
    discovery_app(groups(Chair))
    assert structural_schema(Open)[PRESERVE] is True
    discovery_app(groups(Open))


def test_fields_of_every_object_are_left_to_kubernetes() -> None:
    class Whole(BaseModel):
        apiVersion: str  # noqa: N815 - its name in Kubernetes
        kind: Literal["Whole"]
        metadata: dict[str, Any]
        spec: Leg

    assert structural_schema(Whole) == {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": LEG},
    }


def test_the_model_names_the_kind_unless_another_is_given() -> None:
    assert ApiResource.from_model(Leg, "legs").kind == "Leg"
    resource = ApiResource.from_model(Leg, "legs", kind="WoodenLeg", namespaced=False)
    assert (resource.kind, resource.plural, resource.namespaced) == ("WoodenLeg", "legs", False)
    assert resource.schema is Leg


class Node(BaseModel):
    children: list["Node"] = []


class Odd(BaseModel):
    node: Node
    price: Decimal
    pair: tuple[int, str]
    either: list[int | bool]
    port: Annotated[int, Field(gt=0)] | str
    keyed: dict[Annotated[str, Field(pattern="^a")], int]
    other: Annotated[Leg | Open, Field(description="One of two.")]


def test_fields_without_a_structural_form_are_named() -> None:
    with pytest.raises(InvalidFields) as caught:
        discovery_app(groups(Odd))
    found = caught.value.violations
    assert {one.field for one in found} == {"groups[0].versions[0].resources[0].schema"}
    told = [one.message.split(";")[0] for one in found]
    assert told == [
        "Odd.node.children[]: Node refers to itself",
        "Odd.price: is a union of number, string",
        "Odd.pair: is a tuple",
        "Odd.either[]: is a union of integer, boolean",
        "Odd.port: is a union of integer, string",
        "Odd.keyed: is a mapping with a pattern for its keys",
        "Odd.other: is a union of Leg, Open",
    ]


def test_a_model_that_is_no_object_is_refused() -> None:
    class Names(RootModel[list[str]]):
        pass

    with pytest.raises(InvalidFields, match="must be object at the root"):
        discovery_app(groups(Names))


def test_a_model_without_a_schema_is_refused() -> None:
    class Calls(BaseModel):
        function: Callable[[], int]

    with pytest.raises(InvalidFields, match="Calls: has no JSON schema: Cannot generate"):
        discovery_app(groups(Calls))


async def test_kubectl_explains_and_gets_what_fastapi_serves(tmp_path: Path) -> None:
    find_tool("kubectl")
    async with served(runpy.run_path(str(EXAMPLE))["application"]()) as url:

        async def run(*args: str) -> str:
            outcome = await asyncio.to_thread(kubectl, tmp_path, "--server", url, *args)
            assert outcome.exit_code == 0, outcome.stderr
            return outcome.stdout

        assert "A room that is booked for a day." in await run("explain", "bookings")
        fields = await run("explain", "bookings.spec")
        assert "seats\t<integer> -required-" in fields
        assert "How many people come." in fields
        assert "The number of the room, or its name." in fields
        assert "name\t<string> -required-" in await run("explain", "bookings.spec.guests")
        assert "reading" in await run("get", "bookings", "-A")
        missing = await asyncio.to_thread(
            kubectl, tmp_path, "--server", url, "get", "bookings", "none"
        )
        assert missing.stderr == (
            'Error from server (NotFound): bookings.rooms.example.com "none" not found\n'
        )
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
            path = "/apis/rooms.example.com/v1/namespaces/library/bookings"
            booking = {"metadata": {"name": "a"}, "spec": {"day": "2027-01-09", "seats": 0}}
            invalid = await http.post(path, json=booking)
        assert (invalid.status_code, invalid.json()["kind"]) == (422, "Status")
        assert invalid.json()["message"] == "spec.seats: Input should be greater than 0"
        phase = await run("explain", "bookings.status.phase")
        assert phase.split("ENUM:")[1].split()[:2] == ["Requested", "Confirmed"]
        booking = json.loads(await run("get", "bk", "reading", "-n", "library", "-o", "json"))
        assert booking["spec"]["guests"] == [{"email": None, "name": "Ada"}]
