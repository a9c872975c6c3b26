"""Errors of background tasks."""

import pytest
from apidiscovery_service.app import run
from apidiscovery_service.app.settings import Address, Catalog, Settings
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import StoreRefused

SETTINGS = Settings(Address("127.0.0.1", 0), None, Catalog())


def failing(error: BaseException) -> object:
    async def serve(_: Settings) -> None:
        raise error

    return serve


def test_an_error_of_a_background_task_is_an_error_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = ExceptionGroup("tasks", [ExceptionGroup("inner", [StoreRefused("the store")])])
    monkeypatch.setattr(run, "_serve", failing(group))
    with pytest.raises(DiscoveryError, match="the store"):
        run.run(SETTINGS)


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    group = ExceptionGroup("tasks", [StoreRefused("the store"), ZeroDivisionError()])
    monkeypatch.setattr(run, "_serve", failing(group))
    with pytest.raises(ExceptionGroup, match="tasks"):
        run.run(SETTINGS)
