"""Producers let in, made to wait and sent away, over pipes."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.admission import EPOCH_PROPERTY
from anabranch.protocol import wire_pb2
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import turns, until

Modes = wire_pb2.ProducerAccessMode
Success = wire_pb2.CommandProducerSuccess


def test_a_name_is_taken_over_from_a_dead_connection_and_others_need_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: BrokerWorld) -> None:
        dead, heir, other = [await world.client() for _ in range(3)]
        await dead.produce(TOPIC, producer_name="p")
        asked, verdict = asyncio.Event(), asyncio.Event()
        session = next(iter(world.broker.sessions.values()))

        async def is_alive() -> bool:
            asked.set()
            await verdict.wait()
            return False

        monkeypatch.setattr(session, "is_alive", is_alive)
        taking = asyncio.create_task(heir.produce(TOPIC, producer_name="p"))
        await asked.wait()
        assert isinstance(await other.produce(TOPIC, producer_name="q"), Success)
        verdict.set()
        assert isinstance(await taking, Success)
        await until(lambda: dead.is_gone)

    play(scenario)


def test_a_name_of_a_living_connection_is_busy() -> None:
    async def scenario(world: BrokerWorld) -> None:
        first, second = await world.client(), await world.client()
        await first.produce(TOPIC, producer_name="p")
        answer = await second.produce(TOPIC, producer_name="p")
        assert answer.error == wire_pb2.ServerError.ProducerBusy

    play(scenario)


def test_epochs_only_grow_whoever_is_saved_last() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, fencing = await world.client(), await world.client()
        first = await client.produce(TOPIC, producer_access_mode=Modes.Exclusive)
        second = await fencing.produce(TOPIC, producer_access_mode=Modes.ExclusiveWithFencing)
        assert second.topic_epoch == first.topic_epoch + 1
        topic = await world.topic()
        holder = next(iter(topic.producers.values())).producer
        await topic._admission.save_epoch(
            type(holder)(9, 9, "late", holder.mode, topic_epoch=first.topic_epoch)
        )
        assert topic.ledger.record.properties[EPOCH_PROPERTY] == str(second.topic_epoch)
        await topic.compacted.compact()
        assert topic.ledger.record.properties[EPOCH_PROPERTY] == str(second.topic_epoch)

    play(scenario)


def test_a_fenced_producer_is_closed_and_cannot_come_back() -> None:
    async def scenario(world: BrokerWorld) -> None:
        old, new = await world.client(), await world.client()
        answer = await old.produce(TOPIC, producer_access_mode=Modes.Exclusive)
        await new.produce(TOPIC, producer_access_mode=Modes.ExclusiveWithFencing)
        assert isinstance(await old.next_pushed(), wire_pb2.CommandCloseProducer)
        again = await old.produce(
            TOPIC,
            producer_access_mode=Modes.Exclusive,
            topic_epoch=answer.topic_epoch,
            epoch=1,
        )
        assert again.error == wire_pb2.ServerError.ProducerFenced

    play(scenario)


def test_waiting_producers_are_let_in_one_after_the_other() -> None:
    async def scenario(world: BrokerWorld) -> None:
        clients = [await world.client() for _ in range(3)]
        answers = [
            await each.produce(TOPIC, producer_access_mode=Modes.WaitForExclusive)
            for each in clients
        ]
        assert [each.producer_ready for each in answers] == [True, False, False]
        for before, after in ((0, 1), (1, 2)):
            await clients[before].close()
            ready = await clients[after].next_pushed()
            assert ready.producer_ready
            assert ready.topic_epoch == after

    play(scenario)


def test_an_unloaded_topic_lets_its_waiters_go() -> None:
    async def scenario(world: BrokerWorld) -> None:
        holder, waiter = await world.client(), await world.client()
        await holder.produce(TOPIC, producer_access_mode=Modes.Exclusive)
        await waiter.produce(TOPIC, producer_access_mode=Modes.WaitForExclusive)
        topic = await world.topic()
        await world.broker.catalogue.topics.unload(topic.name)
        refused = await waiter.next_pushed()
        assert refused.error == wire_pb2.ServerError.ServiceNotReady
        await turns()
        session = list(world.broker.sessions.values())[1]
        assert not session._tasks

    play(scenario)


def test_a_later_attempt_of_the_same_client_replaces_the_earlier_one() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p", epoch=0)
        world.store.pause()
        client.publish(b"x", sequence_id=0)
        answer = await client.produce(TOPIC, producer_name="p", epoch=1)
        assert isinstance(answer, Success)
        world.store.resume()
        await turns()
        assert client.receipts.empty()  # it is sent again to the new one
        client.publish(b"x", sequence_id=0)
        await client.next_receipt()
        assert len((await world.topic()).producers) == 1

    play(scenario)
