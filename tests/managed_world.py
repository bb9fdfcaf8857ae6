"""Processes that share a disk and a store, so that a crash or a takeover can be played."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from crc32c import crc32c

from anabranch.errors import BadVersion
from anabranch.storage.appender import RollConfig
from anabranch.storage.cursor_log import CursorLogConfig
from anabranch.storage.ledger import Draft, Entry, LedgerStore
from anabranch.storage.managed_ledger import (
    ManagedLedger,
    ManagedLedgerConfig,
    Surroundings,
    load_managed_ledger,
)
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerStore
from anabranch.storage.memory_records import MemoryRecords
from anabranch.topics.positions import EARLIEST, Position

T = TypeVar("T")
NAME = "tenant/space/persistent/topic"


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000


def small(
    *,
    max_entries: int = 10,
    max_queued_bytes: int = 1 << 20,
    flush_seconds: float = 3600.0,
    cursor_bytes: int = 1 << 20,
    max_age_seconds: float = 3600.0,
) -> ManagedLedgerConfig:
    """Ledgers that roll early, cursors that are written only when somebody asks."""
    return ManagedLedgerConfig(
        RollConfig(
            max_entries=max_entries,
            max_queued_bytes=max_queued_bytes,
            max_age_seconds=max_age_seconds,
        ),
        CursorLogConfig(flush_seconds=flush_seconds, max_bytes=cursor_bytes),
    )


async def load(
    store: LedgerStore,
    records: MemoryRecords,
    clock: ManualClock,
    owner: str,
    config: ManagedLedgerConfig | None = None,
    *,
    is_created: bool = True,
) -> ManagedLedger:
    around = Surroundings(store, records, clock, owner, config or small())
    return await load_managed_ledger(NAME, around, is_created=is_created)


async def load_until_won(attempt: Callable[[], Awaitable[ManagedLedger]]) -> ManagedLedger:
    """As whoever holds the lock would: the old owner may have changed the record meanwhile."""
    while True:
        with contextlib.suppress(BadVersion):
            return await attempt()


class Process:
    """One owner. `crash` ends it as a power cut would."""

    def __init__(
        self, disk: MemoryDisk, records: MemoryRecords, clock: ManualClock, owner: str
    ) -> None:
        self.store = MemoryLedgerStore(disk)
        self.records = records
        self.clock = clock
        self.owner = owner
        self.loaded: list[ManagedLedger] = []

    async def load(
        self, config: ManagedLedgerConfig | None = None, *, is_created: bool = True
    ) -> ManagedLedger:
        managed = await load(
            self.store, self.records, self.clock, self.owner, config, is_created=is_created
        )
        self.loaded.append(managed)
        return managed

    def crash(self, *, kept_entries: int = 0) -> None:
        self.store.crash(kept_entries=kept_entries)
        for managed in self.loaded:
            managed.abandon("its process crashed")


class ManagedWorld:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.records = MemoryRecords()
        self.clock = ManualClock()
        self._started = 0

    def process(self) -> Process:
        self._started += 1
        return Process(self.disk, self.records, self.clock, f"owner-{self._started}")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(scenario)


async def turns(count: int = 50) -> None:
    """Let everything that is ready go on for a while."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(claim: Callable[[], bool]) -> None:
    """Go on until it is true. Timers that are due count as ready, so nothing here takes time."""
    for _ in range(10_000):
        if claim():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


def draft(text: str, time_ms: int = 0, messages: int = 1) -> Draft:
    body = text.encode()
    return Draft(body, crc32c(body), time_ms=time_ms, messages=messages)


def drafts(*texts: str) -> list[Draft]:
    return [draft(text) for text in texts]


def numbered(count: int, prefix: str = "m") -> Iterator[Draft]:
    return (draft(f"{prefix}{number}") for number in range(count))


def texts(entries: Sequence[Entry]) -> list[str]:
    return [bytes(entry.body).decode() for entry in entries]


async def read_entries(managed: ManagedLedger) -> list[Entry]:
    found: list[Entry] = []
    position = EARLIEST
    while entries := await managed.read(position, max_entries=7, max_bytes=1 << 20):
        found += entries
        position = Position(entries[-1].ledger, entries[-1].entry + 1)
    return found


async def read_all(managed: ManagedLedger) -> list[str]:
    return texts(await read_entries(managed))
