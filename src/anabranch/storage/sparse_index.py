"""Where the entries of a ledger lie in its file: points now and then, the rest by walking.

A point says at which offset an entry's record starts, and the largest time of all entries before
it. There is one at least every 64 KB and every few hundred entries, so finding an entry means to
walk over little, and an index costs less than a byte for an entry of 1 KB.

The times make reads by time exact though publish times may go back: the first entry that is at
least as late as `t` lies behind the last point before which everything is earlier than `t`.

The file of a closed ledger's index, big-endian:

    0   u32 magic 0xAB1DE700
    4   u32 checksum: CRC32C of all that follows
    8   u64 ledger
    16  u64 entries of the ledger
    24  u64 bytes of the ledger's file
    32  u64 points
    40  per point: u64 entry, u64 offset, u64 largest time before

It is never synced: whatever is missing or damaged is made again from the ledger's file.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from crc32c import crc32c

_HEAD = struct.Struct(">IIQQQQ")
_MAGIC = 0xAB1DE700
_SPACING_BYTES = 64 * 1024
_SPACING_ENTRIES = 64


class Point(NamedTuple):
    entry: int
    offset: int


class SparseIndex:
    __slots__ = ("_entries", "_max_time", "_offsets", "_times")

    def __init__(self) -> None:
        self._entries = array("Q")
        self._offsets = array("Q")
        self._times = array("Q")  # the largest time before each point: never falls
        self._max_time = 0

    def add(self, entry: int, offset: int, max_time: int) -> None:
        """Tell of consecutive entries that start here; it becomes a point if one is due.

        `max_time` is the largest time among them.
        """
        entries = self._entries
        if (
            not entries
            or entry - entries[-1] >= _SPACING_ENTRIES
            or offset - self._offsets[-1] >= _SPACING_BYTES
        ):
            entries.append(entry)
            self._offsets.append(offset)
            self._times.append(self._max_time)
        if max_time > self._max_time:
            self._max_time = max_time

    def locate(self, entry: int) -> Point:
        """The last point at or before an entry."""
        return self._point(bisect_right(self._entries, entry) - 1)

    def locate_time(self, time_ms: int) -> Point:
        """A point before which every entry is earlier, and the last such point."""
        return self._point(bisect_left(self._times, time_ms) - 1)

    def _point(self, at: int) -> Point:
        # An index has no points if the first record could not be read: then walk from the front.
        if at < 0 or not self._entries:
            return Point(0, 0)
        return Point(self._entries[at], self._offsets[at])

    def __len__(self) -> int:
        return len(self._entries)


def encode_index(index: SparseIndex, ledger: int, entries: int, file_bytes: int) -> bytes:
    columns = array("Q", [0]) * (3 * len(index))
    columns[0::3] = index._entries
    columns[1::3] = index._offsets
    columns[2::3] = index._times
    if sys.byteorder == "little":
        columns.byteswap()
    points = columns.tobytes()
    head = _HEAD.pack(_MAGIC, 0, ledger, entries, file_bytes, len(index))
    checksum = crc32c(points, crc32c(head[8:]))
    return _HEAD.pack(_MAGIC, checksum, ledger, entries, file_bytes, len(index)) + points


def parse_index(data: bytes, ledger: int, entries: int, file_bytes: int) -> SparseIndex | None:
    """The index, or None if these bytes are not the whole and current one of this ledger."""
    if len(data) < _HEAD.size:
        return None
    magic, checksum, *described = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc32c(data[8:]) != checksum:
        return None
    if described != [ledger, entries, file_bytes, (len(data) - _HEAD.size) // 24]:
        return None
    columns = array("Q", data[_HEAD.size :])
    if sys.byteorder == "little":
        columns.byteswap()
    index = SparseIndex()
    index._entries = columns[0::3]
    index._offsets = columns[1::3]
    index._times = columns[2::3]
    return index
