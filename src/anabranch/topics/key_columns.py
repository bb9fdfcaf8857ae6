"""Hashing and routing a whole column of keys at once, equal bit for bit to one at a time.

A column is either a list of keys or, as Arrow keeps it, all bytes in one buffer with the offsets
where keys begin. The compiled hash loops over a column some six times faster than numpy can; where
it runs interpreted, numpy is forty times faster than that loop. So there are both, and this module
chooses.

With numpy, work goes block by block over all keys that have such a block: sorted by length, they
are a shrinking prefix, so mixed lengths cost no masks. A few very long keys would make that loop
long and its prefix short, so they are hashed one by one instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import InvalidInput
from anabranch.topics.layout import Layout
from anabranch.topics.murmur3 import murmur3_32, murmur3_packed
from anabranch.topics.ring import Routing

Bytes: TypeAlias = bytes | bytearray | memoryview
Offsets: TypeAlias = "NDArray[np.int32] | NDArray[np.int64]"

# Stands in a column of segment ids for "no active segment takes this key: wait for a layout".
NO_SEGMENT = -1

# Above this many bytes, numpy's fixed cost per block outweighs the call per key.
LONG_KEY_BYTES = 256

_IS_COMPILED = not isinstance(murmur3_32, FunctionType)

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_F1 = np.uint32(0x85EBCA6B)
_F2 = np.uint32(0xC2B2AE35)


def hash_keys(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, keys), dtype=np.int64, count=len(keys)), out=offsets[1:])
    return hash_packed(b"".join(keys), offsets)


def hash_packed(values: Bytes, offsets: Offsets) -> NDArray[np.uint32]:
    """Key i is `values[offsets[i]:offsets[i + 1]]`; there is one offset more than keys."""
    return (hash_in_a_loop if _IS_COMPILED else hash_with_numpy)(values, offsets)


def hash_in_a_loop(values: Bytes, offsets: Offsets) -> NDArray[np.uint32]:
    _check(len(values), offsets)
    hashes = murmur3_packed(bytes(values), offsets.astype("<i8").tobytes())
    return np.frombuffer(hashes, dtype="<u4").astype(np.uint32)


def hash_with_numpy(values: Bytes, offsets: Offsets) -> NDArray[np.uint32]:
    _check(len(values), offsets)
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    hashes = np.zeros(len(starts), dtype=np.uint32)
    short = np.flatnonzero(sizes <= LONG_KEY_BYTES)
    # Three more bytes, so that a four-byte read at the last byte stays inside.
    padded = b"".join((values, b"\0\0\0"))
    hashes[short] = _hash_short(padded, starts[short], sizes[short])
    for index in np.flatnonzero(sizes > LONG_KEY_BYTES):
        start = int(starts[index])
        hashes[index] = murmur3_32(padded[start : start + int(sizes[index])])
    return hashes


def route_many(layout: Layout, raw: NDArray[np.uint32]) -> NDArray[np.int64]:
    """`routing.route` for a column of raw hashes: the ids of the segments, or NO_SEGMENT."""
    known = np.array([segment.id for segment in layout.active], dtype=np.int64)
    if layout.is_legacy:
        ids = (raw & np.uint32(0x7FFFFFFF)).astype(np.int64) % len(known)
        return np.where(np.isin(ids, known), ids, NO_SEGMENT)
    starts = np.array([segment.keys.start for segment in layout.active], dtype=np.uint32)
    return known[np.searchsorted(starts, ring_values(raw, layout.routing), side="right") - 1]


def ring_values(raw: NDArray[np.uint32], routing: Routing) -> NDArray[np.uint32]:
    return raw >> np.uint32(16) if routing is Routing.HIGH16 else raw & np.uint32(0xFFFF)


def _check(size: int, offsets: Offsets) -> None:
    """Offsets come from other libraries' buffers, and a wrong one would read wild."""
    rising = len(offsets) > 0 and bool((offsets[1:] >= offsets[:-1]).all())
    if not rising or offsets[0] < 0 or offsets[-1] > size:
        raise InvalidInput(
            f"offsets must rise from 0 or more up to at most {size}, the size of the values, "
            f"and count one more than the keys; got {len(offsets)} of them"
        )


def _hash_short(
    padded: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint32]:
    # Every four bytes as one little-endian word, at every byte: the reads are not aligned.
    words = np.ndarray((len(padded) - 3,), dtype="<u4", buffer=padded, strides=(1,))
    blocks = (sizes >> 2).astype(np.uint8)
    order = np.argsort(255 - blocks, kind="stable")  # most blocks first; a radix sort on bytes
    at = starts[order]
    has_block = np.cumsum(np.bincount(blocks, minlength=1)[::-1])[::-1]
    hashes = np.zeros(len(starts), dtype=np.uint32)
    for count in has_block[1:]:
        mixed = hashes[:count] ^ _scrambled(words[at[:count]])
        hashes[:count] = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        at[:count] += 4
    tail = (sizes[order] & 3).astype(np.uint32)
    with_tail = np.flatnonzero(tail)
    unused_bits = np.uint32(32) - (tail[with_tail] << np.uint32(3))
    tail_words = words[at[with_tail]] << unused_bits >> unused_bits
    hashes[with_tail] ^= _scrambled(tail_words)
    hashes ^= sizes[order].astype(np.uint32)
    unsorted = np.empty_like(hashes)
    unsorted[order] = _finished(hashes)
    return unsorted


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotated(words * _C1, 15) * _C2


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    return hashes ^ (hashes >> np.uint32(16))
