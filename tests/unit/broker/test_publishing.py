"""Sends, from the connection to the ledger and back, with a storage that can be held and broken."""

from __future__ import annotations

from dataclasses import replace

from anabranch.protocol import wire_pb2
from anabranch.protocol.wire_codec import Send
from tests.broker_world import TOPIC, BrokerWorld, play
from tests.managed_world import read_entries, turns, until
from tests.raw_client import RawClient, entry

DEDUPLICATE = "brokerDeduplicationEnabled=true"


async def contents(world: BrokerWorld) -> list[bytes]:
    topic = await world.topic()
    return [bytes(each.body)[-1:] for each in await read_entries(topic.ledger)]


async def sequence_ids(client: RawClient, count: int) -> list[int]:
    return [(await client.next_receipt()).sequence_id for _ in range(count)]


def test_receipts_come_in_the_order_of_the_sends_whatever_becomes_of_them() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        for number in range(3):
            client.publish(b"%d" % number, sequence_id=number)
        damaged = bytearray(entry(b"x", sequence_id=3))
        damaged[-1] ^= 1
        send = Send()
        send.sequence_id = 3
        client.connection.send_entry(send, bytes(damaged))
        client.publish(b"4", sequence_id=4)
        assert client.pushed.empty()  # the refusal waits for what was sent before it
        assert await sequence_ids(client, 3) == [0, 1, 2]
        refusal = await client.next_pushed()
        assert (refusal.sequence_id, refusal.error) == (3, wire_pb2.ServerError.ChecksumError)
        assert await sequence_ids(client, 1) == [4]
        assert await contents(world) == [b"0", b"1", b"2", b"4"]

    play(scenario)


def test_nothing_overtakes_a_send_that_storage_failed() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        client.publish(b"0", sequence_id=0)
        await client.next_receipt()
        world.store.fail_next_commit(kept_entries=0)
        client.publish(b"1", sequence_id=1)
        client.publish(b"2", sequence_id=2)
        closed = await client.next_pushed()
        assert isinstance(closed, wire_pb2.CommandCloseProducer)
        client.publish(b"3", sequence_id=3)  # it had not heard of that
        await client.produce(TOPIC, epoch=1)
        for number in (1, 2, 3):
            client.publish(b"%d" % number, sequence_id=number)
        assert await sequence_ids(client, 3) == [1, 2, 3]
        assert await contents(world) == [b"0", b"1", b"2", b"3"]

    play(scenario)


def test_with_deduplication_a_send_of_unknown_outcome_is_stored_once() -> None:
    """Part of the failed commit did reach the disk: what is sent again must find it there."""

    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        for number in range(3):
            client.publish(b"%d" % number, sequence_id=number, producer_name="p")
        await sequence_ids(client, 3)
        world.store.fail_next_commit(kept_entries=1)
        world.store.pause()
        client.publish(b"3", sequence_id=3, producer_name="p")
        client.publish(b"4", sequence_id=4, producer_name="p")
        world.store.resume()
        assert isinstance(await client.next_pushed(), wire_pb2.CommandCloseProducer)
        answer = await client.produce(TOPIC, producer_name="p", epoch=1)
        assert answer.last_sequence_id == 3
        for number in (3, 4, 5):
            client.publish(b"%d" % number, sequence_id=number, producer_name="p")
        receipts = [await client.next_receipt() for _ in range(3)]
        assert [each.sequence_id for each in receipts] == [3, 4, 5]
        assert receipts[0].id is not None
        assert receipts[0].id.entry == -1  # stored before
        assert await contents(world) == [b"%d" % number for number in range(6)]

    play(scenario, DEDUPLICATE)


def test_an_unloaded_topic_answers_what_it_took() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        client.publish(b"0", sequence_id=0)
        await client.next_receipt()
        world.store.pause()
        client.publish(b"1", sequence_id=1)
        topic = await world.topic()
        topic.close_producer(next(iter(topic.producers.values())), "test")
        client.publish(b"2", sequence_id=2)  # too late, and not for this producer to take
        await turns()
        assert client.pushed.empty()
        world.store.resume()
        assert await sequence_ids(client, 1) == [1]
        assert isinstance(await client.next_pushed(), wire_pb2.CommandCloseProducer)
        assert await contents(world) == [b"0", b"1"]

    play(scenario)


def test_a_deduplicating_topic_remembers_across_a_crash() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, producer_name="p")
        for number in range(10):
            client.publish(b"%d" % number, sequence_id=number, producer_name="p")
        await sequence_ids(client, 10)
        await world.crash()
        client = await world.client()
        answer = await client.produce(TOPIC, producer_name="p")
        assert answer.last_sequence_id == 9

    play(scenario, DEDUPLICATE)


def test_reading_stops_while_too_much_is_on_its_way_and_then_goes_on() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, pipe = await world.client_and_pipe()
        await client.produce(TOPIC)
        world.store.pause()
        for number in range(40):
            client.publish(bytes(1 << 19), sequence_id=number)
        assert not pipe.is_read
        assert world.broker.budget.taken_bytes < 20 << 20
        world.store.resume()
        assert await sequence_ids(client, 40) == list(range(40))
        assert pipe.is_read
        assert world.broker.budget.taken_bytes == 0

    play(scenario)


def test_the_budget_is_given_back_when_the_connection_is_gone() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        world.store.pause()
        for number in range(10):
            client.publish(bytes(1 << 19), sequence_id=number)
        await client.close()
        await turns()
        world.store.resume()
        await until(lambda: world.broker.budget.taken_bytes == 0)

    play(scenario)


def test_whoever_publishes_faster_than_the_topic_allows_is_not_read() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client, pipe = await world.client_and_pipe()
        await client.produce(TOPIC)
        for number in range(9):
            client.publish(b"x", sequence_id=number)
        assert pipe.is_read
        client.publish(b"x", sequence_id=9)
        assert not pipe.is_read
        assert await sequence_ids(client, 10) == list(range(10))
        world.clock.now_ms += 1000
        client.publish(b"x", sequence_id=10)
        assert await sequence_ids(client, 1) == [10]

    play(scenario, "maxPublishRatePerTopicInMessages=10")


def test_a_transaction_is_refused_and_says_so() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        send = Send()
        send.has_txn, send.txn_least, send.txn_most = True, 1, 1
        client.connection.send_entry(send, entry(b"x"))
        client.flush()
        refusal = await client.next_pushed()
        assert refusal.error == wire_pb2.ServerError.NotAllowedError
        assert "transactions" in refusal.message

    play(scenario)


def test_a_delay_over_the_limit_is_refused_and_a_shorter_one_taken() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC)
        now_ms = world.clock.now_ms
        client.publish(b"0", sequence_id=0, deliver_at_time=now_ms + 60_001)
        refusal = await client.next_pushed()
        assert refusal.error == wire_pb2.ServerError.NotAllowedError
        client.publish(b"1", sequence_id=1, deliver_at_time=now_ms + 60_000)
        client.publish(b"2", sequence_id=2)
        assert await sequence_ids(client, 2) == [1, 2]

    play(scenario, "delayedDeliveryMaxDelayInMillis=60000")


def test_where_encryption_is_required_each_send_must_be_encrypted() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        answer = await client.produce(TOPIC)
        assert answer.error == wire_pb2.ServerError.MetadataError
        await client.produce(TOPIC, encrypted=True)
        client.publish(b"0", sequence_id=0)
        assert (await client.next_pushed()).error == wire_pb2.ServerError.MetadataError
        keys = [wire_pb2.EncryptionKeys(key="k", value=b"v")]
        client.publish(b"1", sequence_id=1, encryption_keys=keys)
        assert await sequence_ids(client, 1) == [1]

    play(scenario, "encryptionRequireOnProducer=true")


def test_when_encryption_becomes_required_plain_producers_are_sent_away() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.produce(TOPIC, 1)
        await client.produce(TOPIC, 2, encrypted=True)
        topic = await world.topic()
        await topic.apply_policies(replace(topic.policies, is_encryption_required=True))
        closed = await client.next_pushed()
        assert (type(closed), closed.producer_id) == (wire_pb2.CommandCloseProducer, 1)
        assert len(topic.producers) == 1

    play(scenario)
