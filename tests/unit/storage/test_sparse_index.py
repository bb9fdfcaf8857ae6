"""Points are few, lead to every entry and every time, and survive a file only if it is whole."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.storage.sparse_index import Point, SparseIndex, encode_index, parse_index

SIZE = 1000


def index_of(times: list[int]) -> SparseIndex:
    index = SparseIndex()
    for entry, time_ms in enumerate(times):
        index.add(entry, entry * SIZE, time_ms)
    return index


def test_points_are_spaced_by_entries_or_bytes() -> None:
    small, large = SparseIndex(), SparseIndex()
    for entry in range(1000):
        small.add(entry, entry * 10, 0)
        large.add(entry, entry * 100_000, 0)
    assert len(small) == 16
    assert len(large) == 1000


def test_the_point_of_an_entry_lies_at_or_before_it() -> None:
    index = index_of([0] * 500)
    for entry in range(500):
        point = index.locate(entry)
        assert entry - 66 < point.entry <= entry
        assert point.offset == point.entry * SIZE


def test_an_index_without_points_leads_to_the_front() -> None:
    assert SparseIndex().locate(7) == Point(0, 0)
    assert SparseIndex().locate_time(7) == Point(0, 0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.integers(0, 60))
def test_everything_before_the_point_of_a_time_is_earlier(times: list[int], wanted: int) -> None:
    index = index_of(times)
    point = index.locate_time(wanted)
    assert all(time_ms < wanted for time_ms in times[: point.entry])
    first = next((entry for entry, time_ms in enumerate(times) if time_ms >= wanted), None)
    if first is not None:
        assert first - 66 < point.entry <= first


def test_a_file_gives_the_same_index_back() -> None:
    random = Random(1)
    index = index_of([random.randint(0, 10**12) for _ in range(1000)])
    data = encode_index(index, 7, 1000, 1000 * SIZE)
    again = parse_index(data, 7, 1000, 1000 * SIZE)
    assert again is not None
    assert encode_index(again, 7, 1000, 1000 * SIZE) == data
    for entry in range(0, 1000, 37):
        assert again.locate(entry) == index.locate(entry)


def test_an_index_of_something_else_is_not_taken() -> None:
    data = encode_index(index_of([1, 2, 3]), 7, 3, 3 * SIZE)
    assert parse_index(data, 8, 3, 3 * SIZE) is None
    assert parse_index(data, 7, 4, 3 * SIZE) is None
    assert parse_index(data, 7, 3, 4 * SIZE) is None


def test_no_damaged_index_is_taken() -> None:
    data = encode_index(index_of(list(range(200))), 7, 200, 200 * SIZE)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        assert parse_index(bytes(flipped), 7, 200, 200 * SIZE) is None, bit
    for size in range(len(data)):
        assert parse_index(data[:size], 7, 200, 200 * SIZE) is None, size
