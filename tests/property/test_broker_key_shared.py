"""Laws of slot ownership: one owner each, determined by who is there, and little moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.key_shared import AutoSplit, EntryBuckets, StickyRanges
from anabranch.errors import BadAssignment

SAMPLE = range(0, 0x10000, 61)
members = st.dictionaries(
    st.integers(1, 50), st.sampled_from(["a", "b", "worker", "é"]), min_size=1, max_size=6
)


def owners(split: AutoSplit | StickyRanges) -> list[int | None]:
    return [split.owner_of(slot) for slot in SAMPLE]


@given(members)
@settings(max_examples=30, deadline=None)
def test_auto_split_depends_only_on_who_is_there(names: dict[int, str]) -> None:
    one, other = AutoSplit(), AutoSplit()
    for consumer, name in names.items():
        one.join(consumer, name)
    other.join(99, "passing")
    for consumer, name in sorted(names.items(), reverse=True):
        other.join(consumer, name)
    other.leave(99)
    assert owners(one) == owners(other)
    assert set(owners(one)) <= set(names)


@given(members, st.sampled_from(["a", "late"]))
@settings(max_examples=30, deadline=None)
def test_a_join_moves_slots_only_to_the_joiner_and_a_leave_gives_them_back(
    names: dict[int, str], joiner: str
) -> None:
    split = AutoSplit()
    for consumer, name in names.items():
        split.join(consumer, name)
    before = owners(split)
    split.join(77, joiner)
    after = owners(split)
    assert all(new in (old, 77) for old, new in zip(before, after, strict=True))
    assert 77 in after
    split.leave(77)
    assert owners(split) == before


@given(st.integers(2, 10))
@settings(max_examples=9, deadline=None)
def test_auto_split_shares_are_near_even(consumers: int) -> None:
    split = AutoSplit()
    for consumer in range(consumers):
        split.join(consumer, f"consumer-{consumer}")
    got = owners(split)
    shares = [got.count(consumer) * consumers / len(got) for consumer in range(consumers)]
    assert min(shares) > 0.5
    assert max(shares) < 1.6


ranges = st.tuples(st.integers(-2, 40), st.integers(-2, 40))


@given(st.lists(st.lists(ranges, max_size=3), max_size=6))
@settings(max_examples=200, deadline=None)
def test_sticky_ranges_are_served_exactly_or_refused_without_a_trace(
    joins: list[list[tuple[int, int]]],
) -> None:
    sticky = StickyRanges()
    held: dict[int, int] = {}
    for consumer, wanted in enumerate(joins):
        values = [value for start, end in wanted for value in range(start, end + 1)]
        is_fine = (
            bool(wanted)
            and all(0 <= start <= end for start, end in wanted)
            and len(set(values)) == len(values)
            and not held.keys() & set(values)
        )
        if is_fine:
            sticky.join(consumer, "c", wanted)
            held |= dict.fromkeys(values, consumer)
        else:
            with pytest.raises(BadAssignment):
                sticky.join(consumer, "c", wanted)
        assert [sticky.owner_of(value) for value in range(45)] == [
            held.get(value) for value in range(45)
        ]


@given(st.sets(st.integers(2, 0xFFFF), max_size=12), members, st.integers(0, 0xFFFF))
@settings(max_examples=100, deadline=None)
def test_buckets_spread_evenly_over_consumers_by_name(
    splits: set[int], names: dict[int, str], value: int
) -> None:
    starts = [0, *sorted(splits)]
    declared = [(start, end - 1) for start, end in zip(starts, [*starts[1:], 0x10000], strict=True)]
    buckets = EntryBuckets()
    for consumer, name in names.items():
        buckets.join(consumer, name, declared)
    order = [consumer for _, consumer in sorted((name, each) for each, name in names.items())]
    count, size = len(order), len(declared)
    for place, consumer in enumerate(order):
        for bucket in range(place * size // count, (place + 1) * size // count):
            assert buckets.owner_of(bucket) == consumer
    assert buckets.owner_of(size) is None
    slot = buckets.slot_of(1, value)
    assert declared[slot][0] <= value <= declared[slot][1]
