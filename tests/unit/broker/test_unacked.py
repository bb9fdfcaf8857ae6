from __future__ import annotations

import pytest

from anabranch.broker.unacked import Taken, Unacked
from anabranch.topics.positions import Position

A, B, C = Position(1, 0), Position(1, 1), Position(1, 2)


def test_an_acknowledgement_takes_the_messages_that_were_left() -> None:
    unacked = Unacked()
    unacked.deliver(1, [A, B], [3, 1])
    assert unacked.messages == 4
    assert unacked.acknowledge_part(1, A, 1) == Taken(1, 2, -1)
    assert unacked.acknowledge(1, [A, B, C]) == (2, [C])
    assert unacked.messages == 0
    assert unacked.entries() == 0


def test_a_part_acknowledged_twice_counts_once() -> None:
    unacked = Unacked()
    unacked.deliver(1, [A], [3])
    unacked.acknowledge_part(1, A, 2)
    assert unacked.acknowledge_part(1, A, 2) == Taken(1, 0, -1)
    assert unacked.messages == 2


def test_an_entry_is_found_at_another_consumer_too() -> None:
    unacked = Unacked()
    unacked.deliver(2, [A], [1])
    assert unacked.acknowledge(1, [A]) == (0, [A])
    assert unacked.acknowledge_elsewhere(A) == Taken(2, 1, -1)
    assert unacked.acknowledge_elsewhere(A) is None


def test_only_who_holds_an_entry_gives_it_back() -> None:
    unacked = Unacked()
    unacked.deliver(2, [A], [1])
    assert unacked.give_back(1, A) is None
    assert unacked.give_back(2, A) == Taken(2, 1, -1)


def test_a_slot_has_a_holder_until_its_last_entry_is_settled() -> None:
    unacked = Unacked()
    unacked.deliver(1, [A, B], [1, 1], [7, 7])
    unacked.acknowledge(1, [A])
    assert unacked.holders == {7: 1}
    unacked.give_back(1, B)
    assert unacked.holders == {}


def test_a_slot_at_two_consumers_is_our_mistake() -> None:
    unacked = Unacked()
    unacked.deliver(1, [A], [1], [7])
    with pytest.raises(AssertionError):
        unacked.deliver(2, [B], [1], [7])


def test_the_subscription_stops_at_its_limit_and_goes_on_at_half_of_it() -> None:
    unacked = Unacked(limit=4)
    unacked.deliver(1, [A, B], [2, 2])
    assert unacked.room() == 0
    unacked.acknowledge_part(1, A, 1)
    assert unacked.room() == 0
    unacked.acknowledge(1, [A])
    assert unacked.room() == 2


def test_what_the_cursor_passed_is_dropped_from_everybody() -> None:
    unacked = Unacked()
    unacked.deliver(1, [A], [1])
    unacked.deliver(2, [B, C], [2, 4])
    assert sorted(unacked.drop_through(B)) == [Taken(1, 1, -1), Taken(2, 2, -1)]
    assert C in unacked
    assert A not in unacked


def test_a_raised_limit_ends_a_block_at_once() -> None:
    unacked = Unacked(2)
    unacked.deliver(1, [Position(1, 0), Position(1, 1)], [1, 1])
    assert unacked.room() == 0
    unacked.relimit(3)
    assert unacked.room() == 1
    unacked.relimit(0)
    assert unacked.room() > 1000
