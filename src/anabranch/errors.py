"""What can go wrong, named for what the catcher does about it.

    AnabranchError
    ├── Stale           refresh your view, then retry
    │   ├── BadVersion          a compare-and-set met another version
    │   ├── Fenced              another owner took this over
    │   └── Closed              the ledger or handle takes no more writes
    │       └── Sealed          the topic ended, for ever
    ├── Unavailable     back off and retry, up to a deadline
    │   ├── Full                no room on disk
    │   ├── Busy                too much is under way: nothing was begun, wait for room
    │   ├── NotReady            not here, or not now: look up again
    │   ├── ProducersHeld       the backlog is over its quota: wait until consumers made room
    │   ├── TooManyRequests     slow down
    │   └── SessionLost         the store session ended; everything it held is gone
    ├── Refused         tell the user, never retry
    │   ├── NotFound            also a LookupError
    │   │   ├── TopicNotFound
    │   │   ├── SubscriptionNotFound
    │   │   └── ConsumerNotFound
    │   ├── ProducerBusy        the name, or the whole topic, is taken
    │   ├── ProducerFenced      another producer has the topic for itself
    │   ├── ConsumerBusy        the subscription is taken, or of another type
    │   ├── NotEmpty
    │   ├── OverQuota           the backlog is over its quota, and producers are to know
    │   ├── AlreadyExists       it was to be new
    │   ├── NotAllowed          by a policy, or by what the thing is
    │   │   ├── EncryptionRequired
    │   │   └── NotSupported    things of this kind have no such operation, or it is switched off
    │   ├── IncompatibleSchema  it may not follow the schemas the topic has
    │   └── InvalidInput        also a ValueError
    │       ├── InvalidName     of a topic, a segment or a namespace
    │       ├── Malformed       not even readable: no JSON, no number
    │       ├── TooLarge        more bytes than anybody would send in earnest
    │       ├── Unprocessable   read and understood, and it cannot be done
    │       └── BadAssignment   hash ranges that a Key_Shared subscription cannot serve
    ├── ProtocolError   close that connection
    │   ├── LocalProtocolError  our fault
    │   └── RemoteProtocolError the peer's fault
    └── Corrupt         stop serving that ledger, keep the evidence

This module imports nothing. Layers add subclasses here, never in their own files, so that the one
table from errors to wire codes and HTTP statuses can be complete.
"""


class AnabranchError(Exception):
    """The root: everything Anabranch raises on purpose."""

    retryable = False


class Stale(AnabranchError):
    retryable = True


class BadVersion(Stale):
    pass


class Fenced(Stale):
    pass


class Closed(Stale):
    pass


class Sealed(Closed):
    pass


class Unavailable(AnabranchError):
    retryable = True


class Full(Unavailable):
    pass


class Busy(Unavailable):
    pass


class NotReady(Unavailable):
    pass


class ProducersHeld(Unavailable):
    pass


class TooManyRequests(Unavailable):
    pass


class SessionLost(Unavailable):
    pass


class Refused(AnabranchError):
    pass


class NotFound(Refused, LookupError):
    pass


class TopicNotFound(NotFound):
    pass


class SubscriptionNotFound(NotFound):
    pass


class ConsumerNotFound(NotFound):
    pass


class ProducerBusy(Refused):
    pass


class ProducerFenced(Refused):
    pass


class ConsumerBusy(Refused):
    pass


class NotEmpty(Refused):
    pass


class OverQuota(Refused):
    pass


class AlreadyExists(Refused):
    pass


class NotAllowed(Refused):
    pass


class EncryptionRequired(NotAllowed):
    pass


class NotSupported(NotAllowed):
    pass


class IncompatibleSchema(Refused):
    pass


class InvalidInput(Refused, ValueError):
    pass


class InvalidName(InvalidInput):
    pass


class BadAssignment(InvalidInput):
    pass


class Malformed(InvalidInput):
    pass


class TooLarge(InvalidInput):
    pass


class Unprocessable(InvalidInput):
    pass


class ProtocolError(AnabranchError):
    pass


class LocalProtocolError(ProtocolError):
    pass


class RemoteProtocolError(ProtocolError):
    pass


class Corrupt(AnabranchError):
    """Stored bytes that fail their checksum. `ledger` and `entry` say where, when known."""

    def __init__(self, message: str, *, ledger: int | None = None, entry: int | None = None):
        super().__init__(message)
        self.ledger = ledger
        self.entry = entry
