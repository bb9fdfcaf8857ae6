"""The rules of broker histories one by one, each with the shortest history that breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from anabranch.topics.positions import Position
from tests.simulation.broker.subscription_history import SubscriptionHistory, SubType
from tests.simulation.broker.topic_history import Message, TopicHistory

ONE, TWO = (Message("p", number, 1, "k") for number in (1, 2))
FIRST, SECOND = (Position(1, number) for number in range(2))


def topic_with(*messages: Message, is_deduplicated: bool = False) -> TopicHistory:
    topic = TopicHistory("t", is_deduplicated)
    for message in messages:
        topic.sent(message)
    return topic


def shared(topic: TopicHistory, kind: SubType = SubType.Shared) -> SubscriptionHistory:
    return SubscriptionHistory("s", kind, topic)


def invented() -> None:
    topic_with(ONE).see(TWO.id, FIRST)


def two_contents_at_one_position() -> None:
    topic = topic_with(ONE, TWO)
    topic.answer(ONE, FIRST)
    topic.see(TWO.id, FIRST)


def stored_more_often_than_sent() -> None:
    topic = topic_with(ONE)
    topic.see(ONE.id, FIRST)
    topic.see(ONE.id, SECOND)


def stored_twice_though_deduplicated() -> None:
    topic = topic_with(ONE, ONE, is_deduplicated=True)
    topic.see(ONE.id, FIRST)
    topic.see(ONE.id, SECOND)


def called_a_double_though_sent_once() -> None:
    topic_with(ONE, is_deduplicated=True).answer(ONE, Position(-1, -1))


def out_of_order_in_the_ledger() -> None:
    topic = topic_with(ONE, TWO)
    topic.see(TWO.id, FIRST)
    topic.see(ONE.id, SECOND)
    topic.check_order()


def written_after_being_fenced() -> None:
    old, new = Message("old", 1, 1, "k", epoch=1), Message("new", 1, 1, "k", epoch=2)
    topic = topic_with(old, new)
    topic.see(new.id, FIRST)
    topic.see(old.id, SECOND)
    topic.check_order()


def delivered_twice_to_one_consumer() -> None:
    subscription = shared(topic_with(ONE))
    consumer = subscription.begin("c")
    subscription.deliver(consumer, ONE.id, FIRST)
    subscription.deliver(consumer, ONE.id, FIRST)


def first_deliveries_out_of_order() -> None:
    subscription = shared(topic_with(ONE, TWO), SubType.Key_Shared)
    consumer = subscription.begin("c")
    subscription.deliver(consumer, TWO.id, SECOND)
    subscription.deliver(consumer, ONE.id, FIRST)


def positions_that_go_back() -> None:
    topic = topic_with(ONE, ONE)
    subscription = shared(topic, SubType.Exclusive)
    consumer = subscription.begin("c")
    subscription.deliver(consumer, ONE.id, SECOND)
    subscription.deliver(consumer, ONE.id, FIRST)


def a_confirmed_acknowledgement_forgotten() -> None:
    subscription = shared(topic_with(ONE))
    consumer = subscription.begin("c")
    subscription.deliver(consumer, ONE.id, FIRST)
    subscription.confirm(consumer, [FIRST], sent_at=0.0)
    subscription.deliver(consumer, ONE.id, FIRST)


def a_confirmed_part_of_a_batch_forgotten() -> None:
    batch = Message("p", 1, 3, "k")
    subscription = shared(topic_with(batch))
    consumer = subscription.begin("c")
    subscription.deliver(consumer, batch.id, FIRST)
    subscription.confirm_part(consumer, FIRST, left=0b011, sent_at=0.0)
    consumer.asked_again(FIRST)
    subscription.deliver(consumer, batch.id, FIRST, bits=0b111)


def a_key_at_two_consumers() -> None:
    subscription = shared(topic_with(ONE, TWO), SubType.Key_Shared)
    both = [subscription.begin(name) for name in "ab"]
    subscription.deliver(both[0], ONE.id, FIRST)
    subscription.deliver(both[1], TWO.id, SECOND)
    for consumer in both:
        consumer.proved_at = float("inf")
    subscription.check_exclusion()


def two_holders_of_an_exclusive_subscription() -> None:
    subscription = shared(topic_with(), SubType.Exclusive)
    for start, end in ((1.0, 3.0), (2.0, 4.0)):
        consumer = subscription.begin("c")
        consumer.attached_at, consumer.proved_at = start, end
    subscription.check_exclusion()


def delivered_too_early() -> None:
    later = Message("p", 1, 1, "k", due_ms=100)
    subscription = shared(topic_with(later))
    subscription.deliver(subscription.begin("c"), later.id, FIRST, wall_ms=99)


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (invented, "nobody sent"),
        (two_contents_at_one_position, "and held"),
        (stored_more_often_than_sent, "lies at"),
        (stored_twice_though_deduplicated, "lies at"),
        (called_a_double_though_sent_once, "called a double"),
        (out_of_order_in_the_ledger, "behind"),
        (written_after_being_fenced, "had epoch 2"),
        (delivered_twice_to_one_consumer, "twice"),
        (first_deliveries_out_of_order, "delivered first after"),
        (positions_that_go_back, "came after"),
        (a_confirmed_acknowledgement_forgotten, "forgotten"),
        (a_confirmed_part_of_a_batch_forgotten, "is left"),
        (a_key_at_two_consumers, "both hold key"),
        (two_holders_of_an_exclusive_subscription, "until"),
        (delivered_too_early, "came at"),
    ],
)
def test_a_history_that_breaks_a_rule_is_refused(
    history: Callable[[], None], complaint: str
) -> None:
    async def tell() -> None:
        history()

    with pytest.raises(AssertionError, match=complaint):
        asyncio.run(tell())


def test_what_was_answered_and_never_delivered_is_lost() -> None:
    async def tell() -> None:
        topic = topic_with(ONE, TWO)
        subscription = shared(topic)
        topic.answer(ONE, FIRST)
        topic.answer(TWO, SECOND)
        subscription.deliver(subscription.begin("c"), ONE.id, FIRST)
        assert subscription.undelivered() == [TWO.id]
        assert subscription.unacknowledged() == {FIRST, SECOND}

    asyncio.run(tell())


def test_what_dead_connections_deliver_late_is_not_held_against_the_broker() -> None:
    async def tell() -> None:
        subscription = shared(topic_with(ONE), SubType.Key_Shared)
        dead, alive = subscription.begin("dead"), subscription.begin("alive")
        subscription.deliver(alive, ONE.id, FIRST)
        subscription.confirm(alive, [FIRST], sent_at=float("inf"))
        subscription.deliver(dead, ONE.id, FIRST)
        subscription.check_exclusion()

    asyncio.run(tell())
