"""What dispatch knows of one consumer: how much it asked for, and how much it owes.

Both are counted in messages. An entry is delivered whole while there is room for at least one
message, so permits may end below zero: the client expects that of a batch. A consumer that owes
too many acknowledgements is blocked until it owes no more than half of the limit. Permits that
arrive meanwhile are held back, or a client that only ever asks would run its debt up without end.
"""

from __future__ import annotations

# What a client can ask for in total. More is a mistake or an attack, and changes nothing.
MAX_PERMITS = 2**31 - 1
UNACKED_LIMIT = 50_000


class Receiver:
    """A consumer as dispatch sees it. `consumer` is unique in its subscription, rising."""

    __slots__ = (
        "consumer",
        "held_permits",
        "is_blocked",
        "is_paused",
        "name",
        "permits",
        "priority",
        "unacked",
        "unacked_limit",
    )

    def __init__(
        self, consumer: int, name: str, *, priority: int = 0, unacked_limit: int = UNACKED_LIMIT
    ) -> None:
        self.consumer = consumer
        self.name = name
        self.priority = priority  # the lower number is served first
        self.permits = 0
        self.held_permits = 0
        self.unacked = 0
        self.unacked_limit = unacked_limit  # 0: none, as for Exclusive and Failover
        self.is_blocked = False
        self.is_paused = False  # its connection takes no more bytes for now

    def __repr__(self) -> str:
        state = "blocked" if self.is_blocked else "paused" if self.is_paused else "open"
        return (
            f"Receiver({self.consumer} {self.name!r}, {state}, "
            f"permits={self.permits}, unacked={self.unacked})"
        )

    def room(self) -> int:
        """How many messages may be sent now; an entry goes out whole while this is above zero."""
        if self.is_blocked or self.is_paused:
            return 0
        if self.unacked_limit:
            return min(self.permits, self.unacked_limit - self.unacked)
        return self.permits

    def allow(self, permits: int) -> None:
        """A FLOW command."""
        assert permits >= 0, permits
        if self.is_blocked:
            self.held_permits = min(self.held_permits + permits, MAX_PERMITS)
        else:
            self.permits = min(self.permits + permits, MAX_PERMITS)

    def deliver(self, messages: int) -> None:
        self.permits -= messages
        self.unacked += messages
        if self.unacked_limit and self.unacked >= self.unacked_limit:
            self.is_blocked = True

    def settle(self, messages: int) -> bool:
        """Acknowledged, or given back. True if that ended a block."""
        assert 0 <= messages <= self.unacked, (messages, self)
        self.unacked -= messages
        if not self.is_blocked or self.unacked > self.unacked_limit // 2:
            return False
        self._unblock()
        return True

    def limit(self, unacked_limit: int) -> None:
        """The policy changed; whoever is below the new limit need not wait for half of the old."""
        self.unacked_limit = unacked_limit
        if self.is_blocked and (not unacked_limit or self.unacked < unacked_limit):
            self._unblock()

    def _unblock(self) -> None:
        self.is_blocked = False
        self.permits = min(self.permits + self.held_permits, MAX_PERMITS)
        self.held_permits = 0
