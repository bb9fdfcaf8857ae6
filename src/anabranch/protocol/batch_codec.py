"""Messages in and out of a batch.

A hot module: mypyc compiles it, and the same source runs interpreted. It takes real `bytes` and
knows neither protobuf nor sockets.

The payload of a batch, before it is compressed, is for each message

    u32 metadata_size, big-endian | SingleMessageMetadata | payload_size bytes

with payload_size a field of the metadata. How many messages there are stands in the entry's own
metadata. Reading finds where everything is and checks every length; texts and payloads are cut out
when they are asked for, since many consumers look at one of the two only.
"""

from __future__ import annotations

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64, u8

from anabranch.errors import RemoteProtocolError
from anabranch.protocol.varints import U32_MAX, read_u32, read_varint, varint_size, write_field


class BatchMessage:
    """One message of a batch: a view, which keeps the whole batch alive."""

    _data: bytes = b""
    _metadata_start: i64 = 0
    _metadata_end: i64 = 0
    _payload_size: i64 = -1
    _key_start: i64 = -1
    _key_end: i64 = 0
    _ordering_key_start: i64 = -1
    _ordering_key_end: i64 = 0
    has_properties: bool = False
    has_sequence_id: bool = False
    sequence_id: i64 = 0
    event_time_ms: i64 = 0
    is_compacted_out: bool = False
    is_key_base64: bool = False
    is_null_value: bool = False
    is_null_key: bool = False

    @property
    def payload(self) -> bytes:
        return self._data[self._metadata_end : self._metadata_end + self._payload_size]

    @property
    def key(self) -> str | None:
        """The partition key; bytes that are not UTF-8 are replaced, as Java does."""
        if self._key_start < 0:
            return None
        return self._data[self._key_start : self._key_end].decode("utf-8", "replace")

    @property
    def ordering_key(self) -> bytes | None:
        if self._ordering_key_start < 0:
            return None
        return self._data[self._ordering_key_start : self._ordering_key_end]

    @property
    def properties(self) -> dict[str, str]:
        if not self.has_properties:
            return {}
        return _read_properties(self._data, self._metadata_start, self._metadata_end)

    def __repr__(self) -> str:
        return f"BatchMessage(sequence={self.sequence_id}, {self._payload_size} bytes)"


# ---- reading -----------------------------------------------------------------------------------


def decode_batch(data: bytes, count: i64) -> list[BatchMessage]:
    """The `count` messages of an uncompressed batch.

    Nothing is set aside for a count that the bytes do not bear out. Bytes behind the last message
    are ignored, as they are by every other client.
    """
    if count <= 0:
        raise RemoteProtocolError(f"batch of {count} messages")
    messages: list[BatchMessage] = []
    pos: i64 = 0
    size: i64 = len(data)
    while count > 0:
        if size - pos < 4:
            raise _cut_off(len(messages), count, size)
        word: int = read_i32_be(data, pos)
        metadata_size: i64 = word
        pos += 4
        if metadata_size < 0 or metadata_size > size - pos:
            raise _cut_off(len(messages), count, size)
        message = BatchMessage()
        message._data = data
        message._metadata_start = pos
        pos += metadata_size
        message._metadata_end = pos
        _scan_metadata(data, message._metadata_start, pos, message)
        if message._payload_size < 0 or message._payload_size > size - pos:
            raise _cut_off(len(messages), count, size)
        pos += message._payload_size
        messages.append(message)
        count -= 1
    return messages


def _cut_off(found: int, missing: i64, size: i64) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"batch of {found + missing} messages in {size} bytes: message {found} does not fit"
    )


def _scan_metadata(data: bytes, pos: i64, end: i64, message: BatchMessage) -> None:  # noqa: C901
    """Find the fields. One loop, since this runs for every message and calls cost more than fields.

    A known field under another wire type is an unknown one, and of a field given twice the last
    counts: both as in protobuf.
    """
    tag: i64
    value: i64
    while pos < end:
        tag = data[pos]
        if tag < 0x80:
            pos += 1
        else:
            tag, pos = _read_u32(data, pos, end)
        wire_type: i64 = tag & 7
        value = data[pos] if pos < end else 0x80
        if wire_type == 0:
            if value < 0x80:
                pos += 1
            else:
                value, pos = _read_varint(data, pos, end)
            if tag == 0x40:
                message.sequence_id = value
                message.has_sequence_id = True
            else:
                _set_number(message, tag, value)
        elif wire_type == 2:
            if value < 0x80:
                pos += 1
            else:
                value, pos = _read_u32(data, pos, end)
            if value > end - pos:
                raise _malformed(pos)
            _set_bytes(message, tag, pos, pos + value)
            pos += value
        else:
            pos = _skip_fixed(pos, wire_type)
        if tag < 8:
            raise _malformed(pos)
    if pos != end:
        raise _malformed(pos)


def _set_number(message: BatchMessage, tag: i64, value: i64) -> None:
    if tag == 0x18:
        # An int32: only the low half counts, and its sign.
        value &= U32_MAX
        message._payload_size = value if value <= 0x7FFFFFFF else -1
    elif tag == 0x28:
        message.event_time_ms = value
    else:
        _set_flag(message, tag, value != 0)


def _set_flag(message: BatchMessage, tag: i64, value: bool) -> None:
    if tag == 0x20:
        message.is_compacted_out = value
    elif tag == 0x30:
        message.is_key_base64 = value
    elif tag == 0x48:
        message.is_null_value = value
    elif tag == 0x50:
        message.is_null_key = value


def _set_bytes(message: BatchMessage, tag: i64, start: i64, end: i64) -> None:
    if tag == 0x12:
        message._key_start = start
        message._key_end = end
    elif tag == 0x0A:
        message.has_properties = True
    elif tag == 0x3A:
        message._ordering_key_start = start
        message._ordering_key_end = end


def _read_properties(data: bytes, pos: i64, end: i64) -> dict[str, str]:
    found: dict[str, str] = {}
    tag: i64
    size: i64
    while pos < end:  # _scan_metadata has checked these lengths
        tag, pos = _read_u32(data, pos, end)
        if tag & 7 == 2:
            size, pos = _read_u32(data, pos, end)
            if tag == 0x0A:
                key, value = _read_pair(data, pos, pos + size)
                found[key] = value
            pos += size
        elif tag & 7 == 0:
            size, pos = _read_varint(data, pos, end)
        else:
            pos = _skip_fixed(pos, tag & 7)
    return found


def _read_pair(data: bytes, pos: i64, end: i64) -> tuple[str, str]:
    key: str | None = None
    value: str | None = None
    tag: i64
    size: i64
    while pos < end:
        tag, pos = _read_u32(data, pos, end)
        if tag & 7 == 2:
            size, pos = _read_u32(data, pos, end)
            if size > end - pos:
                raise _malformed(pos)
            if tag == 0x0A:
                key = data[pos : pos + size].decode("utf-8", "replace")
            elif tag == 0x12:
                value = data[pos : pos + size].decode("utf-8", "replace")
            pos += size
        elif tag & 7 == 0:
            size, pos = _read_varint(data, pos, end)
        else:
            pos = _skip_fixed(pos, tag & 7)
    if key is None or value is None or pos != end:
        raise RemoteProtocolError("property without its key or its value")
    return key, value


def _read_varint(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """The number at `pos`, signed, and the position behind it."""
    value: i64
    behind: i64
    value, behind = read_varint(data, pos, end)
    if behind < 0:
        raise _malformed(pos)
    return value, behind


def _read_u32(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """A tag or a length."""
    value: i64
    behind: i64
    value, behind = read_u32(data, pos, end)
    if behind < 0:
        raise _malformed(pos)
    return value, behind


def _skip_fixed(pos: i64, wire_type: i64) -> i64:
    if wire_type == 1:
        return pos + 8
    if wire_type == 5:
        return pos + 4
    raise _malformed(pos)


def _malformed(pos: i64) -> RemoteProtocolError:
    return RemoteProtocolError(f"malformed message metadata in a batch, near byte {pos}")


# ---- writing -----------------------------------------------------------------------------------


def write_message(
    out: BytesWriter,
    payload: bytes,
    sequence_id: i64,
    key: str | None = None,
    properties: dict[str, str] | None = None,
    event_time_ms: i64 = 0,
    ordering_key: bytes | None = None,
    is_key_base64: bool = False,
    is_null_value: bool = False,
) -> None:
    """Append one message to the payload of a batch. What has its default value is left out."""
    rare = b""
    if properties or event_time_ms != 0 or ordering_key is not None or is_null_value:
        rare = _encode_rare_fields(properties, event_time_ms, ordering_key, is_null_value)
    key_bytes = key.encode() if key is not None else b""
    size: i64 = 2 + varint_size(len(payload)) + varint_size(sequence_id) + len(rare)
    if key is not None:
        size += 1 + varint_size(len(key_bytes)) + len(key_bytes)
    if is_key_base64:
        size += 2
    word: int = size
    write_i32_be(out, word)
    if key is not None:
        _write_bytes(out, 0x12, key_bytes)
    write_field(out, 0x18, len(payload))
    if is_key_base64:
        out.write(b"\x30\x01")
    write_field(out, 0x40, sequence_id)
    if rare:
        out.write(rare)
    out.write(payload)


def _encode_rare_fields(
    properties: dict[str, str] | None,
    event_time_ms: i64,
    ordering_key: bytes | None,
    is_null_value: bool,
) -> bytes:
    out = BytesWriter()
    if properties:
        for name, value in properties.items():
            pair = BytesWriter()
            _write_bytes(pair, 0x0A, name.encode())
            _write_bytes(pair, 0x12, value.encode())
            _write_bytes(out, 0x0A, pair.getvalue())
    if event_time_ms != 0:
        write_field(out, 0x28, event_time_ms)
    if ordering_key is not None:
        _write_bytes(out, 0x3A, ordering_key)
    if is_null_value:
        out.write(b"\x48\x01")
    return out.getvalue()


def _write_bytes(out: BytesWriter, tag: u8, data: bytes) -> None:
    write_field(out, tag, len(data))
    out.write(data)
