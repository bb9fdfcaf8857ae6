"""Messages too large for one entry: cut into chunks by a producer, put together by a consumer.

Every chunk is an entry of its own with the metadata of the message and, in addition, `uuid` (the
same for all of them), `chunk_id` (0 and up), `num_chunks_from_msg` and `total_chunk_msg_size`. The
chunks of one message arrive in order, but chunks of other messages may lie between them, and a
producer that reconnects may send some again.

Assembly trusts none of those numbers. It keeps only bytes that arrived, a bounded number of
messages and a bounded number of bytes of them; what it gives up it says, so that the consumer can
ask for redelivery or acknowledge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from anabranch.errors import InvalidInput
from anabranch.protocol import wire_pb2
from anabranch.runtime.world import Buffer

P = TypeVar("P")  # how the caller names an entry: whatever it acknowledges by

# The checksum block and the size of the metadata, with room to spare.
_HEADERS = 64
_MAX_TOTAL = 2**31 - 1  # total_chunk_msg_size is an int32


def split_message(
    metadata: wire_pb2.MessageMetadata, payload: Buffer, max_message_size: int
) -> Iterator[tuple[wire_pb2.MessageMetadata, memoryview]]:
    """The chunks of a message whose payload is already compressed; one, unmarked, if it fits."""
    view = memoryview(payload)
    total = len(view)
    if total + metadata.ByteSize() + _HEADERS <= max_message_size:
        yield metadata, view
        return
    if total > _MAX_TOTAL:
        raise InvalidInput(f"message of {total} bytes, chunks can carry {_MAX_TOTAL}")
    marked = wire_pb2.MessageMetadata()
    marked.CopyFrom(metadata)
    marked.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    marked.total_chunk_msg_size = total
    # Both numbers are below `total`, so no chunk's metadata will be larger than this.
    marked.num_chunks_from_msg = marked.chunk_id = total
    size = max_message_size - marked.ByteSize() - _HEADERS
    if size <= 0:
        raise InvalidInput(
            f"metadata of {marked.ByteSize()} bytes leaves no room for a payload in messages "
            f"of {max_message_size} bytes"
        )
    marked.num_chunks_from_msg = -(-total // size)
    for index in range(marked.num_chunks_from_msg):
        chunk = wire_pb2.MessageMetadata()
        chunk.CopyFrom(marked)
        chunk.chunk_id = index
        yield chunk, view[index * size : (index + 1) * size]


@dataclass(frozen=True, slots=True)
class Assembled(Generic[P]):
    """A whole message, still compressed. The last of `entries` is the message's own place."""

    payload: bytes
    entries: tuple[P, ...]


@dataclass(frozen=True, slots=True)
class GivenUp(Generic[P]):
    """Entries that will never become a message here.

    A duplicate is covered by another entry and can be acknowledged; of everything else the
    message may still be had by redelivery.
    """

    uuid: str
    entries: tuple[P, ...]
    reason: str
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Progress(Generic[P]):
    message: Assembled[P] | None = None
    given_up: tuple[GivenUp[P], ...] = ()


@dataclass(slots=True)
class _Pending(Generic[P]):
    count: int
    total: int
    since_ms: int
    chunks: list[bytes] = field(default_factory=list)
    entries: list[P] = field(default_factory=list)
    size: int = 0


class ChunkAssembler(Generic[P]):
    def __init__(self, *, max_pending: int, max_message_size: int, max_pending_bytes: int) -> None:
        """`max_message_size` limits a whole message, not one chunk."""
        self._max_pending = max_pending
        self._max_message_size = max_message_size
        self._max_pending_bytes = max_pending_bytes
        self._pending: dict[str, _Pending[P]] = {}  # oldest first
        self._pending_bytes = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        return self._pending_bytes

    def add(
        self, metadata: wire_pb2.MessageMetadata, payload: Buffer, entry: P, now_ms: int
    ) -> Progress[P]:
        """One more chunk has arrived, in the entry `entry`."""
        uuid = metadata.uuid
        pending = self._pending.get(uuid)
        wrong = self._what_is_wrong(metadata, payload, pending)
        if wrong:
            given_up = [GivenUp(uuid, (entry,), wrong)]
            if pending is not None:
                given_up.insert(0, self._give_up(uuid, wrong))
            return Progress(given_up=tuple(given_up))
        if pending is not None and metadata.chunk_id < len(pending.chunks):
            return self._repeat(metadata, payload, entry, now_ms, pending)
        if pending is None:
            pending = _Pending(metadata.num_chunks_from_msg, metadata.total_chunk_msg_size, now_ms)
            self._pending[uuid] = pending
        pending.chunks.append(bytes(payload))
        pending.entries.append(entry)
        pending.size += len(payload)
        self._pending_bytes += len(payload)
        if len(pending.chunks) == pending.count:
            return self._finish(uuid, pending)
        return Progress(given_up=tuple(self._make_room()))

    def expire(self, since_before_ms: int) -> tuple[GivenUp[P], ...]:
        """Give up what began before that time: its producer is likely gone."""
        old = [uuid for uuid, item in self._pending.items() if item.since_ms < since_before_ms]
        return tuple(self._give_up(uuid, "incomplete for too long") for uuid in old)

    def _what_is_wrong(
        self, metadata: wire_pb2.MessageMetadata, payload: Buffer, pending: _Pending[P] | None
    ) -> str:
        index, count = metadata.chunk_id, metadata.num_chunks_from_msg
        total = metadata.total_chunk_msg_size
        if not 0 <= index < count <= max(total, 1):
            return f"chunk {index} of {count} in {total} bytes"
        if total > self._max_message_size:
            return f"message of {total} bytes, the limit is {self._max_message_size}"
        if pending is not None and (count, total) != (pending.count, pending.total):
            return f"chunk {index} of {count} in {total} bytes, {pending.count} in {pending.total}"
        return self._what_does_not_fit(metadata, payload, pending)

    def _what_does_not_fit(
        self, metadata: wire_pb2.MessageMetadata, payload: Buffer, pending: _Pending[P] | None
    ) -> str:
        index, total = metadata.chunk_id, metadata.total_chunk_msg_size
        expected, size = (0, 0) if pending is None else (len(pending.chunks), pending.size)
        if index < expected:
            return ""
        if index > expected:
            return f"chunk {index} arrived, {expected} was next"
        size += len(payload)
        is_last = index == metadata.num_chunks_from_msg - 1
        if size > total or (is_last and size != total):
            return f"{size} bytes after chunk {index}, {total} were announced"
        return ""

    def _repeat(
        self,
        metadata: wire_pb2.MessageMetadata,
        payload: Buffer,
        entry: P,
        now_ms: int,
        pending: _Pending[P],
    ) -> Progress[P]:
        """A chunk we have already."""
        if entry not in pending.entries:
            reason = f"chunk {metadata.chunk_id} was sent twice"
            return Progress(given_up=(GivenUp(metadata.uuid, (entry,), reason, is_duplicate=True),))
        if metadata.chunk_id == 0:
            # The same entry again is a redelivery, and the first one begins the message anew: the
            # others are on their way too, so they are not given up.
            self._forget(metadata.uuid)
            return self.add(metadata, payload, entry, now_ms)
        return Progress()

    def _finish(self, uuid: str, pending: _Pending[P]) -> Progress[P]:
        self._forget(uuid)
        return Progress(Assembled(b"".join(pending.chunks), tuple(pending.entries)))

    def _make_room(self) -> Iterator[GivenUp[P]]:
        while len(self._pending) > self._max_pending or (
            self._pending_bytes > self._max_pending_bytes
        ):
            oldest = next(iter(self._pending))
            yield self._give_up(oldest, "too many incomplete messages")

    def _give_up(self, uuid: str, reason: str) -> GivenUp[P]:
        return GivenUp(uuid, tuple(self._forget(uuid).entries), reason)

    def _forget(self, uuid: str) -> _Pending[P]:
        pending = self._pending.pop(uuid)
        self._pending_bytes -= pending.size
        return pending
