"""Laws of records: what is packed is found again, and no damaged record is ever taken for sound."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.storage.ledger import Draft
from anabranch.storage.record_codec import (
    DAMAGED,
    ENOUGH,
    ENTRY,
    GROUP,
    HEADER_BYTES,
    MORE,
    Run,
    find_group,
    large_entry,
    measure,
    pack_record,
    scan_blocks,
    scan_entries,
    scan_journal,
    skip_records,
)

ANY = 1 << 60


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    size = draw(st.sampled_from([0, 1, 40, 300, 16_383, 16_384, 20_000]))
    body = draw(st.binary(min_size=min(size, 40), max_size=min(size, 40))).ljust(size, b"~")
    prefix = draw(st.integers(0, min(size, 255)))
    return Draft(
        body,
        crc32c(body[prefix:]),
        prefix,
        draw(st.integers(0, 2**63 - 1)),
        draw(st.integers(0, 2**31 - 1)),
    )


small_drafts = st.builds(
    lambda body, prefix, time_ms: Draft(
        body, crc32c(body[min(prefix, len(body)) :]), min(prefix, len(body)), time_ms
    ),
    st.binary(max_size=60),
    st.integers(0, 20),
    st.integers(0, 1000),
)
numbers = st.integers(0, 2**62)
generations = st.integers(0, 2**40)


def packed(run_of: list[Draft], ledger: int = 7, first: int = 0, generation: int = 1) -> bytes:
    run = Run(ledger, first, generation)
    run.pack(run_of)
    return b"".join(
        chunk.data + (b"" if chunk.body is None else bytes(chunk.body)) for chunk in run.finish()
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(drafts(), max_size=8), numbers, numbers, generations, st.integers(0, 8))
def test_packed_entries_are_found_again(
    some: list[Draft], ledger: int, first: int, generation: int, cut: int
) -> None:
    run = Run(ledger, first, generation)
    run.pack(some[:cut])  # in two calls, as two submissions to one group would be
    run.pack(some[cut:])
    chunks = run.finish()
    data = b"".join(
        chunk.data + (b"" if chunk.body is None else bytes(chunk.body)) for chunk in chunks
    )
    assert run.count == len(some)
    assert run.size == len(data) == measure(some, ANY)
    assert run.body_bytes == sum(len(draft.body) for draft in some)
    assert sum(chunk.count for chunk in chunks) == len(some)
    last = first + len(some) - 1
    scan = scan_entries(data, ledger, first, first, last, 1000, ANY, True)
    assert scan.stopped == ENOUGH
    assert [tuple(entry) for entry in scan.entries] == [
        (ledger, first + number, draft.body, draft.time_ms, draft.messages)
        for number, draft in enumerate(some)
    ]
    journal = scan_journal(data, 0, len(data), generation)
    assert journal.stopped == MORE
    assert journal.position == len(data)
    assert sum(record.count for record in journal.records) == len(some)
    assert [record.kind for record in journal.records] == [ENTRY] * bool(some)


@settings(max_examples=100, deadline=None)
@given(st.lists(drafts(), min_size=1, max_size=8))
def test_chunks_tell_their_own_entries(some: list[Draft]) -> None:
    run = Run(3, 0, 1)
    run.pack(some)
    expected = iter(some)
    first = 0
    for chunk in run.finish():
        assert chunk.first == first
        covered = [next(expected) for _ in range(chunk.count)]
        assert chunk.max_time == max(draft.time_ms for draft in covered)
        if chunk.body is not None:
            assert large_entry(chunk, 3) == (
                3,
                first,
                covered[0].body,
                covered[0].time_ms,
                covered[0].messages,
            )
        first += chunk.count
    assert first == len(some)


@settings(max_examples=300, deadline=None)
@given(st.lists(small_drafts, min_size=1, max_size=6), st.data())
def test_a_flipped_bit_damages_exactly_one_entry(some: list[Draft], data: st.DataObject) -> None:
    whole = packed(some)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << (bit % 8)
    hit = next(n for n in range(len(some)) if skip_records(whole, 0, n + 1) > bit // 8)
    last = len(some) - 1
    for number, draft in enumerate(some):
        scan = scan_entries(bytes(flipped), 7, 0, number, last, 1, ANY, True)
        if number == hit:
            assert not scan.entries
            # At the end of the window a length made longer looks like a record that goes on.
            assert scan.stopped == DAMAGED or (number == last and scan.stopped == MORE)
            assert scan.entry == number
        else:
            assert [entry.body for entry in scan.entries] == [draft.body], (hit, number)


@settings(max_examples=300, deadline=None)
@given(st.lists(small_drafts, min_size=1, max_size=6), st.data())
def test_a_journal_scan_stops_at_a_flipped_bit(some: list[Draft], data: st.DataObject) -> None:
    whole = packed(some)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << (bit % 8)
    hit = next(n for n in range(len(some)) if skip_records(whole, 0, n + 1) > bit // 8)
    scan = scan_journal(bytes(flipped), 0, len(flipped), 1)
    assert sum(record.count for record in scan.records) == hit
    assert scan.position == skip_records(whole, 0, hit)


@settings(max_examples=200, deadline=None)
@given(st.lists(small_drafts, min_size=1, max_size=6), st.data())
def test_a_window_that_ends_early_asks_for_more(some: list[Draft], data: st.DataObject) -> None:
    whole = packed(some)
    cut = data.draw(st.integers(0, len(whole) - 1))
    scan = scan_entries(whole[:cut], 7, 0, 0, len(some) - 1, 1000, ANY, True)
    assert scan.stopped == MORE
    complete = [n for n in range(1, len(some) + 1) if skip_records(whole, 0, n) <= cut]
    assert len(scan.entries) == len(complete)
    assert scan.needed > cut - scan.position
    # With what it asked for it goes on, and finds the rest.
    rest = scan_entries(
        whole[scan.position :], 7, scan.entry, scan.entry, len(some) - 1, 1000, ANY, True
    )
    assert len(scan.entries) + len(rest.entries) == len(some)


@settings(max_examples=200, deadline=None)
@given(st.lists(small_drafts, max_size=5), generations, generations)
def test_records_of_a_former_lap_are_not_taken(
    some: list[Draft], generation: int, other: int
) -> None:
    data = packed(some, generation=generation)
    scan = scan_journal(data, 0, len(data), other)
    same = generation & 0xFFFFFFFF == other & 0xFFFFFFFF
    assert sum(record.count for record in scan.records) == (len(some) if same else 0)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), generations, st.integers(0, 1 << 40))
def test_a_group_is_found_only_where_it_says_it_is(
    before: bytes, behind: bytes, generation: int, base: int
) -> None:
    here = pack_record(GROUP, generation, base + len(before), 10, 0, 1, b"")
    window = before + here + behind
    assert find_group(window, 0, base, generation) == len(before)
    assert find_group(window, 0, base + 1, generation) == -1
    assert find_group(window, 0, base, generation + 1) == -1
    assert find_group(window[: len(before) + HEADER_BYTES - 1], 0, base, generation) == -1


@settings(max_examples=100, deadline=None)
@given(st.lists(small_drafts, min_size=1, max_size=60))
def test_blocks_for_an_index_cover_every_entry(some: list[Draft]) -> None:
    data = packed(some * 10)
    scan = scan_blocks(data, 7, 0, 10 * len(some) - 1)
    assert scan.stopped == ENOUGH
    assert sum(block.count for block in scan.records) == 10 * len(some)
    for block in scan.records:
        covered = (some * 10)[block.first : block.first + block.count]
        assert block.max_time == max(draft.time_ms for draft in covered)
        assert block.start == skip_records(data, 0, block.first)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_can_be_scanned(garbage: bytes) -> None:
    for verify in (True,):
        assert not scan_entries(garbage, 1, 0, 0, 10, 10, 1000, verify).entries
    assert not scan_journal(garbage, 0, len(garbage), 1).records
    assert not scan_blocks(garbage, 1, 0, 10).records
    assert find_group(garbage, 0, 0, 1) == -1
