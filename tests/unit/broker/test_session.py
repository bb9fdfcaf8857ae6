"""One connected client: what it holds is let go of when it ends, and never before."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker import session as session_module
from anabranch.protocol import wire_pb2
from anabranch.protocol.handshake import State
from anabranch.protocol.wire_codec import Send
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import turns, until
from tests.raw_client import Earliest, SubType, entry

Modes = wire_pb2.ProducerAccessMode


def test_the_end_of_a_connection_frees_everything_it_had() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        await client.subscribe(TOPIC)
        await client.ask(
            wire_pb2.CommandWatchTopicList(
                watcher_id=1, namespace="public/default", topics_pattern=".*", request_id=0
            )
        )
        topic = await world.topic()
        session = next(iter(world.broker.sessions.values()))
        await client.close()
        await turns()
        assert not topic.producers
        assert not topic.subscriptions["s"].consumers
        assert topic.subscriptions["s"].delivery is None
        assert not session.watches
        assert not world.broker.sessions

    play(scenario)


@pytest.mark.parametrize("mode", [Modes.WaitForExclusive, Modes.Exclusive])
def test_a_producer_whose_client_left_while_it_was_let_in_keeps_nobody_out(
    mode: wire_pb2.ProducerAccessMode,
) -> None:
    async def scenario(world: BrokerWorld) -> None:
        holder, waiter = await world.client(), await world.client()
        if mode == Modes.WaitForExclusive:
            await holder.produce(TOPIC, producer_access_mode=Modes.Exclusive)
        waiter.start(
            wire_pb2.CommandProducer(
                topic=TOPIC, producer_id=1, producer_access_mode=mode, request_id=0
            )
        )
        for _ in range(3):
            await asyncio.sleep(0)
        await waiter.close()
        await turns()
        await holder.ask(wire_pb2.CommandCloseProducer(producer_id=0, request_id=0))
        newcomer = await world.client()
        answer = await newcomer.produce(TOPIC, producer_access_mode=Modes.Exclusive)
        assert isinstance(answer, wire_pb2.CommandProducerSuccess), answer

    play(scenario)


def test_a_reader_that_left_before_it_was_attached_leaves_no_subscription() -> None:
    async def scenario(world: BrokerWorld) -> None:
        topic = await world.topic()
        for turns_given in range(12):
            client = await world.client()
            client.start(
                wire_pb2.CommandSubscribe(
                    topic=TOPIC,
                    subscription=f"reader {turns_given}",
                    subType=SubType.Exclusive,
                    consumer_id=1,
                    durable=False,
                    request_id=0,
                )
            )
            for _ in range(turns_given):
                await asyncio.sleep(0)
            await client.close()
        await turns()
        assert not topic.subscriptions

    play(scenario)


def test_closing_before_the_answer_gives_the_opening_up() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        for kind in range(5):
            client.start(
                wire_pb2.CommandSubscribe(
                    topic=TOPIC,
                    subscription="s",
                    subType=SubType.Exclusive,
                    consumer_id=1,
                    request_id=0,
                )
            )
            client.start(wire_pb2.CommandProducer(topic=TOPIC, producer_id=1, request_id=0))
            for _ in range(kind):
                await asyncio.sleep(0)
            await client.ask(wire_pb2.CommandCloseConsumer(consumer_id=1, request_id=0))
            await client.ask(wire_pb2.CommandCloseProducer(producer_id=1, request_id=0))
        await turns()
        topic = await world.topic()
        assert not topic.producers
        assert not any(each.consumers for each in topic.subscriptions.values())

    play(scenario)


def test_opening_twice_at_once_is_refused_and_asking_again_is_answered_again() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        first = client.start(wire_pb2.CommandProducer(topic=TOPIC, producer_id=1, request_id=0))
        second = client.start(wire_pb2.CommandProducer(topic=TOPIC, producer_id=1, request_id=0))
        refused = await second
        assert isinstance(refused, wire_pb2.CommandError)
        assert refused.error == wire_pb2.ServerError.ServiceNotReady
        opened = await first
        again = await client.produce(TOPIC, 1)
        assert isinstance(opened, wire_pb2.CommandProducerSuccess)
        assert again.producer_name == opened.producer_name

    play(scenario)


def test_receipts_of_acknowledgements_share_a_write_and_wait_for_it() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        for number in range(50):
            client.publish(b"x", sequence_id=number)
        deliveries = [await client.next_delivery() for _ in range(50)]
        world.store.pause()
        receipts = [asyncio.create_task(client.acknowledge_surely(each.id)) for each in deliveries]
        await turns()
        assert not any(receipt.done() for receipt in receipts)
        world.store.resume()
        answers = await asyncio.gather(*receipts)
        assert not any(answer.HasField("error") for answer in answers)
        await world.crash()
        topic = await world.topic()
        assert topic.subscriptions["s"].cursor.backlog == 0

    play(scenario)


def test_too_many_waiting_receipts_stop_the_reading_and_not_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "MAX_RECEIPTS", 10)

    async def scenario(world: BrokerWorld) -> None:
        client, pipe = await world.client_and_pipe()
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, kind=SubType.Shared)
        client.flow(100)
        for number in range(30):
            client.publish(b"x", sequence_id=number)
        deliveries = [await client.next_delivery() for _ in range(30)]
        world.store.pause()
        receipts = [asyncio.create_task(client.acknowledge_surely(each.id)) for each in deliveries]
        await turns()
        assert not pipe.is_read
        world.store.resume()
        await asyncio.gather(*receipts)
        assert pipe.is_read

    play(scenario)


def test_a_connection_that_we_do_not_read_is_not_taken_for_dead() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, pipe = await world.client_and_pipe()
        await client.produce(TOPIC)
        session = next(iter(world.broker.sessions.values()))
        world.store.pause()
        for number in range(40):
            client.publish(bytes(1 << 19), sequence_id=number)
        assert not pipe.is_read
        session._on_tick()
        session._on_tick()
        assert await session.is_alive()
        assert not session.is_closed
        world.store.resume()
        await until(lambda: pipe.is_read)

    play(scenario)


def test_silence_between_two_ticks_ends_a_connection_even_if_it_takes_no_bytes() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, pipe = await world.client_and_pipe()
        await client.subscribe(TOPIC)
        client.answers_pings = False
        pipe.is_stuck = True
        session = next(iter(world.broker.sessions.values()))
        session._on_tick()
        assert not session.is_closed
        session._on_tick()
        assert session.is_closed
        await turns()
        assert not world.broker.sessions
        assert not (await world.topic()).subscriptions["s"].consumers

    play(scenario)


def test_a_consumer_that_takes_no_bytes_is_sent_no_more_than_the_limit() -> None:
    async def scenario(world: BrokerWorld) -> None:
        producer = await world.client()
        await producer.produce(TOPIC)
        for number in range(100):
            producer.publish(bytes(1 << 18), sequence_id=number)
            await producer.next_receipt()
        stuck, pipe = await world.client_and_pipe()
        for number in range(5):
            await stuck.subscribe(TOPIC, f"s{number}", number, initialPosition=Earliest)
        pipe.is_stuck = True
        for number in range(5):
            stuck.flow(1000, number)
        await turns(300)
        assert pipe.unsent_bytes < world.broker.write_limit_bytes + (3 << 20)
        late = await stuck_subscriber(world, pipe)
        assert late == 0
        pipe.get_unstuck()
        for _ in range(500):
            await stuck.next_delivery()

    async def stuck_subscriber(world: BrokerWorld, pipe: object) -> int:
        session = next(each for each in world.broker.sessions.values() if each.is_congested)
        assert session._transport is pipe
        return sum(max(0, each.receiver.room()) for each in session.consumers.values())

    play(scenario)


def test_after_a_broken_frame_nothing_more_is_read_or_said() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, _ = await world.client_and_pipe()
        await client.produce(TOPIC)
        world.store.pause()
        client.publish(b"x")
        session = next(iter(world.broker.sessions.values()))
        client.write(b"\xff" * 100)
        assert session.is_closed
        assert session.connection.state is State.CLOSED
        world.store.resume()
        await turns()
        assert client.receipts.empty()
        await client.closed()

    play(scenario)


def test_connections_share_what_may_be_unsent() -> None:
    async def scenario(world: BrokerWorld) -> None:
        alone = world.broker.write_limit_bytes
        clients = [await world.client() for _ in range(130)]
        total = world.broker.write_limit_bytes * len(clients)
        assert world.broker.write_limit_bytes < alone
        assert total <= world.broker.config.process_write_bytes
        for client in clients:
            await client.close()

    play(scenario)


def test_a_refused_connection_is_told_why() -> None:
    async def scenario(world: BrokerWorld) -> None:
        await world.client()
        with pytest.raises(AssertionError, match="1 connections are open"):
            await world.client()

    play(scenario, "brokerMaxConnections=1")


def test_an_unknown_command_is_refused_and_the_connection_stays() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        answer = await client.ask(wire_pb2.CommandNewTxn())
        assert answer.error == wire_pb2.ServerError.NotAllowedError
        await client.produce(TOPIC)
        client.publish(b"x")
        await client.next_receipt()

    play(scenario)


def test_sends_of_several_producers_in_one_read_go_where_they_belong() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, 1)
        await client.produce(f"{TOPIC}2", 2)
        for number in range(6):
            send = Send()
            send.producer_id, send.sequence_id = 1 + number % 2, number
            client.connection.send_entry(send, entry(b"%d" % number))
        client.flush()
        receipts = [await client.next_receipt() for _ in range(6)]
        by_producer = {
            number: [each.sequence_id for each in receipts if each.producer_id == number]
            for number in (1, 2)
        }
        assert by_producer == {1: [0, 2, 4], 2: [1, 3, 5]}

    play(scenario)
