"""Numbers, tags and lengths of protobuf's encoding, read and written by hand.

A hot module: the codecs beside it are compiled together with it, so that these are plain calls in
C. Numbers are signed 64-bit: -1 stands for 2^64-1.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64, u8

I64_MIN: Final = -0x7FFFFFFFFFFFFFFF - 1
U32_MAX: Final = 0xFFFFFFFF


def read_varint(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """The number at `pos` and the position behind it, which is -1 if it is cut off or overlong."""
    value: i64 = 0
    shift: i64 = 0
    while pos < end:
        byte: i64 = data[pos]
        pos += 1
        if shift == 63:  # the tenth byte has room for the sign and nothing else
            if byte > 1:
                return 0, -1
            return (value | I64_MIN if byte == 1 else value), pos
        if byte < 0x80:
            return value | (byte << shift), pos
        value |= (byte & 0x7F) << shift
        shift += 7
    return 0, -1


def read_u32(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Like read_varint, for tags and lengths: five bytes at most, or protobuf calls it corrupt."""
    value: i64
    if pos < end:
        value = data[pos]
        if value < 0x80:
            return value, pos + 1
    limit: i64 = pos + 5
    value, pos = read_varint(data, pos, end if end < limit else limit)
    return (value, pos) if value <= U32_MAX else (0, -1)


def skip_field(data: bytes, pos: i64, end: i64, wire_type: i64) -> i64:
    """The position behind a field's value, -1 if that is not inside. Groups are not followed."""
    length: i64
    if wire_type == 0:
        length, pos = read_varint(data, pos, end)
        return pos
    if wire_type == 2:
        length, pos = read_u32(data, pos, end)
        return pos + length if pos >= 0 and length <= end - pos else -1
    if wire_type == 1:
        pos += 8
    elif wire_type == 5:
        pos += 4
    else:
        return -1
    return pos if pos <= end else -1


def _varint_bytes(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])


# Numbers of one or two bytes, ready made: interpreted, one look-up is cheaper than any loop.
_SHORT: Final = [_varint_bytes(value) for value in range(1 << 14)]


def write_varint(out: BytesWriter, value: i64) -> None:
    if value >= 0 and value < 16384:
        out.write(_SHORT[value])
        return
    count: i64 = varint_size(value) - 1
    while count > 0:
        low: int = (value & 0x7F) | 0x80
        byte: u8 = low
        out.append(byte)
        value >>= 7
        count -= 1
    low = value & 0x7F if value >= 0 else 1  # the tenth byte of a negative number is its sign
    byte = low
    out.append(byte)


def varint_size(value: i64) -> i64:
    if value < 0:
        return 10
    size: i64 = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


def write_u32(out: BytesWriter, value: i64) -> None:
    word: int = value
    write_i32_be(out, word)


def write_field(out: BytesWriter, tag: u8, value: i64) -> None:
    out.append(tag)
    write_varint(out, value)
