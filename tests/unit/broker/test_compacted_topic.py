"""Compaction that really runs, and reads of what it kept."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.compacted_topic import CompactionState
from anabranch.errors import NotAllowed
from anabranch.storage.trimming import LedgerPolicy
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import until
from tests.raw_client import Earliest, RawClient


async def publish(client: RawClient, *pairs: tuple[str, str]) -> None:
    for key, content in pairs:
        client.publish(content.encode(), partition_key=key)
        await client.next_receipt()


async def read(world: BrokerWorld, count: int, *, is_compacted: bool = True) -> list[str]:
    client = await world.client()
    await client.subscribe(
        TOPIC, "reader", durable=False, initialPosition=Earliest, read_compacted=is_compacted
    )
    client.flow(1000)
    found = [await client.next_delivery() for _ in range(count)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert client.deliveries.empty()
    await client.close()
    await until(lambda: client.is_gone)
    return [bytes(each.body)[each.payload_start :].decode() for each in found]


def test_a_compacted_read_goes_on_with_what_came_later() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, ("a", "1"), ("b", "2"), ("a", "3"))
        topic = await world.topic()
        await topic.compacted.compact()
        await publish(client, ("b", "4"))
        assert await read(world, 3) == ["2", "3", "4"]
        assert await read(world, 4, is_compacted=False) == ["1", "2", "3", "4"]
        await topic.compacted.compact()
        assert await read(world, 2) == ["3", "4"]
        assert topic.compacted.state is CompactionState.SUCCESS

    play(scenario)


def test_what_was_compacted_is_read_though_the_topic_has_dropped_it() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, *((f"key {number % 3}", f"{number}") for number in range(30)))
        topic = await world.topic()
        await topic.compacted.compact()
        before = set(world.disk.ledgers)
        await world.broker.catalogue.topics.unload(topic.name)  # which closes the ledger
        topic = await world.topic()
        await topic.ledger.set_policy(LedgerPolicy(retention_minutes=0, retention_bytes=0))
        await client.produce(TOPIC, epoch=1)
        await publish(client, ("new", "30"))
        assert await topic.ledger.trim()
        assert set(world.disk.ledgers) < before | set(world.disk.ledgers)
        assert await read(world, 1, is_compacted=False) == ["30"]
        assert await read(world, 4) == ["27", "28", "29", "30"]

    play(scenario)


def test_nothing_is_trimmed_before_it_was_compacted_again() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, ("a", "1"))
        topic = await world.topic()
        await topic.compacted.compact()
        await publish(client, ("b", "2"))
        await world.broker.catalogue.topics.unload(topic.name)
        topic = await world.topic()
        await topic.ledger.set_policy(LedgerPolicy(retention_minutes=0, retention_bytes=0))
        assert await topic.ledger.trim() == []
        assert await read(world, 2) == ["1", "2"]

    play(scenario)


def test_a_compaction_survives_a_crash_and_leaves_one_ledger_behind() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, ("a", "1"), ("a", "2"))
        topic = await world.topic()
        for _ in range(3):
            await topic.compacted.compact()
        await world.crash()
        assert await read(world, 1) == ["2"]
        kinds = [each.properties.get("kind") for each in world.disk.ledgers.values()]
        compacted = [
            each for each in world.disk.ledgers.values() if "compacted" in each.properties.values()
        ]
        assert len(compacted) == 1, kinds

    play(scenario)


def test_one_compaction_at_a_time() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, ("a", "1"))
        topic = await world.topic()
        first = asyncio.create_task(topic.compacted.compact())
        await asyncio.sleep(0)
        with pytest.raises(NotAllowed, match="already"):
            await topic.compacted.compact()
        await first
        assert topic.compacted.state is CompactionState.SUCCESS

    play(scenario)


def test_an_empty_topic_has_nothing_to_compact() -> None:
    async def scenario(world: BrokerWorld) -> None:
        topic = await world.topic()
        await topic.compacted.compact()
        assert topic.compacted.current is None
        assert topic.compacted.state is CompactionState.SUCCESS

    play(scenario)
