"""Records of the journal and of ledger files: packed many at a time, scanned many at a time.

A record is a header of 48 bytes, big-endian, and a body. A ledger file holds the very bytes that
its entries had in the journal.

    0   u16 magic 0xAB5E
    2   u8  kind: 1 entry, 2 create, 3 close, 4 delete, 5 group
    3   u8  prefix: bytes of the body that the body checksum does not cover
    4   u32 generation: low 32 bits of the generation of the journal file
    8   u32 body length
    12  u32 body checksum: CRC32C of body[prefix:]
    16  u64 ledger
    24  u64 entry
    32  u64 time, milliseconds
    40  u32 messages
    44  u32 header checksum: CRC32C of bytes 0 to 43, continued over body[:prefix]

So every bit of a record is covered by exactly one of two checksums, and the body's is the one its
producer sent: it is copied here, never computed again. What the fields mean for kinds other than
`entry` is said where those are written: groups in journal.py, the others in ledger_table.py.

This is a hot module: plain Python that mypyc compiles. It takes and returns bytes, touches no
files, and knows neither futures nor tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from crc32c import crc32c
from librt.strings import (
    BytesWriter,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from anabranch.errors import InvalidInput
from anabranch.runtime.world import Buffer
from anabranch.storage.ledger import Draft, Entry

HEADER_BYTES: Final = 48
ENTRY: Final = 1
CREATE: Final = 2
CLOSE: Final = 3
DELETE: Final = 4
GROUP: Final = 5

# Records are collected into chunks of about this size: the unit of the cache and of the index.
CHUNK_BYTES: Final = 64 * 1024
CHUNK_ENTRIES: Final = 256
# A body from this size on is passed by reference. Below, a copy costs less than another piece.
LARGE_BYTES: Final = 16 * 1024

# The writers take signed numbers, so the top bit of the magic is taken as a sign.
_MAGIC_WORD: Final = (0xAB5E << 48) - (1 << 64)
_MAGIC_TOP: Final = 0xAB5E - (1 << 16)
_ENTRY_TOP: Final = (_MAGIC_TOP << 8) + ENTRY
_LOW_32: Final = 0xFFFFFFFF
_MAX_PREFIX: Final = 255
# A header can be checked once it is in sight together with the longest prefix.
_LONGEST_HEADER: Final = HEADER_BYTES + _MAX_PREFIX
_MAX_MESSAGES: Final = 0x7FFFFFFF
_MAX_TIME: Final = 0x7FFFFFFFFFFFFFFF

# What stopped a scan.
MORE: Final = 0  # the window ends inside a record, or exactly behind one
ENOUGH: Final = 1  # all that was asked for has been found
DAMAGED: Final = 2  # the record at `position` fails a check


@final
class Chunk:
    """Confirmed records of one ledger, back to back: what the cache holds and the file gets."""

    def __init__(
        self, first: i64, count: i64, max_time: i64, data: bytes, body: Buffer | None
    ) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.max_time: i64 = max_time
        self.data = data
        self.body = body  # of a single large entry, behind its header in `data`
        self.size: i64 = len(data) + (0 if body is None else len(body))


@final
class Run:
    """Entries of one ledger in one group, packed as they are submitted."""

    def __init__(self, ledger: i64, first: i64, generation: i64) -> None:
        self.ledger: i64 = ledger
        self.first: i64 = first
        self.generation: i64 = generation & _LOW_32
        self.count: i64 = 0
        self.size: i64 = 0  # bytes of the records
        self.body_bytes: i64 = 0
        self.chunks: list[Chunk] = []
        self._out = BytesWriter()
        self._header = BytesWriter()
        self._packed_first: i64 = first  # of what lies in _out
        self._packed: i64 = 0
        self._max_time: i64 = 0

    def pack(self, drafts: Sequence[Draft]) -> None:
        """Add records for drafts that `measure` has accepted."""
        word: i64 = _MAGIC_WORD + (ENTRY << 40) + self.generation
        for body, checksum, prefix, time_ms, messages in drafts:
            self._pack_one(word, body, checksum, prefix, time_ms, messages)

    def _pack_one(
        self, word: i64, body: Buffer, checksum: i64, prefix: i64, time_ms: i64, messages: i32
    ) -> None:
        length: i64 = len(body)
        header = self._header
        header.truncate(0)
        write_i64_be(header, word + (prefix << 32))
        write_i64_be(header, (length << 32) + checksum)
        write_i64_be(header, self.ledger)
        write_i64_be(header, self.first + self.count)
        write_i64_be(header, time_ms)
        write_i32_be(header, messages)
        packed = header.getvalue()
        check = crc32c(packed)
        if prefix > 0:
            check = crc32c(body[:prefix], check)
        check -= (check >> 31) << 32  # as a signed number
        if length >= LARGE_BYTES:
            write_i32_be(header, check)
            self._add_large(header.getvalue(), body, time_ms)
        else:
            out = self._out
            out.write(packed)
            write_i32_be(out, check)
            out.write(body if isinstance(body, bytes) else bytes(body))
            self._packed += 1
            if time_ms > self._max_time:
                self._max_time = time_ms
            if len(out) >= CHUNK_BYTES or self._packed >= CHUNK_ENTRIES:
                self._cut()
        self.count += 1
        self.size += HEADER_BYTES + length
        self.body_bytes += length

    def finish(self) -> list[Chunk]:
        """Everything packed, in order."""
        self._cut()
        return self.chunks

    def _add_large(self, header: bytes, body: Buffer, time_ms: i64) -> None:
        self._cut()
        self.chunks.append(Chunk(self._packed_first, 1, time_ms, header, body))
        self._packed_first += 1

    def _cut(self) -> None:
        if self._packed == 0:
            return
        data = self._out.getvalue()
        self._out.truncate(0)
        self.chunks.append(Chunk(self._packed_first, self._packed, self._max_time, data, None))
        self._packed_first += self._packed
        self._packed = 0
        self._max_time = 0


def measure(drafts: Sequence[Draft], largest_bytes: int) -> int:
    """How many bytes the drafts take as records; InvalidInput if one of them is no entry."""
    total: i64 = 0
    largest: i64 = largest_bytes
    for body, checksum, prefix, time_ms, messages in drafts:
        length: i64 = len(body) if isinstance(body, bytes) else _length_of(body)
        if (
            length > largest
            or not 0 <= checksum <= _LOW_32
            or not 0 <= prefix <= _MAX_PREFIX
            or prefix > length
            or not 0 <= time_ms <= _MAX_TIME
            or not 0 <= messages <= _MAX_MESSAGES
        ):
            raise InvalidInput(
                f"no entry: {length} bytes (at most {largest}), checksum {checksum:#x}, prefix "
                f"{prefix} (at most 255), time {time_ms} ms, {messages} messages"
            )
        total += HEADER_BYTES + length
    return total


def _length_of(body: object) -> int:
    if isinstance(body, bytearray):
        return len(body)
    if isinstance(body, memoryview) and body.itemsize == 1 and body.c_contiguous:
        return body.nbytes
    raise InvalidInput(f"a body is bytes, or a contiguous view of bytes, not {body!r}")


def pack_record(
    kind: i64,
    generation: i64,
    ledger: i64,
    entry: i64,
    time_ms: i64,
    messages: i32,
    body: bytes,
) -> bytes:
    """One record of any kind. Entry -1 is written as 2^64-1."""
    out = BytesWriter()
    checksum: i64 = crc32c(body)
    length: i64 = len(body)
    write_i64_be(out, _MAGIC_WORD + (kind << 40) + (generation & _LOW_32))
    write_i64_be(out, (length << 32) + checksum)
    write_i64_be(out, ledger)
    write_i64_be(out, entry)
    write_i64_be(out, time_ms)
    write_i32_be(out, messages)
    check = crc32c(out.getvalue())
    write_i32_be(out, check - ((check >> 31) << 32))
    out.write(body)
    return out.getvalue()


@final
class Record:
    """A record found in a window; neighbouring entries of one ledger are found as one.

    `first`, `count` and `max_time` speak of the entries; `start`, `body` and `end` are positions
    in the window, `body` that of the first record's body.
    """

    def __init__(
        self, kind: i64, ledger: i64, first: i64, time_ms: i64, messages: i64, start: i64, end: i64
    ) -> None:
        self.kind: i64 = kind
        self.ledger: i64 = ledger
        self.first: i64 = first
        self.count: i64 = 1
        self.time_ms: i64 = time_ms
        self.max_time: i64 = time_ms
        self.messages: i64 = messages
        self.start: i64 = start
        self.body: i64 = start + HEADER_BYTES
        self.end: i64 = end
        self.body_bytes: i64 = end - start - HEADER_BYTES


@final
class Scan:
    """What a scan found, the position behind it, and why it stopped there."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.entries: list[Entry] = []
        self.position: i64 = 0
        self.stopped: i64 = MORE
        self.needed: i64 = HEADER_BYTES  # with MORE: bytes from `position` on that would help
        self.ledger: i64 = -1  # what lies at `position`, where that is known
        self.entry: i64 = -1


def scan_journal(window: bytes, position: i64, end: i64, generation: i64) -> Scan:
    """Records of one generation from `position` to `end`, each with both checksums verified."""
    scan = Scan()
    wanted: i64 = generation & _LOW_32
    last: Record | None = None
    while position + HEADER_BYTES <= end:
        word: i64 = read_i64_be(window, position)
        if word >> 48 != _MAGIC_TOP or word & _LOW_32 != wanted:
            scan.stopped = DAMAGED
            break
        length: i64 = (read_i64_be(window, position + 8) >> 32) & _LOW_32
        stop: i64 = position + HEADER_BYTES + length
        if stop > end:
            scan.needed = HEADER_BYTES + length
            break
        ledger: i64 = read_i64_be(window, position + 16)
        entry: i64 = read_i64_be(window, position + 24)
        if not _header_is_intact(window, position):
            scan.stopped = DAMAGED
            break
        if not _body_is_intact(window, position, stop):
            scan.stopped, scan.ledger, scan.entry = DAMAGED, ledger, entry
            break
        kind: i64 = (word >> 40) & 0xFF
        time_ms: i64 = read_i64_be(window, position + 32)
        if (
            last is not None
            and kind == ENTRY
            and last.kind == ENTRY
            and last.ledger == ledger
            and last.first + last.count == entry
        ):
            _extend(last, time_ms, length, stop)
        else:
            messages: i64 = (read_i64_be(window, position + 40) >> 32) & _LOW_32
            last = Record(kind, ledger, entry, time_ms, messages, position, stop)
            scan.records.append(last)
        position = stop
    scan.position = position
    return scan


def skip_records(window: bytes, position: i64, count: i64) -> i64:
    """The position behind `count` intact records."""
    while count > 0:
        length: i64 = (read_i64_be(window, position + 8) >> 32) & _LOW_32
        position += HEADER_BYTES + length
        count -= 1
    return position


def _extend(record: Record, time_ms: i64, length: i64, stop: i64) -> None:
    record.count += 1
    record.end = stop
    record.body_bytes += length
    if time_ms > record.max_time:
        record.max_time = time_ms


def _header_is_intact(window: bytes, position: i64) -> bool:
    """Also covers the prefix of the body, so the whole record must be in the window."""
    check: i64 = crc32c(window[position : position + 44])
    prefix: i64 = window[position + 3]
    if prefix > 0:
        body: i64 = position + HEADER_BYTES
        check = crc32c(window[body : body + prefix], check)
    stored: i64 = read_i64_be(window, position + 40)
    return check == stored & _LOW_32


def _body_is_intact(window: bytes, position: i64, stop: i64) -> bool:
    start: i64 = position + HEADER_BYTES + window[position + 3]
    stored: i64 = read_i64_be(window, position + 8)
    if start > stop:
        return False
    computed: i64 = crc32c(window[start:stop])
    return computed == stored & _LOW_32


def find_group(window: bytes, position: i64, base: i64, generation: i64) -> i64:
    """Where in the window the next intact group record starts, -1 if nowhere.

    `base` is the offset of the window in its file: a group record states its own offset, so bytes
    that only look like one, in the body of an entry, are not taken for one.
    """
    wanted: i64 = generation & _LOW_32
    size: i64 = len(window)
    while True:
        position = window.find(b"\xab\x5e\x05", position)
        if position < 0 or position + HEADER_BYTES > size:
            return -1
        word: i64 = read_i64_be(window, position)
        if (
            word & _LOW_32 == wanted
            and read_i64_be(window, position + 16) == base + position
            and _header_is_intact(window, position)
        ):
            return position
        position += 1


def scan_entries(
    window: bytes,
    ledger: i64,
    entry: i64,
    first: i64,
    last: i64,
    max_entries: i64,
    max_bytes: i64,
    verify: bool,
) -> Scan:
    """Entries `first` to `last` of a ledger, from a window that begins with entry `entry`.

    Stops at the limits, but not before one entry is found. A damaged record before `first` is
    stepped over if its successor can be found. If it stops for MORE, go on with a
    window that begins at `position` with entry `entry`, and has at least `needed` bytes.
    """
    scan = Scan()
    scan.entry = entry
    scan.ledger = ledger
    scan.needed = _LONGEST_HEADER
    end: i64 = len(window)
    while scan.entry < first:
        if not _step_over(scan, window, end, last, verify):
            return scan
    _take(scan, window, end, last, max_entries, max_bytes, verify)
    return scan


def scan_blocks(window: bytes, ledger: i64, entry: i64, last: i64) -> Scan:
    """Entries from a window as `records` of up to 64 KB each, to make an index of.

    Bodies are not looked at, and damaged headers are stepped over as by `scan_entries`.
    """
    scan = Scan()
    scan.entry = entry
    scan.ledger = ledger
    scan.needed = _LONGEST_HEADER
    end: i64 = len(window)
    block: Record | None = None
    while scan.entry <= last:
        start: i64 = scan.position
        if not _step_over(scan, window, end, last, True):
            return scan
        time_ms: i64 = read_i64_be(window, start + 32)
        if block is None or block.count >= CHUNK_ENTRIES or start - block.start >= CHUNK_BYTES:
            block = Record(ENTRY, ledger, scan.entry - 1, time_ms, 1, start, scan.position)
            scan.records.append(block)
        else:
            _extend(block, time_ms, scan.position - start - HEADER_BYTES, scan.position)
    scan.stopped = ENOUGH
    return scan


def large_entry(chunk: Chunk, ledger: i64) -> Entry:
    """The one entry of a chunk whose body is kept apart."""
    assert chunk.body is not None
    time_ms: i64 = read_i64_be(chunk.data, 32)
    messages: i64 = (read_i64_be(chunk.data, 40) >> 32) & _LOW_32
    return Entry(ledger, chunk.first, chunk.body, time_ms, messages)


def _step_over(scan: Scan, window: bytes, end: i64, last: i64, verify: bool) -> bool:
    """Move one record on, even to behind the window; False if it cannot be done."""
    position: i64 = scan.position
    if position + HEADER_BYTES > end:
        return False
    length: i64 = (read_i64_be(window, position + 8) >> 32) & _LOW_32
    stop: i64 = position + HEADER_BYTES + length
    if verify:
        state: i64 = _check_header(window, position, end, scan.ledger, scan.entry)
        if state == DAMAGED:
            stop = _find_successor(window, position, end, scan.ledger, scan.entry, last)
            state = ENOUGH if stop > 0 else DAMAGED
            if stop < 0 and position > 0:
                state = MORE  # a window that begins here may show it
        if state != ENOUGH:
            scan.stopped = state
            return False
    scan.position = stop
    scan.entry += 1
    return True


def _find_successor(
    window: bytes, position: i64, end: i64, ledger: i64, entry: i64, last: i64
) -> i64:
    """Where the entry behind a damaged one starts, -1 if it is not to be found in the window.

    The damaged record's length cannot be relied on, and its body may hold anything, even what
    looks like a record. So whatever looks like the successor must have one of its own behind it.
    """
    while True:
        position = window.find(b"\xab\x5e\x01", position + 1)
        if position < 0 or position + HEADER_BYTES > end:
            return -1
        if _check_header(window, position, end, ledger, entry + 1) == ENOUGH:
            length: i64 = (read_i64_be(window, position + 8) >> 32) & _LOW_32
            behind: i64 = position + HEADER_BYTES + length
            if entry + 1 == last or _check_header(window, behind, end, ledger, entry + 2) == ENOUGH:
                return position


def _take(
    scan: Scan,
    window: bytes,
    end: i64,
    last: i64,
    max_entries: i64,
    max_bytes: i64,
    verify: bool,
) -> None:
    position: i64 = scan.position
    entry: i64 = scan.entry
    ledger: i64 = scan.ledger
    found = scan.entries
    room: i64 = max_bytes
    final_entry: i64 = min(last, entry + max(max_entries, 1) - 1)
    while entry <= final_entry:
        if position + HEADER_BYTES > end:
            break
        length: i64 = (read_i64_be(window, position + 8) >> 32) & _LOW_32
        stop: i64 = position + HEADER_BYTES + length
        if length > room and len(found) > 0:
            scan.stopped = ENOUGH
            break
        if verify:
            state: i64 = _check_entry(window, position, stop, end, ledger, entry)
            if state != ENOUGH:
                scan.stopped = state
                if state == MORE:
                    scan.needed = max(_LONGEST_HEADER, stop - position)
                break
        time_ms: i64 = read_i64_be(window, position + 32)
        messages: i64 = (read_i64_be(window, position + 40) >> 32) & _LOW_32
        body = window[position + HEADER_BYTES : stop]
        found.append(Entry(ledger, entry, body, time_ms, messages))
        room -= length
        entry += 1
        position = stop
    else:
        scan.stopped = ENOUGH
    scan.position = position
    scan.entry = entry


def _check_header(window: bytes, position: i64, end: i64, ledger: i64, entry: i64) -> i64:
    if position + HEADER_BYTES > end or position + HEADER_BYTES + window[position + 3] > end:
        return MORE
    word: i64 = read_i64_be(window, position)
    if (
        word >> 40 == _ENTRY_TOP
        and read_i64_be(window, position + 16) == ledger
        and read_i64_be(window, position + 24) == entry
        and _header_is_intact(window, position)
    ):
        return ENOUGH
    return DAMAGED


def _check_entry(window: bytes, position: i64, stop: i64, end: i64, ledger: i64, entry: i64) -> i64:
    state: i64 = _check_header(window, position, end, ledger, entry)
    if state != ENOUGH:
        return state
    if stop > end:
        return MORE
    return ENOUGH if _body_is_intact(window, position, stop) else DAMAGED
