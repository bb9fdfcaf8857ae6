"""Clients that break the rules, over a real socket: the right error, that connection at most."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pulsar
import pytest

from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import encode_command
from anabranch.protocol.frames import encode_frame
from anabranch.protocol.wire_codec import Send, WireId
from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import connect as connect_client
from tests.interop.exchange import receive
from tests.raw_client import (
    Earliest,
    RawClient,
    SubType,
    connect,
    connected,
    entry,
    reached,
)

Error = wire_pb2.ServerError
Scenario = Callable[[RawClient], Awaitable[None]]

CONNECT = encode_frame(
    encode_command(wire_pb2.CommandConnect(client_version="x", protocol_version=21))
)


def play(broker: BrokerProcess, scenario: Scenario) -> None:
    """Over one connection, while another one must not notice; and then the broker still serves."""

    async def main() -> None:
        async with connected(broker.url) as bystander, connected(broker.url) as client:
            await bystander.produce("bystander", producer_name="")
            await scenario(client)
            bystander.publish(b"still here")
            await bystander.next_receipt()
            assert not bystander.is_gone

    asyncio.run(main())


MALFORMED = {
    "a frame of no size": struct.pack(">I", 0),
    "a frame of a negative size": struct.pack(">i", -5) + b"12345678",
    "a frame over the limit": struct.pack(">I", 6 << 20) + b"\0\0\0\x08",
    "a command over its frame": struct.pack(">II", 8, 200) + b"abcd",
    "no protobuf": struct.pack(">II", 12, 8) + b"\xff" * 8,
    "a command without a type": struct.pack(">II", 4, 0),
    "a type without its command": struct.pack(">II", 6, 2) + b"\x08\x06",
    "a second CONNECT": CONNECT,
    "a server's command": encode_frame(encode_command(wire_pb2.CommandSuccess(request_id=1))),
    "random bytes": bytes(range(255, -1, -1)) * 4,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_command_ends_the_connection(broker: BrokerProcess, data: bytes) -> None:
    async def scenario(client: RawClient) -> None:
        client.write(data)
        await client.closed()

    play(broker, scenario)


@pytest.mark.parametrize(
    "data",
    [
        encode_frame(encode_command(wire_pb2.CommandPing())),
        encode_frame(encode_command(wire_pb2.CommandLookupTopic(topic="t", request_id=1))),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        struct.pack(">I", 300 * 1024),
    ],
    ids=["PING", "LOOKUP", "HTTP", "a huge first frame"],
)
def test_whoever_does_not_connect_first_is_not_served(broker: BrokerProcess, data: bytes) -> None:
    async def scenario(_: RawClient) -> None:
        async with reached(broker.url) as stranger:
            stranger.write(data)
            await stranger.closed()

    play(broker, scenario)


def test_a_send_before_its_producer_ends_the_connection(broker: BrokerProcess) -> None:
    async def scenario(client: RawClient) -> None:
        client.publish(b"x", producer_id=7)
        await client.closed()

    play(broker, scenario)


def test_sends_of_a_producer_that_the_broker_closed_are_passed_over(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(client: RawClient) -> None:
        await client.produce(topic, 1)
        async with connected(broker.url) as other:
            answer = await other.produce(
                topic, producer_access_mode=wire_pb2.ProducerAccessMode.ExclusiveWithFencing
            )
            assert answer.producer_ready
        closed = await client.next_pushed()
        assert isinstance(closed, wire_pb2.CommandCloseProducer)
        client.publish(b"too late", producer_id=1)
        answer = await client.ask(wire_pb2.CommandLookupTopic(topic=topic, request_id=0))
        assert answer.response == wire_pb2.CommandLookupTopicResponse.Connect
        assert client.receipts.empty()

    play(broker, scenario)


class TestUnknownIds:
    def test_closing_them_succeeds(self, broker: BrokerProcess) -> None:
        async def scenario(client: RawClient) -> None:
            for command in (
                wire_pb2.CommandCloseProducer(producer_id=99, request_id=0),
                wire_pb2.CommandCloseConsumer(consumer_id=99, request_id=0),
                wire_pb2.CommandWatchTopicListClose(watcher_id=99, request_id=0),
            ):
                assert isinstance(await client.ask(command), wire_pb2.CommandSuccess)

        play(broker, scenario)

    def test_flow_acks_and_redelivery_of_them_are_passed_over(self, broker: BrokerProcess) -> None:
        async def scenario(client: RawClient) -> None:
            client.flow(10, consumer_id=99)
            client.acknowledge(wire_id(1, 1), consumer_id=99)
            client.send(wire_pb2.CommandRedeliverUnacknowledgedMessages(consumer_id=99))
            assert isinstance(
                await client.ask(wire_pb2.CommandCloseConsumer(consumer_id=99, request_id=0)),
                wire_pb2.CommandSuccess,
            )

        play(broker, scenario)

    def test_questions_about_them_are_refused(self, broker: BrokerProcess) -> None:
        async def scenario(client: RawClient) -> None:
            for command in (
                wire_pb2.CommandGetLastMessageId(consumer_id=99, request_id=0),
                wire_pb2.CommandUnsubscribe(consumer_id=99, request_id=0),
                wire_pb2.CommandSeek(consumer_id=99, request_id=0),
            ):
                answer = await client.ask(command)
                assert answer.error == Error.MetadataError
            stats = await client.ask(wire_pb2.CommandConsumerStats(consumer_id=99, request_id=0))
            assert stats.error_code == Error.ConsumerNotFound

        play(broker, scenario)


def wire_id(ledger: int, number: int) -> WireId:
    found = WireId()
    found.ledger, found.entry = ledger, number
    return found


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (wire_pb2.CommandProducer(topic="a/b"), Error.InvalidTopicName),
        (wire_pb2.CommandProducer(topic="persistent://nobody/here/t"), Error.TopicNotFound),
        (
            wire_pb2.CommandProducer(topic="non-persistent://public/default/t"),
            Error.NotAllowedError,
        ),
        (wire_pb2.CommandSubscribe(topic="t", subscription=" "), Error.MetadataError),
        (
            wire_pb2.CommandSubscribe(
                topic="missing", subscription="s", force_topic_creation=False
            ),
            Error.TopicNotFound,
        ),
        (
            wire_pb2.CommandSubscribe(
                topic="t", subscription="s", replicate_subscription_state=True
            ),
            Error.NotAllowedError,
        ),
        (wire_pb2.CommandSubscribe(topic="t", subscription="pulsar.dedup"), Error.NotAllowedError),
        (
            wire_pb2.CommandSubscribe(
                topic="t", subscription="s", read_compacted=True, subType=SubType.Shared
            ),
            Error.NotAllowedError,
        ),
        (
            wire_pb2.CommandSubscribe(
                topic="t",
                subscription="s",
                subType=SubType.Key_Shared,
                keySharedMeta=wire_pb2.KeySharedMeta(
                    keySharedMode=wire_pb2.KeySharedMode.STICKY,
                    hashRanges=[wire_pb2.IntRange(start=5, end=70_000)],
                ),
            ),
            Error.ConsumerAssignError,
        ),
        (wire_pb2.CommandGetTopicsOfNamespace(namespace="no/where"), Error.MetadataError),
        (wire_pb2.CommandNewTxn(), Error.NotAllowedError),
    ],
    ids=lambda each: type(each).__name__ if hasattr(each, "DESCRIPTOR") else None,
)
def test_requests_that_cannot_be_met_are_refused_by_their_code(
    broker: BrokerProcess, command: Any, error: wire_pb2.ServerError
) -> None:
    async def scenario(client: RawClient) -> None:
        request = type(command)()
        request.CopyFrom(command)
        for field in ("producer_id", "consumer_id"):
            if field in request.DESCRIPTOR.fields_by_name:
                setattr(request, field, 3)
        if isinstance(request, wire_pb2.CommandSubscribe) and not command.HasField("subType"):
            request.subType = SubType.Exclusive
        answer = await client.ask(request)
        assert isinstance(answer, wire_pb2.CommandError), answer
        assert answer.error == error, answer
        assert answer.message

    play(broker, scenario)


def test_a_seek_to_nowhere_is_refused_and_the_consumer_stays(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(client: RawClient) -> None:
        await client.subscribe(topic)
        answer = await client.ask(wire_pb2.CommandSeek(consumer_id=0, request_id=0))
        assert answer.error == Error.MetadataError
        answer = await client.ask(wire_pb2.CommandGetLastMessageId(consumer_id=0, request_id=0))
        assert answer.last_message_id.entryId == 2**64 - 1

    play(broker, scenario)


def test_a_damaged_entry_is_refused_and_the_next_one_stored(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(client: RawClient) -> None:
        await client.produce(topic)
        damaged = bytearray(entry(b"content"))
        damaged[-1] ^= 1
        send = Send()
        send.sequence_id = 1
        client.connection.send_entry(send, bytes(damaged))
        client.flush()
        answer = await client.next_pushed()
        assert (answer.sequence_id, answer.error) == (1, Error.ChecksumError)
        client.publish(b"intact", sequence_id=2)
        assert (await client.next_receipt()).sequence_id == 2

    play(broker, scenario)


def test_a_message_over_the_topics_limit_is_refused_and_the_next_one_stored(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path / "data", settings=["maxMessageSize=10000"]).start()
    try:

        async def scenario(client: RawClient) -> None:
            await client.produce("t")
            client.publish(bytes(15_000), sequence_id=1)
            answer = await client.next_pushed()
            assert (answer.sequence_id, answer.error) == (1, Error.NotAllowedError)
            client.publish(bytes(9_000), sequence_id=2)
            assert (await client.next_receipt()).sequence_id == 2
            # This one is larger than any frame may be.
            client.connection.max_message_size = 1 << 20
            client.publish(bytes(30_000), sequence_id=3)
            await client.closed()

        play(broker, scenario)
    finally:
        assert broker.stop() == 0


def test_acknowledgements_of_what_never_was_change_nothing(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(client: RawClient) -> None:
        await client.produce(topic)
        await client.subscribe(topic, initialPosition=Earliest)
        client.publish(b"x")
        receipt = await client.next_receipt()
        assert receipt.id is not None
        odd = [wire_id(2**62, 5), wire_id(-1, -1), wire_id(receipt.id.ledger, 10**9)]
        answer = await client.acknowledge_surely(*odd)
        assert not answer.HasField("error")
        client.flow(10)
        assert (await client.next_delivery()).id.entry == receipt.id.entry

    play(broker, scenario)


def test_receipts_of_acknowledgements_come_for_each_of_thousands(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(client: RawClient) -> None:
        await client.produce(topic)
        await client.subscribe(topic, kind=SubType.Shared)
        client.flow(10_000)
        for number in range(6000):
            client.publish(b"x", sequence_id=number)
        deliveries = [await client.next_delivery() for _ in range(6000)]
        answers = await asyncio.gather(*(client.acknowledge_surely(d.id) for d in deliveries))
        assert not any(answer.HasField("error") for answer in answers)
        stats = await client.ask(wire_pb2.CommandConsumerStats(consumer_id=0, request_id=0))
        assert (stats.msgBacklog, stats.unackedMessages) == (0, 0)

    play(broker, scenario)


def test_permits_are_counted_in_messages(broker: BrokerProcess, topic: str) -> None:
    async def scenario(client: RawClient) -> None:
        await client.produce(topic)
        await client.subscribe(topic, kind=SubType.Shared)
        for number in range(20):
            client.publish(b"", sequence_id=number, num_messages_in_batch=10)
        for _ in range(20):
            await client.next_receipt()
        client.flow(15)
        first = [await client.next_delivery() for _ in range(2)]
        stats = await client.ask(wire_pb2.CommandConsumerStats(consumer_id=0, request_id=0))
        assert (stats.unackedMessages, stats.availablePermits) == (20, 0)
        assert client.deliveries.empty()
        client.acknowledge(*(each.id for each in first))
        client.flow(6)  # five of which were owed
        await client.next_delivery()
        stats = await client.ask(wire_pb2.CommandConsumerStats(consumer_id=0, request_id=0))
        assert stats.unackedMessages == 10
        assert client.deliveries.empty()

    play(broker, scenario)


def test_a_watch_tells_of_topics_that_come_and_go(broker: BrokerProcess, topic: str) -> None:
    async def scenario(client: RawClient) -> None:
        start = topic.removeprefix("persistent://")[:20]
        watch = wire_pb2.CommandWatchTopicList(
            watcher_id=1, namespace="public/default", topics_pattern=f"{start}.*", request_id=0
        )
        first = await client.ask(watch)
        known = set(first.topic)
        await client.produce(f"{topic}-new")
        update = await client.next_pushed()
        assert set(update.new_topics) - known == {f"{topic}-new"}
        assert list(update.deleted_topics) == []
        watch.topics_pattern = "("
        assert (await client.ask(watch)).error == Error.InvalidTopicName
        watch.topics_pattern = "x" * 51
        assert (await client.ask(watch)).error == Error.NotAllowedError

    play(broker, scenario)


def test_a_waiting_producer_that_leaves_keeps_nobody_out(broker: BrokerProcess, topic: str) -> None:
    modes = wire_pb2.ProducerAccessMode

    async def scenario(holder: RawClient) -> None:
        await holder.produce(topic, producer_access_mode=modes.Exclusive)
        async with connected(broker.url) as waiter:
            answer = await waiter.produce(topic, producer_access_mode=modes.WaitForExclusive)
            assert not answer.producer_ready
        await holder.ask(wire_pb2.CommandCloseProducer(producer_id=0, request_id=0))
        async with connected(broker.url) as newcomer:
            answer = await newcomer.produce(topic, producer_access_mode=modes.Exclusive)
            assert isinstance(answer, wire_pb2.CommandProducerSuccess), answer

    play(broker, scenario)


def test_a_watched_and_closed_opening_leaves_nothing_behind(
    broker: BrokerProcess, topic: str
) -> None:
    """SUBSCRIBE, and CLOSE before its answer: whatever came of it, the name is free."""

    async def scenario(client: RawClient) -> None:
        for _ in range(20):
            subscribed = client.start(
                wire_pb2.CommandSubscribe(
                    topic=topic,
                    subscription="s",
                    subType=SubType.Exclusive,
                    consumer_id=1,
                    request_id=0,
                )
            )
            await client.ask(wire_pb2.CommandCloseConsumer(consumer_id=1, request_id=0))
            subscribed.cancel()
        async with connected(broker.url) as other:
            assert isinstance(await other.subscribe(topic), wire_pb2.CommandSuccess)

    play(broker, scenario)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Few connections, short silences."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("impatient") / "data",
        settings=["keepAliveIntervalSeconds=1", "brokerMaxConnections=20"],
    ).start()
    yield process
    assert process.stop() == 0


class TestConnections:
    def test_one_that_never_speaks_is_closed(self, impatient: BrokerProcess) -> None:
        async def main() -> None:
            async with reached(impatient.url) as silent:
                await silent.closed()

        asyncio.run(main())

    def test_one_that_answers_no_ping_is_closed_and_its_names_are_free(
        self, impatient: BrokerProcess
    ) -> None:
        async def main() -> None:
            async with connected(impatient.url) as dead, connected(impatient.url) as alive:
                await dead.subscribe("t")
                await dead.produce("t", producer_name="p")
                dead.answers_pings = False
                await dead.closed()
                assert isinstance(await alive.subscribe("t"), wire_pb2.CommandSuccess)
                answer = await alive.produce("t", producer_name="p")
                assert isinstance(answer, wire_pb2.CommandProducerSuccess)
                assert not alive.is_gone

        asyncio.run(main())

    def test_one_that_reads_nothing_is_closed_too(self, impatient: BrokerProcess) -> None:
        """Though megabytes wait for it: they are given up."""

        async def main() -> None:
            async with connected(impatient.url) as stuck, connected(impatient.url) as alive:
                await alive.produce("full")
                await stuck.subscribe("full")
                for number in range(200):
                    alive.publish(bytes(100_000), sequence_id=number)
                for _ in range(200):
                    await alive.next_receipt()
                stuck.flow(1000)
                stuck.pause()
                answer = await alive.subscribe("full")
                while isinstance(answer, wire_pb2.CommandError):
                    assert answer.error == Error.ConsumerBusy
                    answer = await alive.subscribe("full")

        asyncio.run(main())

    def test_a_flood_is_stopped_at_the_limit_and_those_inside_are_served(
        self, impatient: BrokerProcess
    ) -> None:
        async def main() -> None:
            async with connected(impatient.url) as inside:
                await inside.produce("t")
                async with AsyncExitStack() as stack:
                    for _ in range(60):
                        last = await stack.enter_async_context(reached(impatient.url))
                    last.send(wire_pb2.CommandConnect(client_version="x", protocol_version=21))
                    refusal = await last.next_pushed()
                    assert isinstance(refusal, wire_pb2.CommandError)
                    assert refusal.error == Error.NotAllowedError
                    await last.closed()
                    inside.publish(b"x")
                    await inside.next_receipt()

        asyncio.run(main())

    def test_after_a_flood_others_get_in(self, impatient: BrokerProcess) -> None:
        client = connect_client(impatient)
        consumer = client.subscribe("after", "s")
        client.create_producer("after").send(b"x")
        assert receive(consumer, 1) == ["x"]
        client.close()


def resident_mb(broker: BrokerProcess) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_consumers_that_never_read_do_not_fill_the_brokers_memory(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()

    async def publish(producer: RawClient, count: int) -> None:
        for number in range(count):
            producer.publish(bytes(500_000), sequence_id=number)
            await producer.next_receipt()

    async def subscribe(name: str) -> RawClient:
        client = await connect(broker.url)
        await client.handshake()
        await client.subscribe("t", name, initialPosition=Earliest)
        return client

    async def main() -> None:
        async with connected(broker.url) as producer:
            await producer.produce("t")
            stuck = [await subscribe(f"s{number}") for number in range(20)]
            await publish(producer, 200)
            before = resident_mb(broker)
            for each in stuck:
                each.pause()
                each.flow(10_000)
            # Each of them is offered 100 MB. The round trips show that the broker lives.
            await publish(producer, 30)
            assert resident_mb(broker) - before < 20 * 8 + 50
            for each in stuck:
                await each.close()

    try:
        asyncio.run(main())
    finally:
        assert broker.stop() == 0


def test_a_noisy_producer_does_not_starve_the_others(broker: BrokerProcess, topic: str) -> None:
    """While one floods, another's sends are answered in a fraction of the flood's time."""

    async def main() -> None:
        async with connected(broker.url) as noisy, connected(broker.url) as quiet:
            await noisy.produce(f"{topic}-noisy")
            await quiet.produce(f"{topic}-quiet")
            for number in range(10_000):
                noisy.publish(bytes(10_000), sequence_id=number)
            for number in range(5):
                quiet.publish(b"x", sequence_id=number)
                await quiet.next_receipt()
            assert noisy.receipts.qsize() < 10_000
            for _ in range(10_000):
                await noisy.next_receipt()

    asyncio.run(main())


def test_the_real_client_is_served_while_others_misbehave(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    async def misbehave() -> None:
        for data in MALFORMED.values():
            async with connected(broker.url) as bad:
                bad.write(data)
                await bad.closed()

    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    asyncio.run(misbehave())
    producer.send(b"after")
    assert receive(consumer, 2) == ["before", "after"]
