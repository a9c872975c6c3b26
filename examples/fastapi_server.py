"""An API server in FastAPI whose Pydantic models are also its schemas for kubectl.

Run it, then ask:

    kubectl --server http://127.0.0.1:8083 explain bookings.spec --recursive
    kubectl --server http://127.0.0.1:8083 get bookings -n library
    kubectl --server http://127.0.0.1:8083 get bookings -A
    kubectl --server http://127.0.0.1:8083 get bookings -n library --sort-by .spec.seats
    apidiscovery conformance http://127.0.0.1:8083
"""

import sys
from datetime import date
from typing import Any, Literal

from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiVersion,
    discovery_app,
    run,
)
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

GROUP = "rooms.example.com"
V1 = f"/apis/{GROUP}/v1"
BASE = f"{V1}/namespaces/{{namespace}}/bookings"
REASONS = {404: "NotFound", 422: "Invalid"}


class Guest(BaseModel):
    """Somebody who comes."""

    name: str = Field(min_length=1)
    email: str | None = None


class BookingSpec(BaseModel):
    """What is asked for."""

    day: date
    seats: int = Field(gt=0, description="How many people come.")
    room: int | str = Field(default=1, description="The number of the room, or its name.")
    guests: list[Guest] = []


class BookingStatus(BaseModel):
    """What has become of it."""

    phase: Literal["Requested", "Confirmed"] = "Requested"


class Booking(BaseModel):
    """A room that is booked for a day."""

    apiVersion: str = f"{GROUP}/v1"  # noqa: N815 - its name in Kubernetes
    kind: str = "Booking"
    metadata: dict[str, Any]
    spec: BookingSpec
    status: BookingStatus | None = None


BOOKINGS = ApiResource.from_model(
    Booking, "bookings", short_names=("bk",), verbs=("create", "get", "list")
)

STORED = [
    Booking(
        metadata={"name": "reading", "namespace": "library"},
        spec=BookingSpec(day=date(2027, 1, 8), seats=12, guests=[Guest(name="Ada")]),
    )
]


async def failure(_request: Request, error: Exception) -> JSONResponse:
    """Answer an error with a Status, as every Kubernetes API does."""
    if isinstance(error, HTTPException):
        code, message = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        code = 422
        message = "; ".join(
            f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()
        )
    else:
        code, message = 500, "internal error"
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    answer = {
        **status,
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, ""),
        "code": code,
    }
    return JSONResponse(answer, code)


def application() -> FastAPI:
    """Return the API, and behind its routes everything about its discovery."""
    app = FastAPI(title="Rooms", docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, failure)

    @app.get(f"{V1}/bookings")  # of all namespaces: kubectl get -A
    @app.get(BASE)
    async def list_bookings(namespace: str = "") -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction] - FastAPI calls it
        items = [one for one in STORED if namespace in ("", one.metadata["namespace"])]
        return {"apiVersion": f"{GROUP}/v1", "kind": "BookingList", "items": items}

    @app.get(f"{BASE}/{{name}}")
    async def get_booking(namespace: str, name: str) -> Booking:  # pyright: ignore[reportUnusedFunction] - FastAPI calls it
        for one in STORED:
            if (one.metadata["namespace"], one.metadata["name"]) == (namespace, name):
                return one
        raise HTTPException(404, f'bookings.{GROUP} "{name}" not found')

    @app.post(BASE, status_code=201)
    async def create_booking(namespace: str, booking: Booking) -> Booking:  # pyright: ignore[reportUnusedFunction] - FastAPI calls it
        booking.metadata["namespace"] = namespace
        STORED.append(booking)
        return booking

    app.mount("/", discovery_app([ApiGroup(GROUP, [ApiVersion("v1", [BOOKINGS])])]))
    return app


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8083").rpartition(":")
    run(application(), host, int(port))
