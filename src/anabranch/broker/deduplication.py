"""Which sends of a topic are doubles, told by the sequence ids of each producer name.

Two numbers per name: the highest id *pushed* to storage and the highest one known to be *persisted*
(never above it). A send carries its lowest and highest id; ids rise in the order of sending.

    0 ........ persisted ........ pushed ........
     DUPLICATE |     UNDECIDED    |     NEW

A send that lies across a border is UNDECIDED while any of it is on its way to storage. One that is
partly persisted and partly new is an OVERLAP: to drop it would lose messages, to store it would
double some. No client cuts its batches anew when it sends again, so it is the user's to hear of.

All chunks of a message share one id. Only the last one pushes it, so they are no doubles of one
another, and a message whose chunks were cut off in the middle may be sent again from its start.

Each send that was NEW is answered by `persisted`, in order, or by `failed`. When none of a name is
on its way any more, what is not persisted was not stored, and its ids may come again. A topic whose
appends have unknown outcomes must not go on with this state: reload it from a snapshot and the
entries behind it.

Names are kept while their producer is connected, and after that for a time. They are bounded too:
the longest gone is forgotten first, and could then double a message if it came back after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

MAX_PRODUCERS = 10_000
INACTIVITY_MS = 6 * 60 * 60 * 1000
# What the wire says of a producer that has stored nothing.
NO_SEQUENCE = -1
# Below all 64-bit ids: what is wrong with a negative one is not that it was sent before.
_NOTHING = -(2**63) - 1


class Verdict(Enum):
    NEW = "new"
    DUPLICATE = "duplicate"
    UNDECIDED = "undecided"
    OVERLAP = "overlap"


class Deduplication:
    """A name is whatever the caller takes for the identity of a producer."""

    __slots__ = ("_flying", "_gone", "_inactivity_ms", "_max_producers", "_persisted", "_pushed")

    def __init__(
        self, *, max_producers: int = MAX_PRODUCERS, inactivity_ms: int = INACTIVITY_MS
    ) -> None:
        self._max_producers = max_producers
        self._inactivity_ms = inactivity_ms
        self._pushed: dict[str, int] = {}
        self._persisted: dict[str, int] = {}
        self._flying: dict[str, int] = {}  # sends on their way, of names that have any
        # Names of producers not connected, and since when; the longest gone first.
        self._gone: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._pushed)

    # Sends

    def decide(
        self, name: str, sequence_id: int, highest_id: int = 0, *, is_last: bool = True
    ) -> Verdict:
        """Whether to store a send. NEW counts it as pushed, unless a later chunk will (`is_last`).

        `highest_id` is 0 for a send that is no batch.
        """
        highest = _highest(sequence_id, highest_id)
        pushed = self._pushed.get(name, _NOTHING)
        if sequence_id > pushed:
            if is_last:
                self._pushed[name] = highest
            self._flying[name] = self._flying.get(name, 0) + 1
            return Verdict.NEW
        persisted = self._persisted.get(name, _NOTHING)
        if highest <= persisted:
            return Verdict.DUPLICATE
        return Verdict.OVERLAP if persisted == pushed else Verdict.UNDECIDED

    def persisted(
        self, name: str, sequence_id: int, highest_id: int = 0, *, is_last: bool = True
    ) -> None:
        """A send that was NEW is durable."""
        if is_last:
            self._note(name, _highest(sequence_id, highest_id))
        self._land(name)

    def failed(self, name: str) -> None:
        """A send that was NEW is known not to be stored, and never will be."""
        self._land(name)

    def _note(self, name: str, highest: int) -> None:
        if highest > self._persisted.get(name, _NOTHING):
            self._persisted[name] = highest
        if highest > self._pushed.get(name, _NOTHING):
            self._pushed[name] = highest

    def _land(self, name: str) -> None:
        flying = self._flying.get(name, 0)
        if flying > 1:
            self._flying[name] = flying - 1
        elif flying == 1:
            del self._flying[name]
            self._forget_unpersisted(name)

    def _forget_unpersisted(self, name: str) -> None:
        persisted = self._persisted.get(name)
        if persisted is not None:
            self._pushed[name] = persisted
        else:
            self._pushed.pop(name, None)
            self._gone.pop(name, None)

    def last_sequence_id(self, name: str) -> int:
        """For PRODUCER_SUCCESS: -1 if nothing of this name is known."""
        return self._persisted.get(name, NO_SEQUENCE)

    # Producers

    def connected(self, name: str) -> None:
        self._gone.pop(name, None)

    def disconnected(self, name: str, now_ms: int) -> None:
        if name in self._pushed:
            self._gone.pop(name, None)  # to the end of the line
            self._gone[name] = now_ms

    def expire(self, now_ms: int) -> list[str]:
        """Forget who is gone for too long, and of too many whoever is gone the longest."""
        expired: list[str] = []
        for name, since_ms in self._gone.items():
            is_old = now_ms - since_ms >= self._inactivity_ms
            if not is_old and len(self._pushed) - len(expired) <= self._max_producers:
                break
            if name not in self._flying:
                expired.append(name)
        for name in expired:
            del self._gone[name]
            del self._pushed[name]
            del self._persisted[name]
        return expired

    # Remembering

    def state(self) -> dict[str, int]:
        """The highest persisted id of every name, for a snapshot."""
        return dict(self._persisted)

    def restore(self, persisted: Mapping[str, int], now_ms: int) -> None:
        """Start from a snapshot. Nobody is connected yet; their time begins now."""
        self._persisted = dict(persisted)
        self._pushed = dict(persisted)
        self._flying = {}
        self._gone = dict.fromkeys(persisted, now_ms)

    def replay(self, sends: Iterable[tuple[str, int, bool]], now_ms: int) -> None:
        """Entries behind the snapshot: name, highest id, whether it is the last chunk or whole."""
        for name, highest_id, is_last in sends:
            if is_last:
                self._note(name, highest_id)
                self._gone.setdefault(name, now_ms)


def _highest(sequence_id: int, highest_id: int) -> int:
    return highest_id if highest_id > 0 and highest_id > sequence_id else sequence_id
