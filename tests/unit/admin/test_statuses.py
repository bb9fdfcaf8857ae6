"""Every error has a status, and none of a caller's mistakes is the server's fault."""

from __future__ import annotations

import pytest

from anabranch import errors
from anabranch.admin.statuses import STATUSES, status_of


def all_errors() -> list[type[errors.AnabranchError]]:
    found: list[type[errors.AnabranchError]] = []
    waiting = [errors.AnabranchError]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += each.__subclasses__()
    return found


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_refusals_are_never_server_errors(kind: type[errors.AnabranchError]) -> None:
    status = status_of(kind("x"))
    if issubclass(kind, errors.Refused):
        assert 400 <= status < 500
    elif issubclass(kind, errors.Stale | errors.Unavailable):
        assert status in (409, 412, 429, 503)
    else:
        assert status == 500


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.TopicNotFound("x"), 404),
        (errors.SubscriptionNotFound("x"), 404),
        (errors.AlreadyExists("x"), 409),
        (errors.NotEmpty("x"), 409),
        (errors.BadVersion("x"), 409),
        (errors.NotAllowed("x"), 409),
        (errors.NotSupported("x"), 405),
        (errors.InvalidName("x"), 412),
        (errors.ProducerBusy("x"), 412),
        (errors.Malformed("x"), 400),
        (errors.IncompatibleSchema("x"), 409),
        (errors.Unprocessable("x"), 422),
        (errors.TooLarge("x"), 413),
        (errors.NotReady("x"), 503),
        (RuntimeError("x"), 500),
    ],
)
def test_statuses_are_those_of_the_contract(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_the_table_names_only_errors_that_exist() -> None:
    assert all(issubclass(each, BaseException) for each in STATUSES)
