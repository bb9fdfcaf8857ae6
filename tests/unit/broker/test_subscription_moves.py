"""Moves of a subscription, and names it may not have."""

from __future__ import annotations

import pytest

from anabranch.broker.subscription_moves import (
    BEGINNING,
    END,
    check_subscription_name,
    create_subscription,
    durable_subscription,
    expire_older,
    reset_to_id,
    skip,
)
from anabranch.errors import AlreadyExists, InvalidInput, SubscriptionNotFound
from anabranch.topics.positions import Position
from tests.admin_world import AdminWorld, play


@pytest.mark.parametrize("name", ["", "  ", "x" * 1025, "ü" * 513, "a\nb", "a\x85b"])
def test_a_name_that_would_do_harm_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_subscription_name(name)


@pytest.mark.parametrize("name", ["s", "a/b c", "ü" * 512, "."])
def test_any_other_name_will_do(name: str) -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(1)
        await create_subscription(topic, name, BEGINNING, {})
        with pytest.raises(AlreadyExists):
            await create_subscription(topic, name, BEGINNING, {})
        assert durable_subscription(topic, name).cursor.backlog == 1

    play(scenario)


def test_a_reader_is_no_subscription() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(1)
        await topic.open_subscription("reader", BEGINNING, is_durable=False)
        with pytest.raises(SubscriptionNotFound, match="reader"):
            durable_subscription(topic, "reader")

    play(scenario)


def test_a_move_is_durable_when_it_returns() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        subscription = topic.subscription("s")
        await skip(subscription, 3)
        assert subscription.cursor.persisted_mark_delete == subscription.cursor.mark_delete
        assert await expire_older(subscription, 2, world.clock.now_ms)
        assert subscription.cursor.persisted_mark_delete == subscription.cursor.mark_delete
        assert not await expire_older(subscription, 100, world.clock.now_ms)

    play(scenario)


def test_a_reset_goes_to_what_is_there() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(5)
        await world.subscribe()
        subscription, ledger = topic.subscription("s"), topic.ledger.last_confirmed.ledger
        for position, backlog in ((BEGINNING, 5), (END, 0), (Position(ledger, 5), 0)):
            await reset_to_id(subscription, position, is_excluded=False)
            assert subscription.cursor.backlog == backlog
        for wrong in (Position(ledger, 6), Position(ledger - 1, 0), Position(ledger + 1, 0)):
            with pytest.raises(InvalidInput, match="is not there"):
                await reset_to_id(subscription, wrong, is_excluded=False)

    play(scenario)
