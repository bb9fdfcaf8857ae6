"""The compacted form of a topic: made on demand, read instead of the topic up to its horizon.

The topic's record says which ledger holds it and how far it reaches; one compare-and-set replaces
the former one. The cursor `__compaction` stands at the horizon, so that nothing is trimmed before
it was compacted.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from crc32c import crc32c

from anabranch.broker.compaction import LatestOfKeys, encode_kept, parse_kept, place_of
from anabranch.errors import NotAllowed
from anabranch.storage.garbage import ledger_properties
from anabranch.storage.ledger import Draft, Entry, LedgerReader, LedgerStore, LedgerWriter
from anabranch.topics.positions import EARLIEST, Position

if TYPE_CHECKING:
    from anabranch.broker.topic import Topic

log = logging.getLogger(__name__)

CURSOR = "__compaction"
# In the properties of the topic's record: "ledger:horizon ledger:horizon entry".
PROPERTY = "anabranch.compacted"
READ_ENTRIES = 1000
READ_BYTES = 4 << 20


class CompactionState(Enum):
    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Compacted:
    ledger: int
    horizon: Position

    @classmethod
    def parse(cls, text: str) -> Compacted:
        ledger, horizon_ledger, horizon_entry = map(int, text.split(":"))
        return cls(ledger, Position(horizon_ledger, horizon_entry))

    def __str__(self) -> str:
        return f"{self.ledger}:{self.horizon}"


class CompactedTopic:
    def __init__(self, topic: Topic, store: LedgerStore) -> None:
        self._topic = topic
        self._store = store
        self.state = CompactionState.NOT_RUN
        self.error = ""

    @property
    def current(self) -> Compacted | None:
        text = self._topic.ledger.record.properties.get(PROPERTY)
        return None if text is None else Compacted.parse(text)

    async def compact(self) -> None:
        """Everything up to the last entry there is now."""
        if self.state is CompactionState.RUNNING:
            raise NotAllowed(f"{self._topic.name} is being compacted already")
        self.state, self.error = CompactionState.RUNNING, ""
        try:
            await self._compact()
            self.state = CompactionState.SUCCESS
        except BaseException as error:
            self.state, self.error = CompactionState.ERROR, str(error)
            raise

    async def _compact(self) -> None:
        topic, former = self._topic, self.current
        cursor = await topic.ledger.open_cursor(CURSOR, EARLIEST)
        horizon = topic.ledger.last_confirmed
        if horizon.entry < 0:
            return
        latest = LatestOfKeys(topic.policies.max_message_bytes)
        async for entries in self._entries(former, horizon):
            latest.look_at(entries)
        writer = await self._store.create(
            ledger_properties(
                str(topic.name), "compacted", topic.ledger.epoch, topic.clock.wall_ms()
            )
        )
        kept = 0
        async for entries in self._entries(former, horizon):
            kept += await _write(writer, latest, entries)
        await writer.close()
        compacted = {PROPERTY: str(Compacted(writer.ledger, horizon))}
        await topic.ledger.update_properties(lambda properties: {**properties, **compacted})
        cursor.acknowledge_cumulative(horizon)
        await cursor.persist()
        if former is not None:
            await self._store.delete(former.ledger)
        log.info("compacted topic=%s to=%s kept=%d", topic.name, horizon, kept)

    async def _entries(
        self, former: Compacted | None, horizon: Position
    ) -> AsyncIterator[list[Entry]]:
        """What is there up to the horizon, from the former compaction on."""
        position = EARLIEST
        if former is not None:
            reader, at = await self._store.open(former.ledger), 0
            while stored := await reader.read(at, max_entries=READ_ENTRIES, max_bytes=READ_BYTES):
                yield [parse_kept(each) for each in stored]
                at = stored[-1].entry + 1
            position = former.horizon.next()
        while position <= horizon:
            entries = await self._topic.ledger.read(
                position, max_entries=READ_ENTRIES, max_bytes=READ_BYTES
            )
            entries = [each for each in entries if Position(each.ledger, each.entry) <= horizon]
            if not entries:
                return
            yield entries
            position = Position(entries[-1].ledger, entries[-1].entry + 1)

    # Reading

    async def read(self, position: Position, *, max_entries: int, max_bytes: int) -> list[Entry]:
        """From `position` on: compacted as far as that goes, then as it is."""
        current = self.current
        if current is not None and position <= current.horizon:
            reader = await self._store.open(current.ledger)
            first = await _find(reader, position)
            stored = await reader.read(first, max_entries=max_entries, max_bytes=max_bytes)
            if stored:
                return [parse_kept(each) for each in stored]
            position = current.horizon.next()
        return await self._topic.ledger.read(position, max_entries=max_entries, max_bytes=max_bytes)


async def _write(writer: LedgerWriter, latest: LatestOfKeys, entries: Sequence[Entry]) -> int:
    drafts = []
    for entry in entries:
        body = latest.kept(entry)
        if body is not None:
            stored = encode_kept(Position(entry.ledger, entry.entry), body)
            drafts.append(
                Draft(stored, crc32c(stored), time_ms=entry.time_ms, messages=entry.messages)
            )
    if drafts:
        await writer.append(drafts)
    return len(drafts)


async def _find(reader: LedgerReader, position: Position) -> int:
    """The first stored entry whose original position is at least `position`."""
    low, high = 0, reader.last_confirmed + 1
    while low < high:
        middle = (low + high) // 2
        found = await reader.read(middle, max_entries=1, max_bytes=1)
        if place_of(found[0].body) < position:
            low = middle + 1
        else:
            high = middle
    return low
