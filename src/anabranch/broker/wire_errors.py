"""From errors to the codes of the wire: the one table.

A class that is not listed has the code of its nearest listed ancestor. Codes end at 25; a larger
one would break clients, whose error fields are required.
"""

from __future__ import annotations

from anabranch import errors
from anabranch.protocol import wire_pb2

Code = wire_pb2.ServerError

CODES: dict[type[BaseException], wire_pb2.ServerError] = {
    BaseException: Code.UnknownError,
    errors.Stale: Code.ServiceNotReady,
    errors.Closed: Code.ServiceNotReady,
    errors.Sealed: Code.TopicTerminatedError,
    errors.Unavailable: Code.ServiceNotReady,
    errors.Full: Code.PersistenceError,
    errors.ProducersHeld: Code.ProducerBlockedQuotaExceededError,
    errors.TooManyRequests: Code.TooManyRequests,
    errors.Refused: Code.MetadataError,
    errors.NotFound: Code.MetadataError,
    errors.TopicNotFound: Code.TopicNotFound,
    errors.SubscriptionNotFound: Code.SubscriptionNotFound,
    errors.ConsumerNotFound: Code.ConsumerNotFound,
    errors.ProducerBusy: Code.ProducerBusy,
    errors.ProducerFenced: Code.ProducerFenced,
    errors.ConsumerBusy: Code.ConsumerBusy,
    errors.OverQuota: Code.ProducerBlockedQuotaExceededException,
    errors.NotAllowed: Code.NotAllowedError,
    errors.EncryptionRequired: Code.MetadataError,
    errors.IncompatibleSchema: Code.IncompatibleSchema,
    errors.InvalidInput: Code.MetadataError,
    errors.InvalidName: Code.InvalidTopicName,
    errors.BadAssignment: Code.ConsumerAssignError,
    errors.Corrupt: Code.PersistenceError,
}


def code_of(error: BaseException) -> wire_pb2.ServerError:
    return next(CODES[each] for each in type(error).__mro__ if each in CODES)
