"""Deduplication that survives a restart: a snapshot in a cursor of its own, and the entries since.

The cursor `pulsar.dedup` stands where the snapshot was taken, so that no entry behind it is
trimmed, and carries the snapshot as a property. Loading reads the entries behind it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from anabranch.broker.deduplication import Deduplication
from anabranch.broker.deduplication_snapshot import Snapshot, encode_snapshot, parse_snapshot
from anabranch.errors import AnabranchError, RemoteProtocolError
from anabranch.protocol.entries import locate, parse_metadata
from anabranch.storage.ledger import Entry
from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.topics.positions import EARLIEST, Position

if TYPE_CHECKING:
    from anabranch.broker.topic import Topic

log = logging.getLogger(__name__)

CURSOR = "pulsar.dedup"
SNAPSHOT = "snapshot"
# A start replays at most about so many entries.
SNAPSHOT_ENTRIES = 1000
READ_ENTRIES = 1000
READ_BYTES = 4 << 20


class DeduplicationLog(Deduplication):
    __slots__ = ("_cursor", "_position", "_saving", "_since", "_topic")

    def __init__(self, topic: Topic, cursor: ManagedCursor) -> None:
        super().__init__()
        self._topic = topic
        self._cursor = cursor
        # Everything up to here is in `state()`. Appends are answered in order, so the last answer
        # speaks for all before it; the ledger's own end may be ahead of that.
        self._position = cursor.mark_delete
        self._since = 0  # entries that a restart would replay
        self._saving: asyncio.Task[None] | None = None

    @classmethod
    async def load(cls, topic: Topic) -> DeduplicationLog:
        cursor = await topic.ledger.open_cursor(CURSOR, EARLIEST)
        loaded = cls(topic, cursor)
        now_ms = topic.clock.wall_ms()
        text = cursor.properties.get(SNAPSHOT)
        if text is not None:
            snapshot = parse_snapshot(text.encode())
            loaded.restore(snapshot.producers, now_ms)
            loaded._position = snapshot.position
        while entries := await topic.ledger.read(
            loaded._position.next(), max_entries=READ_ENTRIES, max_bytes=READ_BYTES
        ):
            loaded.replay([send for entry in entries for send in _sends_of(entry)], now_ms)
            loaded._since += len(entries)
            loaded._position = Position(entries[-1].ledger, entries[-1].entry)
        log.info(
            "deduplication loaded topic=%s producers=%d replayed=%d",
            topic.name, len(loaded), loaded._since,
        )  # fmt: skip
        return loaded

    def settled(self, last: Position, entries: int) -> None:
        """Entries up to `last` were answered."""
        self._position = last
        self._since += entries
        if self._since >= SNAPSHOT_ENTRIES and self._saving is None:
            self._saving = asyncio.create_task(self._save_soon(), name=f"dedup {self._topic.name}")

    async def _save_soon(self) -> None:
        try:
            await self.save()
        except AnabranchError as error:
            log.warning("no deduplication snapshot topic=%s error=%r", self._topic.name, error)
        finally:
            self._saving = None

    async def save(self) -> None:
        """First the snapshot, which says where it was taken; only then may entries before it go."""
        self.expire(self._topic.clock.wall_ms())
        position, self._since = self._position, 0
        snapshot = encode_snapshot(Snapshot(position, self.state()))
        await self._cursor.set_properties({SNAPSHOT: snapshot.decode()})
        self._cursor.acknowledge_cumulative(position)


def _sends_of(entry: Entry) -> list[tuple[str, int, bool]]:
    try:
        bounds = locate(entry.body)
        metadata = parse_metadata(
            memoryview(entry.body)[bounds.metadata_start : bounds.payload_start]
        )
    except RemoteProtocolError:
        return []
    highest = max(metadata.highest_sequence_id, metadata.sequence_id)
    chunks = metadata.num_chunks_from_msg
    is_last = chunks <= 1 or metadata.chunk_id == chunks - 1
    return [(metadata.producer_name, highest, is_last)]
