"""The ledger interface: what a storage engine must offer, and nothing more.

A ledger is written by one writer, once, and then closed for ever. Rules every engine keeps:

- after `recover` has returned, no append of the former writer is ever acknowledged;
- `recover` keeps every entry that was acknowledged; it may keep others, but only a gapless prefix
  of what was submitted;
- two recoveries find the same end;
- a closed ledger never changes, and every read verifies the entry's checksum;
- an append whose outcome is unknown is never answered by writing elsewhere.

Errors: `Fenced` (another took the ledger over), `Closed`, `NotFound` (no such ledger), `Corrupt`
(with ledger and entry), `Full` (no room now), `Unavailable` (outcome unknown, the engine stopped).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from anabranch.runtime.world import Buffer


class Draft(NamedTuple):
    """An entry to be appended, exactly as it will be read back.

    `checksum` is the CRC32C of `body[prefix:]`. The producer's own checksum serves: it covers the
    metadata and payload of a message, and `prefix` is how many bytes lie before them (at most
    255). Those bytes are protected by the record's header instead. The store takes it on trust:
    verify it first. The body belongs to the store from here on and must not change.
    """

    body: Buffer
    checksum: int
    prefix: int = 0
    time_ms: int = 0  # publish time, for reads by time
    messages: int = 1


class Entry(NamedTuple):
    ledger: int
    entry: int
    body: Buffer
    time_ms: int
    messages: int


class LedgerEnd(NamedTuple):
    last_entry: int  # -1: empty
    length_bytes: int  # of the bodies


class Submission(NamedTuple):
    """Entries on their way to disk. `durable` may be shared by many submissions: never cancel it.

    It fails with `Fenced`, `Full` or `Unavailable`; nothing of a failed submission was or will be
    acknowledged, though it may be found by a recovery.
    """

    first_entry: int
    durable: asyncio.Future[None]


class LedgerReader(Protocol):
    @property
    def ledger(self) -> int: ...

    @property
    def last_confirmed(self) -> int:
        """The last entry known to be durable, -1 if there is none. Only grows."""
        ...

    async def read(self, first: int, *, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Entries from `first` on, up to `last_confirmed`.

        At least one if there is one there, however large; bodies together else stay within
        `max_bytes`. Empty behind the end.
        """
        ...

    async def find_by_time(self, time_ms: int) -> int:
        """The first confirmed entry whose time is at least `time_ms`, else last_confirmed + 1."""
        ...


class LedgerWriter(LedgerReader, Protocol):
    def submit(self, drafts: Sequence[Draft]) -> Submission:
        """Queue entries for the next group commit; ids are given at once, in call order.

        Raises Fenced, Closed, Full or Unavailable if the ledger takes no entries now; Busy, which
        is one of the last kind, if it would have taken them with less under way.
        """
        ...

    async def append(self, drafts: Sequence[Draft]) -> int:
        """`submit`, and wait until durable; the id of the first entry."""
        ...

    async def close(self) -> LedgerEnd:
        """Wait for what was submitted, then close for ever. Idempotent."""
        ...


class LedgerStore(Protocol):
    async def create(self, properties: Mapping[str, str]) -> LedgerWriter:
        """A new, empty ledger. Its id is larger than any this store ever gave."""
        ...

    async def open(self, ledger: int) -> LedgerReader:
        """To read. Never fences, and follows a writer that is still at work."""
        ...

    async def recover(self, ledger: int) -> LedgerEnd:
        """Fence the writer, find the end, close. Idempotent, by anybody."""
        ...

    async def delete(self, ledger: int) -> None:
        """Free its space. Idempotent; readers that are open may fail from here on."""
        ...

    def ledgers(self) -> AsyncIterator[int]:
        """Every ledger there is, for garbage collection."""
        ...

    async def properties(self, ledger: int) -> Mapping[str, str]: ...

    async def wait_for_room(self, size: int = 1) -> None:
        """Until `size` bytes of records would not be refused as Busy; never fails."""
        ...
