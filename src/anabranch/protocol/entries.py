"""Entries: what a SEND carries, a ledger stores and a MESSAGE delivers, byte for byte the same.

    [0e 02 | u32 size | BrokerEntryMetadata]     put before it by a broker, never by a producer
    [0e 01 | u32 crc32c]                         of everything that follows
    u32 metadata_size | MessageMetadata | payload

Both blocks are optional and are known by their two bytes of magic; no metadata is so large that its
size could be mistaken for one. Here entries are read in full, by the protobuf runtime; wire_codec
reads the little that the hot paths need.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c
from google.protobuf.message import EncodeError

from anabranch.errors import LocalProtocolError, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import bad_texts, parse_into
from anabranch.runtime.world import Buffer

_BROKER_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"


class EntryBounds(NamedTuple):
    """Where the parts of an entry lie.

    The broker block's message is [6:broker_end], the checksum covers [covered_start:], the metadata
    is [metadata_start:payload_start]. `broker_end` 0: no block; `claimed` None: no checksum.
    """

    broker_end: int
    claimed: int | None
    covered_start: int
    metadata_start: int
    payload_start: int


@dataclass(frozen=True, slots=True)
class Entry:
    broker_metadata: wire_pb2.BrokerEntryMetadata | None
    metadata: wire_pb2.MessageMetadata
    payload: memoryview
    is_intact: bool  # also when there was no checksum to compare with


def locate(entry: Buffer) -> EntryBounds:
    """Find the parts of an entry, checking every length against what is there."""
    view = memoryview(entry)
    broker_end = 0
    if view[:2] == _BROKER_MAGIC:
        broker_end = 6 + _size_at(view, 2, "broker metadata")
    claimed = None
    covered = broker_end
    if view[covered : covered + 2] == _CHECKSUM_MAGIC and len(view) >= covered + 6:
        claimed = int.from_bytes(view[covered + 2 : covered + 6], "big")
        covered += 6
    metadata_size = _size_at(view, covered, "metadata")
    return EntryBounds(broker_end, claimed, covered, covered + 4, covered + 4 + metadata_size)


def _size_at(view: memoryview, start: int, what: str) -> int:
    left = len(view) - start - 4
    if left < 0:
        raise RemoteProtocolError(f"entry of {len(view)} bytes ends before the size of its {what}")
    size = int.from_bytes(view[start : start + 4], "big")
    if size > left:
        raise RemoteProtocolError(f"{what} of {size} bytes announced, {left} bytes are left")
    return size


def parse_entry(entry: Buffer) -> Entry:
    view = memoryview(entry)
    bounds = locate(view)
    broker_metadata = None
    if bounds.broker_end:
        broker_metadata = wire_pb2.BrokerEntryMetadata()
        parse_into(broker_metadata, view[6 : bounds.broker_end])
    return Entry(
        broker_metadata,
        parse_metadata(view[bounds.metadata_start : bounds.payload_start]),
        view[bounds.payload_start :],
        bounds.claimed is None or crc32c(view[bounds.covered_start :]) == bounds.claimed,
    )


def parse_metadata(data: Buffer) -> wire_pb2.MessageMetadata:
    """A MessageMetadata whose texts are `str`, come what may.

    Some clients let a key be any bytes. That is no reason to drop their messages, so what is not
    UTF-8 is replaced, as Java does when it reads such a key.
    """
    metadata = wire_pb2.MessageMetadata()
    parse_into(metadata, data)
    for holder, name in list(bad_texts(metadata)):
        value = getattr(holder, name)
        if isinstance(value, bytes):
            setattr(holder, name, value.decode("utf-8", "replace"))
        else:
            value[:] = [_readable(text) for text in value]
    return metadata


def _readable(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def build_entry(
    metadata: wire_pb2.MessageMetadata, payload: Buffer, *, with_checksum: bool = True
) -> bytes:
    try:
        encoded = metadata.SerializeToString()
    except EncodeError as error:
        raise LocalProtocolError(f"incomplete metadata: {error}") from error
    covered = b"".join((len(encoded).to_bytes(4, "big"), encoded, payload))
    if not with_checksum:
        return covered
    return b"".join((_CHECKSUM_MAGIC, crc32c(covered).to_bytes(4, "big"), covered))


def broker_block(broker_timestamp_ms: int, index: int | None) -> bytes:
    """What a broker puts before an entry it stores."""
    metadata = wire_pb2.BrokerEntryMetadata(broker_timestamp=broker_timestamp_ms)
    if index is not None:
        metadata.index = index
    encoded = metadata.SerializeToString()
    return _BROKER_MAGIC + len(encoded).to_bytes(4, "big") + encoded


def without_broker_block(entry: Buffer) -> memoryview:
    """The entry as the producer sent it: for every client that did not ask for the block."""
    view = memoryview(entry)
    return view[6 + _size_at(view, 2, "broker metadata") :] if view[:2] == _BROKER_MAGIC else view


def without_checksum(entry: Buffer) -> memoryview:
    """The bare metadata and payload: for clients older than protocol version 11."""
    view = memoryview(entry)
    return view[locate(view).covered_start :]


def sticky_key(metadata: wire_pb2.MessageMetadata) -> bytes:
    """The bytes whose hash keeps messages of one key together."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = metadata.partition_key.encode()
        return _from_base64(key) if metadata.partition_key_b64_encoded else key
    if metadata.producer_name:
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    return b"NONE_KEY"


def _from_base64(key: bytes) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key  # marked as base64 but is not: still the same bytes for the same key
