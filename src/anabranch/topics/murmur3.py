"""MurmurHash3 x86 32-bit with seed 0: the hash that routes every key.

A hot module: mypyc compiles it where there is a compiler, and the same source runs as plain Python
where there is none. The multipliers are written as signed 32-bit numbers: times anything below
2**32 they fit 64 signed bits, so nothing overflows, compiled or not, and the mask brings back the
same low 32 bits that the unsigned ones would give.

What is returned is the raw hash, unsigned. Which half of it routes, and who masks its top bit, is
said in `ring.py`; the form for a whole column of keys is in `key_columns.py`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le
from mypy_extensions import i32, i64

_MASK: Final[i64] = 0xFFFFFFFF
_C1: Final[i64] = 0xCC9E2D51 - 0x1_0000_0000
_C2: Final[i64] = 0x1B873593
_F1: Final[i64] = 0x85EBCA6B - 0x1_0000_0000
_F2: Final[i64] = 0xC2B2AE35 - 0x1_0000_0000


def murmur3_32(key: bytes) -> int:
    return _hash(key, 0, len(key))


def murmur3_packed(values: bytes, offsets: bytes) -> bytes:
    """A column at once: little-endian i64 offsets in, as many u32 hashes less one out."""
    hashes = BytesWriter()
    end: i64 = read_i64_le(offsets, 0)
    at: i64 = 8
    size: i64 = len(offsets)
    start: i64 = 0
    h: i64 = 0
    while at < size:
        start = end
        end = read_i64_le(offsets, at)
        h = _hash(values, start, end)
        write_i32_le(hashes, i32(h if h < 0x8000_0000 else h - 0x1_0000_0000))
        at += 8
    return hashes.getvalue()


def _hash(key: bytes, start: i64, stop: i64) -> i64:
    blocks_end: i64 = start + ((stop - start) & ~3)
    h: i64 = 0
    word: int = 0
    k: i64 = 0
    at: i64 = start
    while at < blocks_end:
        word = read_i32_le(key, at)  # as an int: i64(...) would cost a call when interpreted
        k = word
        k = k * _C1 & _MASK
        h ^= ((k << 15 | k >> 17) & _MASK) * _C2 & _MASK
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _MASK
        at += 4
    if at < stop:
        k = 0
        end: i64 = stop
        while end > at:  # the last one to three bytes, little-endian like the blocks
            end -= 1
            k = (k << 8) | key[end]
        k = k * _C1 & _MASK
        h ^= ((k << 15 | k >> 17) & _MASK) * _C2 & _MASK
    h ^= (stop - start) & _MASK
    h = (h ^ (h >> 16)) * _F1 & _MASK
    h = (h ^ (h >> 13)) * _F2 & _MASK
    return h ^ (h >> 16)
