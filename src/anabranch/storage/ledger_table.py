"""What the engine knows of each ledger, changed only by what the journal has made durable.

The journal's records that are no entries:

    create  body: the properties as JSON
    close   entry: the last entry, 2^64-1 if there is none; time: the length of all bodies
    delete

All numbers of a ledger grow in one order: submitted, confirmed, written, synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum

from anabranch.errors import AnabranchError, Closed, Fenced, NotFound
from anabranch.storage.ledger import LedgerEnd
from anabranch.storage.record_codec import HEADER_BYTES, Chunk, Run
from anabranch.storage.sparse_index import SparseIndex


class Access(Enum):
    OPEN = "open"
    CLOSED = "closed"  # by its writer
    FENCED = "fenced"  # by a recovery, or because its process has ended
    DELETED = "deleted"


class LedgerState:
    __slots__ = (
        "access", "cached", "chunks", "confirmed_bytes", "end", "index", "last_confirmed", "ledger",
        "next_entry", "owed_bytes", "properties", "submitted_bytes", "synced_bytes",
        "synced_entries", "written_bytes", "written_entries",
    )  # fmt: skip

    def __init__(self, ledger: int, properties: Mapping[str, str]) -> None:
        self.ledger = ledger
        self.properties = properties
        self.access = Access.OPEN
        self.end: LedgerEnd | None = None  # once closed, durably
        self.next_entry = 0  # of the next submission
        self.submitted_bytes = 0  # of records
        self.last_confirmed = -1
        self.confirmed_bytes = 0  # of records: where the next confirmed one belongs in the file
        self.written_entries = 0
        self.written_bytes = 0
        self.owed_bytes = 0  # confirmed - written
        self.synced_entries = 0
        self.synced_bytes = 0
        self.chunks: deque[Chunk] = deque()  # confirmed and in memory, without a gap to the end
        self.cached = 0  # of those, from the left, already written: the cache may take them
        self.index: SparseIndex | None = SparseIndex()  # None: to be loaded from disk

    @classmethod
    def restored(
        cls, ledger: int, properties: Mapping[str, str], entries: int, file_bytes: int
    ) -> LedgerState:
        """Of a former process: everything is in its file, synced, and nobody writes to it."""
        state = cls(ledger, properties)
        state.access = Access.FENCED
        state.next_entry = state.written_entries = state.synced_entries = entries
        state.last_confirmed = entries - 1
        state.submitted_bytes = state.confirmed_bytes = file_bytes
        state.written_bytes = state.synced_bytes = file_bytes
        state.index = None if entries else state.index
        return state

    @property
    def submitted_end(self) -> LedgerEnd:
        """The end it has once everything submitted is durable."""
        return LedgerEnd(self.next_entry - 1, self.submitted_bytes - HEADER_BYTES * self.next_entry)

    @property
    def is_dirty(self) -> bool:
        return self.synced_bytes < self.confirmed_bytes

    @property
    def is_deleted(self) -> bool:
        return self.access is Access.DELETED

    @property
    def is_growing(self) -> bool:
        """Whether its index is still being added to, or cannot be made from its file yet."""
        return (
            self.access is Access.OPEN
            or self.owed_bytes > 0
            or self.last_confirmed + 1 < self.next_entry
        )

    def refusal(self) -> AnabranchError:
        """Why this ledger takes no entries."""
        match self.access:
            case Access.FENCED:
                return Fenced(f"ledger {self.ledger} was taken over by a recovery")
            case Access.DELETED:
                return NotFound(f"ledger {self.ledger} was deleted")
            case _:
                return Closed(f"ledger {self.ledger} is closed")

    def confirm(self, run: Run) -> None:
        """Its entries are durable: readers may see them, and the file is owed them."""
        for chunk in run.chunks:
            if self.index is not None:
                self.index.add(chunk.first, self.confirmed_bytes, chunk.max_time)
            self.confirmed_bytes += chunk.size
            self.chunks.append(chunk)
        self.owed_bytes += run.size
        self.last_confirmed += run.count


class LedgerTable:
    """Every ledger there is, by rising id, and the counter that gives the ids."""

    def __init__(self, next_ledger: int, ledgers: dict[int, LedgerState]) -> None:
        self.next_ledger = next_ledger
        self.ledgers = ledgers

    def take_id(self) -> int:
        ledger = self.next_ledger
        self.next_ledger += 1
        return ledger

    def find(self, ledger: int) -> LedgerState:
        try:
            return self.ledgers[ledger]
        except KeyError:
            raise NotFound(f"there is no ledger {ledger}") from None
