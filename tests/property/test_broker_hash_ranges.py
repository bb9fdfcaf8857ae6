"""What statistics say about hash ranges is what dispatch does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.key_shared import LAST_HASH, AutoSplit, EntryBuckets, SlotOwners, StickyRanges

hashes = st.integers(0, LAST_HASH)


def owner_told(owners: SlotOwners, value: int) -> int | None:
    return next((who for start, end, who in owners.owned() if start <= value <= end), None)


def assert_rising_and_apart(owners: SlotOwners) -> None:
    at = -1
    for start, end, _ in owners.owned():
        assert at < start <= end <= LAST_HASH
        at = end


@given(st.lists(st.sampled_from("abcdef"), max_size=6), st.lists(hashes, max_size=50))
@settings(max_examples=50, deadline=None)
def test_a_split_ring_tells_who_owns_each_hash(names: list[str], asked: list[int]) -> None:
    owners = AutoSplit()
    for number, name in enumerate(names):
        owners.join(number, name)
    assert_rising_and_apart(owners)
    ranges = owners.owned()
    if names:
        assert (ranges[0][0], ranges[-1][1]) == (0, LAST_HASH)
    edges = [edge for start, end, _ in ranges for edge in (start, end)]
    for value in [*asked, *edges, 0, LAST_HASH]:
        assert owner_told(owners, value) == owners.owner_of(value)


@given(st.lists(hashes, min_size=2, max_size=10, unique=True), st.lists(hashes, max_size=50))
@settings(max_examples=50, deadline=None)
def test_sticky_ranges_are_told_as_they_were_named(edges: list[int], asked: list[int]) -> None:
    edges.sort()
    owners = StickyRanges()
    for number in range(len(edges) // 2):
        owners.join(number, f"c{number}", [(edges[2 * number], edges[2 * number + 1])])
    assert_rising_and_apart(owners)
    for value in [*asked, *edges]:
        assert owner_told(owners, value) == owners.owner_of(value)


@given(st.integers(1, 8), st.integers(1, 5), st.lists(hashes, max_size=50))
@settings(max_examples=50, deadline=None)
def test_buckets_are_told_with_their_owners(count: int, members: int, asked: list[int]) -> None:
    width = (LAST_HASH + 1) // count
    starts = [index * width for index in range(count)]
    ends = [*(start - 1 for start in starts[1:]), LAST_HASH]
    owners = EntryBuckets()
    for number in range(members):
        owners.join(number, f"c{number}", list(zip(starts, ends, strict=True)))
    for value in asked:
        assert owner_told(owners, value) == owners.owner_of(owners.slot_of(value))
