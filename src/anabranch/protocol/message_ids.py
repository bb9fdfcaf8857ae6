"""Message ids and checkpoints as bytes, the same bytes that the Java and C++ clients write.

`PlainId` is the id of a message inside one topic or segment: a MessageIdData. `SegmentedId` adds
which segment that is, and what a cumulative acknowledgement of the message covers. Integers are
big-endian; `positions` is `i32 count`, then for each `i64 segment | i32 length | MessageIdData`:

    SegmentedId   i64 segment | i32 length | MessageIdData
                  positions
                  i32 length, -1: none | parent topic, UTF-8
                  i32 count, -1: none | for each: i32 length | topic, UTF-8 | positions
    Checkpoint    u8 0 | positions
                  u8 1                     earliest
                  u8 2                     latest
                  u8 64 | i64 ms           messages published since; ours alone

Old clients leave out the last three parts of a SegmentedId; newer ones may add some, so bytes
behind the end are ignored. Segment -1 marks the ids "earliest" and "latest". These bytes come from
files and databases of applications: everything wrong with them is an `InvalidInput`, and no length
is believed before it has been compared with what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from anabranch.errors import InvalidInput, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import parse_into
from anabranch.protocol.odd_frames import signed

_U64 = (1 << 64) - 1
_MAX = (1 << 63) - 1
_MIN_POSITION = 12  # bytes: a segment and a length
_MIN_TOPIC = 8  # bytes: a length and a count


@dataclass(frozen=True, slots=True, order=True)
class PlainId:
    """Ledger and entry are signed, as in `Position`. Partition and sizes are not identity."""

    ledger: int
    entry: int
    partition: int = field(default=-1, compare=False)
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)
    first_chunk: PlainId | None = field(default=None, compare=False)

    def encode(self) -> bytes:
        return self.to_wire().SerializeToString()

    def to_wire(self) -> wire_pb2.MessageIdData:
        data = wire_pb2.MessageIdData(ledgerId=self.ledger & _U64, entryId=self.entry & _U64)
        if self.partition != -1:
            data.partition = self.partition
        if self.batch_index != -1:
            data.batch_index = self.batch_index
        if self.batch_size != 0:
            data.batch_size = self.batch_size
        if self.first_chunk is not None:
            data.first_chunk_message_id.CopyFrom(self.first_chunk.to_wire())
        return data


EARLIEST = PlainId(-1, -1)
LATEST = PlainId(_MAX, _MAX)


def parse_id(data: bytes) -> PlainId:
    message = wire_pb2.MessageIdData()
    try:
        parse_into(message, data)
    except RemoteProtocolError as error:  # not from a peer this time
        raise InvalidInput(f"message id of {len(data)} bytes: {error}") from error
    return id_from_wire(message)


def id_from_wire(data: wire_pb2.MessageIdData) -> PlainId:
    first_chunk = None
    if data.HasField("first_chunk_message_id"):
        first_chunk = id_from_wire(data.first_chunk_message_id)
    return PlainId(
        signed(data.ledgerId),
        signed(data.entryId),
        data.partition,
        data.batch_index,
        data.batch_size,
        first_chunk,
    )


Positions = Mapping[int, PlainId]


@dataclass(frozen=True, slots=True, order=True)
class SegmentedId:
    """Identity and order are segment, ledger, entry and batch index; the rest is only carried.

    Ids of different segments compare by segment, which is not the order of publishing.
    """

    segment: int
    id: PlainId
    positions: Positions = field(default_factory=dict, compare=False)
    parent_topic: str | None = field(default=None, compare=False)
    topics: Mapping[str, Positions] | None = field(default=None, compare=False)

    def encode(self) -> bytes:
        out = [struct.pack(">q", self.segment), *_id_bytes(self.id)]
        _add_positions(out, self.positions)
        _add_text(out, self.parent_topic)
        if self.topics is None:
            out.append(struct.pack(">i", -1))
        else:
            out.append(struct.pack(">i", len(self.topics)))
            for topic, positions in self.topics.items():
                _add_text(out, topic)
                _add_positions(out, positions)
        return b"".join(out)


EARLIEST_IN_TOPIC = SegmentedId(-1, EARLIEST)
LATEST_IN_TOPIC = SegmentedId(-1, LATEST)


def parse_segmented_id(data: bytes) -> SegmentedId:
    reader = _Reader(data)
    segment = reader.i64()
    plain = parse_id(reader.bytes(reader.i32()))
    positions: Positions = reader.positions() if reader.left else {}
    parent_topic = reader.optional_text() if reader.left else None
    topics = reader.topics() if reader.left else None
    return SegmentedId(segment, plain, positions, parent_topic, topics)


class CheckpointKind(IntEnum):
    REGULAR = 0
    EARLIEST = 1
    LATEST = 2
    TIME = 0x40


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where to go on reading: after these positions, or at one end, or at a time."""

    kind: CheckpointKind
    positions: Positions = field(default_factory=dict)
    time_ms: int = 0

    def encode(self) -> bytes:
        out = [bytes([self.kind])]
        if self.kind is CheckpointKind.REGULAR:
            _add_positions(out, self.positions)
        elif self.kind is CheckpointKind.TIME:
            out.append(struct.pack(">q", self.time_ms))
        return b"".join(out)


def parse_checkpoint(data: bytes) -> Checkpoint:
    reader = _Reader(data)
    number = reader.bytes(1)[0]
    try:
        kind = CheckpointKind(number)
    except ValueError:
        raise InvalidInput(f"checkpoint of unknown type {number}") from None
    if kind is CheckpointKind.REGULAR:
        return Checkpoint(kind, reader.positions())
    if kind is CheckpointKind.TIME:
        return Checkpoint(kind, time_ms=reader.i64())
    return Checkpoint(kind)


def _id_bytes(plain: PlainId) -> tuple[bytes, bytes]:
    encoded = plain.encode()
    return struct.pack(">i", len(encoded)), encoded


def _add_positions(out: list[bytes], positions: Positions) -> None:
    out.append(struct.pack(">i", len(positions)))
    for segment, plain in positions.items():
        out.append(struct.pack(">q", segment))
        out.extend(_id_bytes(plain))


def _add_text(out: list[bytes], text: str | None) -> None:
    if text is None:
        out.append(struct.pack(">i", -1))
    else:
        encoded = text.encode()
        out.append(struct.pack(">i", len(encoded)))
        out.append(encoded)


class _Reader:
    """Reads from the front, and never past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._pos

    def bytes(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise InvalidInput(f"{size} bytes announced at byte {self._pos}, {self.left} are left")
        start = self._pos
        self._pos += size
        return self._data[start : self._pos]

    def i32(self) -> int:
        return int.from_bytes(self.bytes(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.bytes(8), "big", signed=True)

    def count(self, min_size: int) -> int:
        """How many items follow, each of which takes at least `min_size` bytes."""
        count = self.i32()
        if not 0 <= count <= self.left // min_size:
            raise InvalidInput(
                f"{count} items announced before byte {self._pos} of {self._pos + self.left}"
            )
        return count

    def positions(self) -> Positions:
        count = self.count(_MIN_POSITION)
        return {self.i64(): parse_id(self.bytes(self.i32())) for _ in range(count)}

    def text(self, size: int) -> str:
        try:
            return self.bytes(size).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"text before byte {self._pos} is not UTF-8: {error}") from error

    def optional_text(self) -> str | None:
        size = self.i32()
        return None if size == -1 else self.text(size)

    def topics(self) -> Mapping[str, Positions] | None:
        if self.left >= 4 and self._data[self._pos : self._pos + 4] == b"\xff\xff\xff\xff":
            self.i32()
            return None
        return {self.text(self.i32()): self.positions() for _ in range(self.count(_MIN_TOPIC))}
