"""Deduplication that survives a restart: a snapshot in a cursor of its own, and the entries since.

The cursor `pulsar.dedup` stands where the snapshot was taken, so that no entry behind it is
trimmed, and carries the snapshot as a property. Loading reads the entries behind it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anabranch.broker.deduplication import Deduplication
from anabranch.broker.deduplication_snapshot import Snapshot, encode_snapshot, parse_snapshot
from anabranch.errors import RemoteProtocolError
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
    __slots__ = ("_cursor", "_is_saving", "_since", "_topic")

    def __init__(self, topic: Topic, cursor: ManagedCursor) -> None:
        super().__init__()
        self._topic = topic
        self._cursor = cursor
        self._since = 0
        self._is_saving = False

    @classmethod
    async def load(cls, topic: Topic) -> DeduplicationLog:
        cursor = await topic.ledger.open_cursor(CURSOR, EARLIEST)
        log_ = cls(topic, cursor)
        now_ms = topic.clock.wall_ms()
        text = cursor.properties.get(SNAPSHOT)
        if text is not None:
            log_.restore(parse_snapshot(text.encode()).producers, now_ms)
        position, replayed = cursor.mark_delete.next(), 0
        while entries := await topic.ledger.read(
            position, max_entries=READ_ENTRIES, max_bytes=READ_BYTES
        ):
            log_.replay([send for entry in entries for send in _sends_of(entry)], now_ms)
            replayed += len(entries)
            position = Position(entries[-1].ledger, entries[-1].entry + 1)
        log.info(
            "deduplication loaded topic=%s producers=%d replayed=%d",
            topic.name, len(log_), replayed,
        )  # fmt: skip
        return log_

    async def save(self) -> None:
        """Everything up to the last durable entry, as of now."""
        position = self._topic.ledger.last_confirmed
        snapshot = encode_snapshot(Snapshot(position, self.state()))
        self._cursor.acknowledge_cumulative(position)
        await self._cursor.set_properties({SNAPSHOT: snapshot.decode()})
        self._since = 0


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
