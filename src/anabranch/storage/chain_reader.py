"""Reading a managed ledger: its ledgers one after another, never beyond what is durable.

A few readers stay open. Entries that were written lately come out of the engine's cache; nothing
is cached here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from anabranch.errors import NotFound
from anabranch.storage.ledger import Entry, LedgerReader, LedgerStore
from anabranch.storage.spans import Spans
from anabranch.topics.positions import EARLIEST, Position

MAX_OPEN_READERS = 8


class ChainReader:
    def __init__(
        self,
        store: LedgerStore,
        spans: Callable[[], Spans],
        tail: Callable[[], LedgerReader | None],
    ) -> None:
        self._store = store
        self._spans = spans
        self._tail = tail
        self._readers: OrderedDict[int, LedgerReader] = OrderedDict()

    async def read(self, position: Position, *, max_entries: int, max_bytes: int) -> list[Entry]:
        """Entries from `position` on, or from the first one there is behind it.

        At least one if there is one, however large. Empty at the end.
        """
        found: list[Entry] = []
        following = self._spans().first_from(position)
        while following is not None and max_entries > 0 and (max_bytes > 0 or not found):
            entries = await self._read_one_ledger(following, max_entries, max_bytes)
            if not entries and self._spans().has(following):
                break  # what is there may not be passed over
            if found and entries and len(entries[0].body) > max_bytes:
                break  # no room for the first one of this ledger
            found += entries
            position = self._behind(entries) if entries else following
            following = self._spans().first_from(position)
            if following == position:
                break  # the engine stopped within a ledger: a limit was reached
            if following is not None:
                max_entries -= len(entries)
                max_bytes -= sum([len(entry.body) for entry in entries])
        return found

    @staticmethod
    def _behind(entries: list[Entry]) -> Position:
        return Position(entries[-1].ledger, entries[-1].entry + 1)

    async def _read_one_ledger(
        self, position: Position, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        ledger, first = position
        try:
            reader = await self._reader(ledger)
            return list(await reader.read(first, max_entries=max_entries, max_bytes=max_bytes))
        except NotFound:
            if self._spans().has(position):
                raise
            return []  # trimmed while we were at it

    async def find_by_time(self, time_ms: int, start: Position = EARLIEST) -> Position | None:
        """The first entry whose time is at least `time_ms`; ledgers before `start`'s are left out.

        Every ledger is asked in turn: publish times come from producers and need not rise.
        """
        following = self._spans().first_from(Position(start.ledger, 0))
        while following is not None:
            ledger = following.ledger
            try:
                entry = await (await self._reader(ledger)).find_by_time(time_ms)
            except NotFound:
                if self._spans().has(following):
                    raise
                entry = self._spans().entries_of(ledger)
            if entry < self._spans().entries_of(ledger):
                return Position(ledger, entry)
            following = self._spans().first_from(Position(ledger + 1, 0))
        return None

    def forget(self, ledger: int) -> None:
        self._readers.pop(ledger, None)

    async def _reader(self, ledger: int) -> LedgerReader:
        tail = self._tail()
        if tail is not None and tail.ledger == ledger:
            return tail
        reader = self._readers.get(ledger)
        if reader is None:
            reader = await self._store.open(ledger)
            self._readers[ledger] = reader
            if len(self._readers) > MAX_OPEN_READERS:
                self._readers.popitem(last=False)
        else:
            self._readers.move_to_end(ledger)
        return reader
