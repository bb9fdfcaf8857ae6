"""The little that delivery, and some policies, must know of an entry: its time, its slot's hashes.

Entries are opaque to everybody else. Here they are looked into for every delivery on Shared and
Key_Shared subscriptions, so the common form is found without a full parse, and nothing is checked
that does not matter: an entry that makes no sense is due now and has the key of nobody, and its
consumer will say what is wrong with it.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from anabranch.broker.sticky_key import NONE_KEY, sticky_hash
from anabranch.errors import RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import locate, sticky_key
from anabranch.runtime.world import Buffer

# How a `deliver_at_time` begins; these bytes may also lie within something else, then a parse says.
_DUE_TAG = bytes([0x80 | (wire_pb2.MessageMetadata.DELIVER_AT_TIME_FIELD_NUMBER << 3) & 0x7F, 1])
_CHECKSUM_MAGIC = b"\x0e\x01"


def deliver_at_ms(body: Buffer) -> int:
    """0 if it is due at once."""
    data = _metadata_bytes(body)
    return _parse(data).deliver_at_time if _DUE_TAG in data else 0


def is_encrypted(body: Buffer) -> bool:
    return bool(_parse(_metadata_bytes(body)).encryption_keys)


def slot_hashes(body: Buffer) -> tuple[int, int | None]:
    """The hash of its sticky key, and the stamp of its producer if it has one."""
    metadata = _parse(_metadata_bytes(body))
    try:
        hashed = sticky_hash(sticky_key(metadata))
    except (UnicodeError, AttributeError):
        hashed = sticky_hash(NONE_KEY)
    stamp = metadata.entry_hash_min if metadata.HasField("entry_hash_min") else None
    return hashed, stamp


def _metadata_bytes(body: Buffer) -> bytes:
    if body[:2] == _CHECKSUM_MAGIC:
        end = 10 + int.from_bytes(body[6:10], "big")
        if end <= len(body):
            return bytes(body[10:end])
    try:
        bounds = locate(body)
    except RemoteProtocolError:
        return b""
    return bytes(memoryview(body)[bounds.metadata_start : bounds.payload_start])


def _parse(data: bytes) -> wire_pb2.MessageMetadata:
    metadata = wire_pb2.MessageMetadata()
    try:
        metadata.MergeFromString(data)
    except DecodeError:
        return wire_pb2.MessageMetadata()
    return metadata
