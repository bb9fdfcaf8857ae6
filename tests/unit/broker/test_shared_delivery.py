from __future__ import annotations

import pytest

from anabranch.broker.key_shared import AutoSplit, EntryBuckets, StickyRanges
from anabranch.broker.receivers import Receiver
from anabranch.broker.shared_delivery import SharedDelivery
from anabranch.errors import BadAssignment
from anabranch.topics.positions import Position

HALVES = [(0, 0x7FFF), (0x8000, 0xFFFF)]


def at(*entries: int) -> list[Position]:
    return [Position(1, entry) for entry in entries]


def consumer(number: int, permits: int = 100, name: str | None = None) -> Receiver:
    made = Receiver(number, name or f"c{number}")
    made.allow(permits)
    return made


def sticky(*, permits: int = 100) -> SharedDelivery:
    """Consumer 1 owns the lower half, consumer 2 the upper."""
    delivery = SharedDelivery(StickyRanges())
    delivery.join(consumer(1, permits), HALVES[:1])
    delivery.join(consumer(2, permits), HALVES[1:])
    return delivery


def test_what_nobody_can_take_waits_and_comes_back_in_order() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1, permits=1))
    delivery.dispatch(at(0, 1, 2), [1, 1, 1])
    assert delivery.returned(10) == []  # nobody could take it
    assert not delivery.may_read_on()
    delivery.receivers[1].allow(5)
    assert delivery.returned(10) == at(1, 2)
    plan = delivery.redeliver(at(1, 2), [1, 1])
    assert [list(grant.entries) for grant in plan.grants] == [[0, 1]]
    assert delivery.may_read_on()


def test_a_close_gives_entries_to_others_and_blames_none() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1))
    delivery.dispatch(at(0, 1), [1, 1])
    delivery.join(consumer(2))
    assert not delivery.leave(1)
    assert delivery.returned(10) == at(0, 1)
    assert delivery.counts.of(at(0)[0]) == 0


def test_asking_again_raises_the_count_of_what_is_held_and_of_nothing_else() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1))
    delivery.join(consumer(2, permits=0))
    delivery.dispatch(at(0, 1), [1, 1])
    assert delivery.ask_again(2, at(0)) == 0
    assert delivery.ask_again(1, at(0, 9)) == 1
    assert [delivery.counts.of(each) for each in at(0, 1, 9)] == [1, 0, 0]
    assert delivery.ask_again(1) == 1
    assert delivery.counts.of(at(1)[0]) == 1


def test_an_acknowledgement_of_what_waits_takes_it_out_of_the_queue() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1))
    delivery.dispatch(at(0), [1])
    delivery.ask_again(1)
    delivery.acknowledge(1, at(0)[0])
    assert delivery.returned(10) == []
    assert len(delivery.counts) == 0


def test_an_entry_acknowledged_while_it_was_read_again_is_not_delivered() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1))
    delivery.dispatch(at(0, 1), [1, 1])
    delivery.ask_again(1)
    named = delivery.returned(10)
    delivery.acknowledge(1, named[0])
    plan = delivery.redeliver(named, [1, 1])
    assert [list(grant.entries) for grant in plan.grants] == [[1]]
    assert list(plan.rest) == [0]


def test_when_the_last_consumer_leaves_everything_is_to_be_read_again() -> None:
    delivery = sticky()
    delivery.dispatch(at(0, 1), [1, 1], [5, 0x9000])
    assert not delivery.leave(1)
    assert delivery.leave(2)
    assert delivery.generation == 1
    assert not delivery.queue
    assert delivery.unacked.messages == 0
    assert not delivery.leave(2)


def test_a_key_that_moves_waits_until_its_former_owner_let_go() -> None:
    delivery = SharedDelivery(EntryBuckets())
    delivery.join(consumer(1, name="b"), HALVES)
    delivery.dispatch(at(0, 1), [1, 1], [0, 1])
    delivery.join(consumer(2, name="a"), HALVES)  # and takes bucket 0
    plan = delivery.dispatch(at(2, 3), [1, 1], [0, 1])
    assert [(grant.consumer, list(grant.entries)) for grant in plan.grants] == [(1, [1])]
    assert delivery.returned(10) == []
    delivery.acknowledge(1, at(0)[0])
    assert delivery.returned(10) == at(2)
    assert [grant.consumer for grant in delivery.redeliver(at(2), [1], [0]).grants] == [2]


def test_a_slow_consumer_does_not_stop_its_neighbour() -> None:
    delivery = sticky()
    delivery.receivers[1].is_paused = True
    plan = delivery.dispatch(at(0, 1), [1, 1], [5, 0x9000])
    assert [grant.consumer for grant in plan.grants] == [2]
    assert delivery.may_read_on()
    assert delivery.returned(10) == []


def test_nothing_passes_an_entry_of_its_key_that_waits() -> None:
    delivery = sticky(permits=1)
    delivery.dispatch(at(0, 1), [1, 1], [5, 5])
    delivery.receivers[1].allow(10)
    plan = delivery.dispatch(at(2, 3), [1, 1], [5, 6])
    assert [list(grant.entries) for grant in plan.grants] == [[1]]
    assert delivery.returned(10) == at(1, 2)


def test_an_entry_given_back_while_a_later_one_was_read_goes_out_before_it() -> None:
    delivery = sticky()
    delivery.dispatch(at(0, 1), [1, 1], [5, 5])
    delivery.ask_again(1, at(1))
    named = delivery.returned(10)
    assert named == at(1)
    delivery.ask_again(1, at(0))
    assert delivery.redeliver(named, [1], [5]).grants == []
    assert delivery.returned(10) == at(0, 1)


def test_reading_on_stops_when_too_much_waits() -> None:
    delivery = SharedDelivery(AutoSplit(), look_ahead=2)
    delivery.join(consumer(1, permits=1))
    delivery.dispatch(at(0, 1), [1, 1], [5, 5])
    assert delivery.may_read_on()
    delivery.dispatch(at(2), [1], [6])
    assert not delivery.may_read_on()


def test_a_consumer_with_ranges_that_are_taken_never_joins() -> None:
    delivery = sticky()
    with pytest.raises(BadAssignment):
        delivery.join(consumer(3), [(5, 5)])
    assert set(delivery.receivers) == {1, 2}


def test_the_limit_of_the_subscription_bounds_what_is_wanted() -> None:
    delivery = SharedDelivery(subscription_limit=3)
    delivery.join(consumer(1))
    assert delivery.wanted() == 3
    delivery.dispatch(at(0, 1, 2, 3), [1, 1, 1, 1])
    assert delivery.wanted() == 0
    assert delivery.unacked.messages == 3


def test_a_skip_settles_what_lies_before_it() -> None:
    delivery = SharedDelivery()
    delivery.join(consumer(1))
    delivery.dispatch(at(0, 1, 2), [1, 1, 1])
    delivery.ask_again(1, at(0))
    delivery.drop_through(at(1)[0])
    assert delivery.receivers[1].unacked == 1
    assert not delivery.queue
    assert len(delivery.counts) == 0
