from __future__ import annotations

import pytest

from anabranch.broker.receivers import MAX_PERMITS, Receiver


def receiver(permits: int = 0, unacked_limit: int = 10) -> Receiver:
    made = Receiver(1, "c", unacked_limit=unacked_limit)
    made.allow(permits)
    return made


def test_a_batch_may_take_permits_below_zero() -> None:
    one = receiver(permits=2)
    one.deliver(5)
    assert one.permits == -3
    assert one.room() <= 0


def test_room_is_what_was_asked_for_or_what_may_still_be_owed() -> None:
    one = receiver(permits=100)
    assert one.room() == 10
    one.deliver(4)
    assert one.room() == 6
    assert receiver(permits=100, unacked_limit=0).room() == 100


def test_a_paused_connection_has_no_room() -> None:
    one = receiver(permits=5)
    one.is_paused = True
    assert one.room() == 0


def test_a_blocked_consumer_opens_again_at_half_of_the_limit() -> None:
    one = receiver(permits=100)
    one.deliver(10)
    assert one.is_blocked
    assert one.room() == 0
    assert not one.settle(4)
    assert one.is_blocked
    assert one.settle(1)
    assert one.room() == 5


def test_permits_that_arrive_while_blocked_are_held_back_until_it_opens() -> None:
    one = receiver(permits=10)
    one.deliver(10)
    one.allow(7)
    assert (one.permits, one.held_permits) == (0, 7)
    one.settle(10)
    assert (one.permits, one.held_permits) == (7, 0)


def test_permits_have_an_upper_end() -> None:
    one = receiver(permits=MAX_PERMITS)
    one.allow(MAX_PERMITS)
    assert one.permits == MAX_PERMITS


def test_settling_more_than_is_owed_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        receiver().settle(1)


def test_its_repr_tells_an_operator_why_nothing_moves() -> None:
    one = receiver(permits=10)
    one.deliver(10)
    assert repr(one) == "Receiver(1 'c', blocked, permits=0, unacked=10)"


def test_a_raised_limit_ends_a_block_at_once() -> None:
    receiver = Receiver(1, "c", unacked_limit=10)
    receiver.allow(20)
    receiver.deliver(10)
    receiver.allow(5)
    assert receiver.room() == 0
    receiver.limit(12)
    assert (receiver.room(), receiver.permits) == (2, 15)
    receiver.deliver(2)
    receiver.limit(0)
    assert receiver.room() == 13
