"""Topics by name: loaded once, ended once, and made again by whoever asks."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.topic import Topic
from anabranch.errors import AlreadyExists, NotReady, TopicNotFound, Unavailable
from anabranch.protocol import wire_pb2
from anabranch.storage.ledger import Entry
from anabranch.topics.names import parse_topic_name
from anabranch.topics.positions import EARLIEST
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import read_all, turns

NAME = parse_topic_name(TOPIC)


async def entries_of(topic: Topic) -> list[Entry]:
    return await topic.ledger.read(EARLIEST, max_entries=10, max_bytes=1 << 20)


def test_everybody_who_asks_at_once_gets_the_same_topic() -> None:
    async def scenario(world: BrokerWorld) -> None:
        found = await asyncio.gather(*(world.topic() for _ in range(20)))
        assert len(set(map(id, found))) == 1
        assert found[0].ledger.epoch == 1

    play(scenario)


def test_a_topic_that_was_not_made_is_not_found() -> None:
    async def scenario(world: BrokerWorld) -> None:
        topics = world.broker.catalogue.topics
        with pytest.raises(TopicNotFound):
            await topics.get(NAME)
        await topics.create(NAME)
        with pytest.raises(AlreadyExists):
            await topics.create(NAME)
        assert (await topics.get(NAME)).name == NAME

    play(scenario)


def test_whoever_asks_during_an_unload_waits_and_gets_the_next_instance() -> None:
    async def scenario(world: BrokerWorld) -> None:
        old = await world.topic()
        client = await world.client()
        await client.produce(TOPIC)
        world.store.pause()
        client.publish(b"on its way")
        ending = asyncio.create_task(world.broker.catalogue.topics.unload(NAME))
        asking = asyncio.create_task(world.topic())
        await turns()
        assert not asking.done()
        world.store.resume()
        new = await asking
        await ending
        assert new is not old
        assert len(await entries_of(new)) == 1
        assert (await client.next_receipt()).sequence_id == 0
        assert isinstance(await client.next_pushed(), wire_pb2.CommandCloseProducer)

    play(scenario)


def test_an_ended_topic_lets_nobody_in() -> None:
    async def scenario(world: BrokerWorld) -> None:
        old = await world.topic()
        await world.broker.catalogue.topics.unload(NAME)
        with pytest.raises(NotReady, match="look it up again"):
            old.require_serving()

    play(scenario)


def test_a_topic_that_cannot_be_unloaded_in_good_order_is_recovered_by_the_next() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        client.publish(b"answered")
        await client.next_receipt()
        topic = await world.topic()

        async def fail() -> None:
            raise Unavailable("the store is gone for a moment")

        topic.ledger.unload = fail  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            await world.broker.catalogue.topics.unload(NAME)
        assert topic.ledger.ended_by is not None
        again = await world.topic()
        assert len(await entries_of(again)) == 1

    play(scenario)


def test_a_stopping_broker_unloads_all_and_loads_none() -> None:
    async def scenario(world: BrokerWorld) -> None:
        topics = [await world.topic(f"{TOPIC}-{number}") for number in range(20)]
        await world.broker.stop()
        assert all(topic.ledger.ended_by is not None for topic in topics)
        with pytest.raises(NotReady, match="stops"):
            await world.topic()

    play(scenario)


def test_deletion_ends_it_with_everything_in_it() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        client.publish(b"x")
        await client.next_receipt()
        await world.broker.catalogue.topics.delete(NAME)
        assert not world.disk.ledgers
        again = await world.topic()
        assert await read_all(again.ledger) == []

    play(scenario)
