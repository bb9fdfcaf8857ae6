"""From errors to HTTP statuses: the one table.

A class that is not listed has the status of its nearest listed ancestor.
"""

from __future__ import annotations

from typing import Final

from anabranch import errors

STATUSES: Final[dict[type[BaseException], int]] = {
    BaseException: 500,
    errors.Stale: 409,
    errors.Fenced: 503,
    errors.Closed: 503,
    errors.Sealed: 412,
    errors.Unavailable: 503,
    errors.TooManyRequests: 429,
    errors.Refused: 409,
    errors.NotFound: 404,
    errors.ProducerBusy: 412,
    errors.ProducerFenced: 412,
    errors.ConsumerBusy: 412,
    errors.NotSupported: 405,
    errors.InvalidInput: 412,
    errors.Malformed: 400,
    errors.TooLarge: 413,
    errors.Unprocessable: 422,
}


def status_of(error: BaseException) -> int:
    return next(STATUSES[each] for each in type(error).__mro__ if each in STATUSES)
