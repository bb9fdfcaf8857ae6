"""What can go wrong, named for what the catcher does about it.

    AnabranchError
    ├── Stale           refresh your view, then retry
    │   ├── BadVersion          a compare-and-set met another version
    │   ├── Fenced              another owner took this over
    │   └── Closed              the ledger or handle takes no more writes
    ├── Unavailable     back off and retry, up to a deadline
    │   ├── Full                no room on disk
    │   └── SessionLost         the store session ended; everything it held is gone
    ├── Refused         tell the user, never retry
    │   ├── NotFound            also a LookupError
    │   ├── NotEmpty
    │   ├── AlreadyExists       it was to be new
    │   ├── NotAllowed          by a policy, or by what the thing is
    │   ├── IncompatibleSchema  it may not follow the schemas the topic has
    │   └── InvalidInput        also a ValueError
    │       ├── InvalidName     of a topic, a segment or a namespace
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


class Unavailable(AnabranchError):
    retryable = True


class Full(Unavailable):
    pass


class SessionLost(Unavailable):
    pass


class Refused(AnabranchError):
    pass


class NotFound(Refused, LookupError):
    pass


class NotEmpty(Refused):
    pass


class AlreadyExists(Refused):
    pass


class NotAllowed(Refused):
    pass


class IncompatibleSchema(Refused):
    pass


class InvalidInput(Refused, ValueError):
    pass


class InvalidName(InvalidInput):
    pass


class BadAssignment(InvalidInput):
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
