"""Delivery over whole subscriptions: order, counts, ends and limits, on memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.errors import Unavailable
from anabranch.protocol import wire_pb2
from anabranch.storage.managed_ledger import ManagedLedger
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import turns, until
from tests.raw_client import Earliest, RawClient, SubType


async def publish(client: RawClient, *contents: str, **metadata: Any) -> None:
    """Numbers go on where they stopped; returns when all are stored."""
    for number, content in enumerate(contents):
        client.publish(content.encode(), sequence_id=number, **metadata)
    for _ in contents:
        await client.next_receipt()


async def take(client: RawClient, count: int, *, consumer_id: int = 0) -> list[str]:
    found = []
    for _ in range(count):
        delivery = await client.next_delivery()
        client.acknowledge(delivery.id, consumer_id=consumer_id)
        found.append(bytes(delivery.body)[delivery.payload_start :].decode())
    return found


def all_deliveries(client: RawClient) -> list[str]:
    found = []
    while not client.deliveries.empty():
        delivery = client.deliveries.get_nowait()
        found.append(bytes(delivery.body)[delivery.payload_start :].decode())
    return found


def test_a_key_moves_to_another_consumer_only_when_its_entries_are_settled() -> None:
    async def scenario(world: BrokerWorld) -> None:
        producer, first, second = [await world.client() for _ in range(3)]
        await producer.produce(TOPIC)
        await first.subscribe(TOPIC, kind=SubType.Key_Shared, consumer_name="a")
        first.flow(2)
        for number in range(4):
            await publish(producer, f"{number}", partition_key="k")
        held = [await first.next_delivery(), await first.next_delivery()]
        # Whoever joins may become the owner of the key, but the first still has two of it.
        for number in range(8):
            await second.subscribe(
                TOPIC, kind=SubType.Key_Shared, consumer_id=number, consumer_name=f"b{number}"
            )
            second.flow(10, number)
        await turns()
        assert second.deliveries.empty()
        first.acknowledge(*(each.id for each in held))
        first.flow(10)
        await turns()
        assert sorted(all_deliveries(first) + all_deliveries(second)) == ["2", "3"]

    play(scenario)


def test_what_a_key_shared_consumer_held_goes_out_again_in_order_before_anything_new() -> None:
    async def scenario(world: BrokerWorld) -> None:
        producer, first, second = [await world.client() for _ in range(3)]
        await producer.produce(TOPIC)
        await first.subscribe(TOPIC, kind=SubType.Key_Shared, consumer_name="a")
        first.flow(3)
        for number in range(6):
            await publish(producer, f"{number}", partition_key="k")
        for _ in range(3):
            await first.next_delivery()
        await second.subscribe(TOPIC, kind=SubType.Key_Shared, consumer_name="b")
        second.flow(10)
        await first.close()
        found = [await second.next_delivery() for _ in range(6)]
        assert [bytes(each.body)[-1:].decode() for each in found] == list("012345")
        assert [each.redelivery_count for each in found] == [0] * 6

    play(scenario)


def test_redelivery_counts_what_was_asked_for_and_nothing_else() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        await publish(client, "a", "b", "c")
        found = [await client.next_delivery() for _ in range(3)]
        command = wire_pb2.CommandRedeliverUnacknowledgedMessages(consumer_id=0)
        command.message_ids.add(ledgerId=found[1].id.ledger, entryId=found[1].id.entry)
        client.send(command)
        again = await client.next_delivery()
        assert (again.id.entry, again.redelivery_count) == (found[1].id.entry, 1)
        await turns()
        assert client.deliveries.empty()

    play(scenario)


def test_after_a_redelivery_the_epoch_of_an_exclusive_consumer_is_the_new_one() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, consumer_epoch=3)
        client.flow(100)
        await publish(client, "a", "b")
        first = [await client.next_delivery() for _ in range(2)]
        assert [each.consumer_epoch for each in first] == [3, 3]
        client.send(
            wire_pb2.CommandRedeliverUnacknowledgedMessages(consumer_id=0, consumer_epoch=4)
        )
        again = [await client.next_delivery() for _ in range(2)]
        assert [(each.id.entry, each.consumer_epoch) for each in again] == [(0, 4), (1, 4)]

    play(scenario)


def test_a_failover_consumer_takes_over_behind_what_was_acknowledged() -> None:
    async def scenario(world: BrokerWorld) -> None:
        producer, first, second = [await world.client() for _ in range(3)]
        await producer.produce(TOPIC)
        await first.subscribe(TOPIC, kind=SubType.Failover, consumer_name="a", priority_level=0)
        await second.subscribe(TOPIC, kind=SubType.Failover, consumer_name="b", priority_level=1)
        first.flow(100)
        second.flow(100)
        changes = [await first.next_pushed(), await second.next_pushed()]
        assert [each.is_active for each in changes] == [True, False]
        await publish(producer, *"abcdef")
        assert await take(first, 2) == ["a", "b"]
        await turns()
        await first.close()
        assert (await second.next_pushed()).is_active
        assert await take(second, 4) == list("cdef")

    play(scenario)


def test_a_delayed_entry_comes_when_it_is_due_and_not_before() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        await publish(client, "late", deliver_at_time=world.clock.now_ms + 60_000)
        await publish(client, "now")
        assert await take(client, 1) == ["now"]
        await turns()
        assert client.deliveries.empty()
        world.clock.now_ms += 60_000
        (await world.topic()).subscriptions["s"].wake()
        assert await take(client, 1) == ["late"]

    play(scenario)


def test_delayed_entries_survive_a_read_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        await publish(client, *"abc", deliver_at_time=world.clock.now_ms + 60_000)
        await turns()
        topic = await world.topic()
        read = ManagedLedger.read
        failures = 1

        async def read_once_failing(self: ManagedLedger, *args: object, **more: object) -> object:
            nonlocal failures
            if failures:
                failures -= 1
                raise Unavailable("the disk hiccups")
            return await read(self, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ManagedLedger, "read", read_once_failing)
        world.clock.now_ms += 60_000
        topic.subscriptions["s"].wake()
        assert await take(client, 3) == list("abc")

    play(scenario)


def test_the_end_of_a_sealed_topic_is_told_when_everything_is_acknowledged() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, shared = await world.client(), await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "alone")
        await shared.subscribe(TOPIC, "shared", kind=SubType.Shared)
        client.flow(100)
        shared.flow(100)
        await publish(client, "a", "b")
        await (await world.topic()).seal()
        assert isinstance(await client.next_pushed(), wire_pb2.CommandCloseProducer)
        for each in (client, shared):
            deliveries = [await each.next_delivery() for _ in range(2)]
            await turns()
            assert each.pushed.empty()
            each.acknowledge(*(delivery.id for delivery in deliveries))
            assert isinstance(await each.next_pushed(), wire_pb2.CommandReachedEndOfTopic)
        late = await world.client()
        await late.subscribe(TOPIC, "late")
        assert isinstance(await late.next_pushed(), wire_pb2.CommandReachedEndOfTopic)
        answer = await late.produce(TOPIC)
        assert answer.error == wire_pb2.ServerError.TopicTerminatedError

    play(scenario)


def test_a_seek_sends_the_consumers_away_and_begins_where_it_was_told() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC)
        client.flow(100)
        await publish(client, *"abcd")
        first = [await client.next_delivery() for _ in range(4)]
        client.acknowledge(*(each.id for each in first))
        seek = wire_pb2.CommandSeek(consumer_id=0, request_id=0)
        seek.message_id.ledgerId, seek.message_id.entryId = first[2].id.ledger, first[2].id.entry
        assert isinstance(await client.ask(seek), wire_pb2.CommandSuccess)
        assert isinstance(await client.next_pushed(), wire_pb2.CommandCloseConsumer)
        await client.subscribe(TOPIC)
        client.flow(100)
        assert await take(client, 2) == ["c", "d"]

    play(scenario)


def test_a_reader_keeps_its_place_through_a_seek_and_goes_with_its_consumer() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await publish(client, *"abc")
        await client.subscribe(TOPIC, durable=False, initialPosition=Earliest)
        seek = wire_pb2.CommandSeek(consumer_id=0, request_id=0)
        seek.message_publish_time = 0
        await client.ask(seek)
        await client.subscribe(TOPIC, durable=False)
        client.flow(10)
        assert await take(client, 3) == list("abc")
        await client.ask(wire_pb2.CommandCloseConsumer(consumer_id=0, request_id=0))
        assert not (await world.topic()).subscriptions

    play(scenario)


def test_a_consumer_that_owes_too_much_gets_nothing_until_it_acknowledges() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        await publish(client, *"abcdefgh")
        held = [await client.next_delivery() for _ in range(4)]
        await turns()
        assert client.deliveries.empty()
        client.acknowledge(held[0].id)
        await turns()
        assert client.deliveries.empty()  # not before half of it is settled
        client.acknowledge(held[1].id)
        assert await take(client, 2) == ["e", "f"]

    play(scenario, "maxUnackedMessagesPerConsumer=4")


@pytest.mark.parametrize("kind", [SubType.Exclusive, SubType.Shared, SubType.Key_Shared])
def test_dispatch_keeps_to_its_rate(kind: SubType) -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=kind)
        client.flow(100)
        await publish(client, *(f"{number}" for number in range(20)))
        await turns(200)
        assert len(all_deliveries(client)) == 5
        subscription = (await world.topic()).subscriptions["s"]
        world.clock.now_ms += 1000
        subscription.wake()
        await turns(200)
        assert len(all_deliveries(client)) == 5

    play(scenario, "dispatchThrottlingRatePerSubscriptionInMsg=5")


def test_subscriptions_of_a_topic_share_its_rate() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        for number in range(3):
            await client.subscribe(TOPIC, f"s{number}", number)
            client.flow(100, number)
        await publish(client, *(f"{number}" for number in range(20)))
        await turns(200)
        # Each turn may overdraw by what another one took since it looked.
        assert 6 <= len(all_deliveries(client)) <= 18

    play(scenario, "dispatchThrottlingRatePerTopicInMsg=6")


def test_only_what_is_left_of_a_batch_is_delivered_again() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        await publish(client, "batch", num_messages_in_batch=4)
        delivery = await client.next_delivery()
        delivery.id.ack_set = [0b0110]  # the first and the last are done
        await client.acknowledge_surely(delivery.id)
        client.send(wire_pb2.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
        again = await client.next_delivery()
        assert again.ack_set == [0b0110]
        stats = await client.ask(wire_pb2.CommandConsumerStats(consumer_id=0, request_id=0))
        assert stats.unackedMessages == 2

    play(scenario)


def test_an_exclusive_subscription_is_taken_over_from_a_dead_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: BrokerWorld) -> None:
        dead, alive = await world.client(), await world.client()
        await dead.subscribe(TOPIC)
        dead.answers_pings = False
        session = next(iter(world.broker.sessions.values()))

        async def is_alive() -> bool:
            return False

        monkeypatch.setattr(session, "is_alive", is_alive)
        assert isinstance(await alive.subscribe(TOPIC), wire_pb2.CommandSuccess)
        await until(lambda: dead.is_gone)

    play(scenario)


def test_a_subscription_that_was_deleted_while_somebody_subscribed_is_not_attached_to() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        topic = await world.topic()
        await topic.open_subscription("s")
        started = client.start(
            wire_pb2.CommandSubscribe(
                topic=TOPIC,
                subscription="s",
                subType=SubType.Exclusive,
                consumer_id=1,
                request_id=0,
            )
        )
        await topic.delete_subscription("s")
        answer = await started
        attached = [each for each in topic.subscriptions.values() if each.consumers]
        if isinstance(answer, wire_pb2.CommandSuccess):
            assert [each.name for each in attached] == ["s"]
        else:
            assert not attached

    play(scenario)


def test_unloading_in_the_middle_of_a_subscribe_leaves_nobody_on_the_old_topic() -> None:
    async def scenario(world: BrokerWorld) -> None:
        for given in range(10):
            client = await world.client()
            old = await world.topic()
            started = client.start(
                wire_pb2.CommandSubscribe(
                    topic=TOPIC,
                    subscription="s",
                    subType=SubType.Shared,
                    consumer_id=1,
                    request_id=0,
                )
            )
            producing = client.start(
                wire_pb2.CommandProducer(topic=TOPIC, producer_id=1, request_id=0)
            )
            for _ in range(given):
                await asyncio.sleep(0)
            await world.broker.catalogue.topics.unload(old.name)
            await started
            await producing
            await turns()
            assert not old.producers
            assert not any(each.consumers for each in old.subscriptions.values())
            await client.close()

    play(scenario)


def test_a_type_that_policy_forbids_is_refused() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        answer = await client.subscribe(TOPIC, kind=SubType.Key_Shared)
        assert answer.error == wire_pb2.ServerError.NotAllowedError
        assert isinstance(await client.subscribe(TOPIC), wire_pb2.CommandSuccess)

    play(scenario, "subscriptionTypesEnabled=Exclusive,Shared")
