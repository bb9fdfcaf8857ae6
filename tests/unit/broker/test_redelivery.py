from __future__ import annotations

import pytest

from anabranch.broker.redelivery import RedeliveryCounts, RedeliveryQueue
from anabranch.topics.positions import Position


def at(entry: int) -> Position:
    return Position(1, entry)


def test_entries_leave_in_the_order_in_which_they_were_written() -> None:
    queue = RedeliveryQueue()
    for entry in (5, 1, 3, 1):
        queue.add(at(entry), slot=-1)
    assert queue.first(2) == [at(1), at(3)]
    assert len(queue) == 3


def test_closed_slots_are_passed_over() -> None:
    queue = RedeliveryQueue()
    queue.add_many([(at(1), 7), (at(2), 8), (at(3), 7), (at(4), 9)])
    assert queue.first(10, lambda slot: slot != 7) == [at(2), at(4)]
    assert queue.of(7) == [at(1), at(3)]


def test_an_entry_does_not_change_its_slot() -> None:
    queue = RedeliveryQueue()
    queue.add(at(1), slot=7)
    with pytest.raises(AssertionError):
        queue.add(at(1), slot=8)


def test_a_whole_consumer_worth_of_entries_is_sorted_in() -> None:
    queue = RedeliveryQueue()
    queue.add_many((at(entry), -1) for entry in range(0, 400, 2))
    queue.add_many((at(entry), -1) for entry in range(399, 0, -2))
    assert queue.first(400) == [at(entry) for entry in range(400)]


def test_an_empty_queue_has_nothing_first() -> None:
    queue = RedeliveryQueue()
    assert queue.first(5) == []
    queue.add(at(1), -1)
    queue.clear()
    assert queue.first(5) == []
    assert not queue.discard(at(1))


def test_counts_live_until_their_entry_is_settled() -> None:
    counts = RedeliveryCounts()
    for entry in (1, 1, 2, 3):
        counts.raise_(at(entry))
    assert [counts.of(at(entry)) for entry in range(4)] == [0, 2, 1, 1]
    counts.forget(at(1))
    counts.forget_through(at(2))
    assert [counts.of(at(entry)) for entry in range(4)] == [0, 0, 0, 1]
    assert len(counts) == 1
