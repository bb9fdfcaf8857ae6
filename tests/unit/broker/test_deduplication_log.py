"""Deduplication that survives restarts: snapshots, and the entries behind them."""

from __future__ import annotations

from dataclasses import replace

from anabranch.broker import deduplication_log
from anabranch.broker.deduplication_log import CURSOR, SNAPSHOT
from anabranch.broker.deduplication_snapshot import parse_snapshot
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import until
from tests.raw_client import RawClient

DEDUPLICATE = "brokerDeduplicationEnabled=true"


async def publish(client: RawClient, first: int, last: int, name: str = "p", **more: int) -> None:
    for number in range(first, last + 1):
        client.publish(b"x", sequence_id=number, producer_name=name, **more)
    for _ in range(first, last + 1):
        await client.next_receipt()


async def known(world: BrokerWorld, name: str = "p") -> int:
    topic = await world.topic()
    assert topic.deduplication is not None
    return topic.deduplication.last_sequence_id(name)


def test_a_snapshot_and_the_entries_behind_it_make_the_whole() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await publish(client, 0, 9)
        topic = await world.topic()
        assert topic.deduplication is not None
        await topic.deduplication.save()
        await publish(client, 10, 14)
        await world.crash()
        assert await known(world) == 14

    play(scenario, DEDUPLICATE)


def test_snapshots_are_taken_by_themselves_so_that_a_start_replays_little() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await publish(client, 0, deduplication_log.SNAPSHOT_ENTRIES + 50)
        topic = await world.topic()
        cursor = topic.ledger.cursors.get(CURSOR)
        assert cursor is not None
        await until(lambda: SNAPSHOT in cursor.properties)
        snapshot = parse_snapshot(cursor.properties[SNAPSHOT].encode())
        assert snapshot.producers["p"] == snapshot.position.entry

    play(scenario, DEDUPLICATE)


def test_a_snapshot_says_nothing_of_sends_that_are_not_answered() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await publish(client, 0, 4)
        topic = await world.topic()
        world.store.pause()
        client.publish(b"x", sequence_id=5, producer_name="p")
        assert topic.deduplication is not None
        assert topic.deduplication.state() == {"p": 4}
        world.store.resume()
        await client.next_receipt()
        assert topic.deduplication.state() == {"p": 5}

    play(scenario, DEDUPLICATE)


def test_an_unload_saves_what_is_known() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await publish(client, 0, 9)
        topic = await world.topic()
        await world.broker.catalogue.topics.unload(topic.name)
        topic = await world.topic()
        cursor = topic.ledger.cursors.get(CURSOR)
        assert cursor is not None
        assert parse_snapshot(cursor.properties[SNAPSHOT].encode()).producers == {"p": 9}
        assert await known(world) == 9

    play(scenario, DEDUPLICATE)


def test_switched_off_it_forgets_and_holds_nothing_back() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await publish(client, 0, 9)
        topic = await world.topic()
        await topic.apply_policies(replace(topic.policies, is_deduplication_on=False))
        assert topic.deduplication is None
        assert topic.ledger.cursors.get(CURSOR) is None
        await topic.apply_policies(replace(topic.policies, is_deduplication_on=True))
        assert await known(world) == 9  # read again from the entries

    play(scenario, DEDUPLICATE)
