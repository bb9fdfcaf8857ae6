"""The bytes of a record, spelled out; their laws are in tests/property/test_storage_records.py."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from anabranch.errors import InvalidInput
from anabranch.storage.ledger import Draft
from anabranch.storage.record_codec import (
    CHUNK_BYTES,
    CHUNK_ENTRIES,
    CLOSE,
    DAMAGED,
    ENOUGH,
    GROUP,
    HEADER_BYTES,
    LARGE_BYTES,
    Run,
    measure,
    pack_record,
    scan_entries,
    scan_journal,
)

HEADER = struct.Struct(">HBBIIIQQQII")


def drafts(count: int, size: int) -> list[Draft]:
    bodies = [(b"%06d " % number * size)[:size] for number in range(count)]
    return [Draft(body, crc32c(body)) for body in bodies]


def test_a_record_has_the_layout_that_is_drawn() -> None:
    body = b"cmd:" + b"metadata and payload"
    checksum = crc32c(body[4:])
    run = Run(0x1122334455667788, 5, 0x1_0000_0007)
    run.pack([Draft(body, checksum, 4, 1_700_000_000_123, 42)])
    (chunk,) = run.finish()
    fields = HEADER.unpack(chunk.data[:HEADER_BYTES])
    expected = (0xAB5E, 1, 4, 7, len(body), checksum, 0x1122334455667788, 5, 1_700_000_000_123, 42)
    assert fields[:-1] == expected
    assert fields[-1] == crc32c(body[:4], crc32c(chunk.data[:44]))
    assert chunk.data[HEADER_BYTES:] == body


def test_other_records_have_the_same_header() -> None:
    record = pack_record(CLOSE, 2**32 + 3, 9, -1, 77, 0, b"properties")
    fields = HEADER.unpack(record[:HEADER_BYTES])
    assert fields[:-1] == (0xAB5E, 3, 0, 3, 10, crc32c(b"properties"), 9, 2**64 - 1, 77, 0)
    assert fields[-1] == crc32c(record[:44])
    (found,) = scan_journal(record, 0, len(record), 3).records
    assert (found.kind, found.ledger, found.first, found.time_ms) == (CLOSE, 9, -1, 77)
    assert record[found.body : found.end] == b"properties"


def test_the_highest_checksums_and_generations_survive() -> None:
    for number in range(200):  # half of all checksums have their top bit set
        record = pack_record(GROUP, 0xFFFFFFFF, number, number, number, 1, b"")
        assert len(scan_journal(record, 0, len(record), 0xFFFFFFFF).records) == 1


def test_runs_are_cut_into_chunks_by_bytes_and_by_entries() -> None:
    run = Run(1, 0, 1)
    run.pack(drafts(200, 1000))
    sizes = [chunk.size for chunk in run.finish()]
    assert len(sizes) > 2
    assert all(CHUNK_BYTES <= size < CHUNK_BYTES + 1048 for size in sizes[:-1])
    run = Run(1, 0, 1)
    run.pack(drafts(2 * CHUNK_ENTRIES + 1, 1))
    assert [chunk.count for chunk in run.finish()] == [CHUNK_ENTRIES, CHUNK_ENTRIES, 1]


def test_large_bodies_are_kept_by_reference() -> None:
    body = bytearray(LARGE_BYTES)
    run = Run(1, 0, 1)
    run.pack([*drafts(2, 10), Draft(body, crc32c(bytes(body))), *drafts(2, 10)])
    before, large, behind = run.finish()
    assert large.body is body
    assert large.size == HEADER_BYTES + LARGE_BYTES
    assert (before.first, large.first, behind.first) == (0, 2, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        Draft(b"12345678901", 0),
        Draft(b"x", -1),
        Draft(b"x", 2**32),
        Draft(b"x", 0, 2),
        Draft(b"x" * 10, 0, -1),
        Draft(b"x", 0, 0, -1),
        Draft(b"x", 0, 0, 2**63),
        Draft(b"x", 0, 0, 0, -1),
        Draft(b"x", 0, 0, 0, 2**31),
        Draft("text", 0),  # type: ignore[arg-type]
        Draft(memoryview(b"12345678").cast("H"), 0),
        Draft(memoryview(b"12345678")[::2], 0),
    ],
)
def test_what_is_no_entry_is_refused_before_anything_is_packed(wrong: Draft) -> None:
    with pytest.raises(InvalidInput):
        measure([*drafts(3, 5), wrong], 10)


def test_a_prefix_has_at_most_255_bytes() -> None:
    assert measure([Draft(bytes(300), 0, 255)], 1000) == 348
    with pytest.raises(InvalidInput):
        measure([Draft(bytes(300), 0, 256)], 1000)


def test_a_record_of_another_ledger_or_entry_is_damage() -> None:
    run = Run(5, 10, 1)
    run.pack(drafts(1, 20))
    data = run.finish()[0].data
    assert scan_entries(data, 5, 10, 10, 10, 1, 100, True).stopped == ENOUGH
    assert scan_entries(data, 6, 10, 10, 10, 1, 100, True).stopped == DAMAGED
    assert scan_entries(data, 5, 11, 11, 11, 1, 100, True).stopped == DAMAGED


def test_what_looks_like_a_successor_in_a_damaged_body_is_not_taken() -> None:
    """A body may hold a whole record with good checksums, even the number that comes next."""
    forged = Run(5, 1, 1)
    forged.pack(drafts(1, 30))
    body = forged.finish()[0].data
    run = Run(5, 0, 1)
    run.pack([Draft(body, crc32c(body)), *drafts(3, 40)])
    data = bytearray(run.finish()[0].data)
    data[9] ^= 1  # its length
    found = scan_entries(bytes(data), 5, 0, 1, 3, 10, 1000, True)
    assert [entry.entry for entry in found.entries] == [1, 2, 3]
    assert [len(entry.body) for entry in found.entries] == [40, 40, 40]
