"""What a compacted topic keeps: of every key, the last message.

Two passes over the same entries. The first notes for each key where its last message is; the
second keeps exactly those. A message without a key is nobody's successor and is kept. A null or
empty payload is a tombstone: it ends its key, and neither is kept.

Positions survive, so an entry is kept under the id it always had. Of a batch some messages may go
and others stay: those that go are marked `compacted_out` and lose their payload, so that the
others keep their index. Not every client has eyes for that mark; all of them leave out what a
delivery calls acknowledged, so that is said of them too (`kept_bits`). Encrypted batches, and
damaged ones, cannot be looked into; they count as one message.

A kept entry is stored in a ledger of its own as

    i64 ledger | i64 entry | the entry, as a producer would have sent it      (big-endian)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from google.protobuf.message import DecodeError

from anabranch.errors import Corrupt, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.compression import compress, decompress
from anabranch.protocol.entries import Entry as ParsedEntry
from anabranch.protocol.entries import build_entry, parse_entry
from anabranch.runtime.world import Buffer
from anabranch.storage.ledger import Entry
from anabranch.topics.positions import Position

_PLACE = struct.Struct(">qq")
# Where a message is: its entry, and its place in the batch, -1 if it is none.
Place = tuple[int, int, int]


class LatestOfKeys:
    """The first pass."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_bytes = max_message_bytes
        self._places: dict[str, Place | None] = {}  # None: ended by a tombstone

    def __len__(self) -> int:
        return len(self._places)

    def look_at(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            for place, key, is_tombstone in self._messages_of(entry):
                if key is not None:
                    self._places[key] = None if is_tombstone else place

    def _messages_of(self, entry: Entry) -> list[tuple[Place, str | None, bool]]:
        parsed = _parse(entry)
        if parsed is None:
            return []
        messages = _unpack(parsed, self._max_bytes)
        if messages is None:
            metadata = parsed.metadata
            place = (entry.ledger, entry.entry, -1)
            is_tombstone = metadata.null_value or not len(parsed.payload)
            return [(place, _key_of(metadata), is_tombstone)]
        return [
            ((entry.ledger, entry.entry, index), _key_of(each), each.null_value or not payload)
            for index, (each, payload) in enumerate(messages)
        ]

    def kept(self, entry: Entry) -> bytes | None:
        """The second pass: what is left of an entry, None if that is nothing."""
        parsed = _parse(entry)
        if parsed is None:
            return bytes(entry.body)  # unreadable: nobody may decide that it goes
        messages = _unpack(parsed, self._max_bytes)
        if messages is None:
            is_kept = self._is_kept(_key_of(parsed.metadata), (entry.ledger, entry.entry, -1))
            return bytes(entry.body) if is_kept else None
        stays = [
            self._is_kept(_key_of(each), (entry.ledger, entry.entry, index))
            for index, (each, _) in enumerate(messages)
        ]
        if all(stays):
            return bytes(entry.body)
        return _repack(parsed.metadata, messages, stays) if any(stays) else None

    def _is_kept(self, key: str | None, place: Place) -> bool:
        return key is None or self._places.get(key) == place


def is_open_batch(metadata: wire_pb2.MessageMetadata) -> bool:
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def kept_bits(entry: Entry, max_message_bytes: int) -> int | None:
    """Which messages of a compacted batch are left, one bit for each; None if all are."""
    parsed = _parse(entry)
    messages = None if parsed is None else _unpack(parsed, max_message_bytes)
    if messages is None:
        return None
    bits = sum(1 << index for index, (each, _) in enumerate(messages) if not each.compacted_out)
    return None if bits == (1 << len(messages)) - 1 else bits


def encode_kept(position: Position, body: bytes) -> bytes:
    return _PLACE.pack(position.ledger, position.entry) + body


def parse_kept(stored: Entry) -> Entry:
    """The entry as it was, with the position it had."""
    if len(stored.body) < _PLACE.size:
        raise Corrupt("compacted entry too short", ledger=stored.ledger, entry=stored.entry)
    ledger, entry = _PLACE.unpack_from(stored.body)
    body = memoryview(stored.body)[_PLACE.size :]
    return Entry(ledger, entry, bytes(body), stored.time_ms, stored.messages)


def place_of(body: Buffer) -> Position:
    return Position(*_PLACE.unpack_from(body))


def _parse(entry: Entry) -> ParsedEntry | None:
    try:
        return parse_entry(entry.body)
    except RemoteProtocolError:
        return None


def _key_of(
    metadata: wire_pb2.MessageMetadata | wire_pb2.SingleMessageMetadata,
) -> str | None:
    return metadata.partition_key if metadata.HasField("partition_key") else None


def _unpack(
    parsed: ParsedEntry, max_bytes: int
) -> list[tuple[wire_pb2.SingleMessageMetadata, bytes]] | None:
    """The messages of a batch; None if it is none, or cannot be looked into."""
    metadata = parsed.metadata
    if not is_open_batch(metadata):
        return None
    try:
        data = memoryview(
            decompress(metadata.compression, parsed.payload, metadata.uncompressed_size, max_bytes)
            if metadata.compression
            else bytes(parsed.payload)
        )
        return _cut(data, metadata.num_messages_in_batch)
    except (RemoteProtocolError, DecodeError):
        return None


def _cut(data: memoryview, count: int) -> list[tuple[wire_pb2.SingleMessageMetadata, bytes]]:
    found = []
    at = 0
    for index in range(count):
        start = at + 4
        at = start + int.from_bytes(data[at:start], "big")
        single = wire_pb2.SingleMessageMetadata()
        single.ParseFromString(bytes(data[start:at]))
        start, at = at, at + single.payload_size
        # A count is only a number; what is not there must not be made up.
        if not start <= at <= len(data):
            raise RemoteProtocolError(f"batch of {count} ends within message {index}")
        found.append((single, bytes(data[start:at])))
    return found


def _repack(
    metadata: wire_pb2.MessageMetadata,
    messages: list[tuple[wire_pb2.SingleMessageMetadata, bytes]],
    stays: list[bool],
) -> bytes:
    parts = []
    for (single, payload), is_staying in zip(messages, stays, strict=True):
        if not is_staying:
            single.compacted_out, single.payload_size, payload = True, 0, b""
        encoded = single.SerializeToString()
        parts += [len(encoded).to_bytes(4, "big"), encoded, payload]
    plain = b"".join(parts)
    changed = wire_pb2.MessageMetadata()
    changed.CopyFrom(metadata)
    if metadata.compression:
        changed.uncompressed_size = len(plain)
        plain = compress(metadata.compression, plain)
    return build_entry(changed, plain)
