"""What the real client can do with a producer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pulsar.asyncio
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import (
    PATIENT_MS,
    Admin,
    assert_silent,
    connect,
    drain,
    receive,
    send_all,
    texts,
)

EARLIEST = pulsar.InitialPosition.Earliest


def test_messages_are_received_in_the_order_they_were_sent(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    ids = [producer.send(content.encode()) for content in texts(20)]
    assert [(each.ledger_id(), each.entry_id()) for each in ids] == sorted(
        {(each.ledger_id(), each.entry_id()) for each in ids}
    )
    assert receive(consumer, 20) == texts(20)
    assert_silent(consumer)


def test_async_sends_are_acknowledged_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, max_pending_messages=5000)
    receipts: list[tuple[int, int]] = []

    def note(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        assert result == pulsar.Result.Ok
        receipts.append((message_id.ledger_id(), message_id.entry_id()))

    for content in texts(1000):
        producer.send_async(content.encode(), note)
    producer.flush()
    assert len(receipts) == 1000
    assert receipts == sorted(set(receipts))
    assert receive(consumer, 1000) == texts(1000)


def test_the_asyncio_client_produces_and_consumes(broker: BrokerProcess, topic: str) -> None:
    async def scenario() -> list[bytes]:
        client = pulsar.asyncio.Client(broker.url)
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        await asyncio.gather(*(producer.send(content.encode()) for content in texts(50)))
        found = []
        for _ in range(50):
            message = await consumer.receive()
            await consumer.acknowledge(message)
            found.append(message.data())
        await client.close()
        return found

    assert sorted(asyncio.run(scenario())) == sorted(text.encode() for text in texts(50))


@pytest.mark.parametrize("kind", ["Default", "KeyBased"])
def test_batches_come_out_as_they_went_in(client: pulsar.Client, topic: str, kind: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=50,
        batching_max_publish_delay_ms=100,
        batching_type=getattr(pulsar.BatchingType, kind),
    )
    for number in range(200):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key=f"key {number % 5}")
    producer.flush()
    by_key: dict[str, list[int]] = {}
    entries = set()
    for _ in range(200):
        message = consumer.receive(PATIENT_MS)
        consumer.acknowledge(message)
        entries.add((message.message_id().ledger_id(), message.message_id().entry_id()))
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
    assert by_key == {f"key {key}": list(range(key, 200, 5)) for key in range(5)}
    assert len(entries) < 200


@pytest.mark.parametrize("kind", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("is_batched", [True, False])
def test_compressed_messages_come_out_whole(
    client: pulsar.Client, topic: str, kind: str, is_batched: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic,
        compression_type=getattr(pulsar.CompressionType, kind),
        batching_enabled=is_batched,
    )
    contents = [f"{number} " + "words and more words " * 500 for number in range(10)]
    send_all(producer, contents)
    assert receive(consumer, 10) == contents


def test_a_message_larger_than_the_limit_travels_in_chunks(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, chunking_enabled=True)
    content = bytes(range(256)) * (12 << 12)
    message_id = producer.send(content)
    producer.send(b"small")
    message = consumer.receive(PATIENT_MS)
    assert message.data() == content
    assert message.message_id() == message_id
    consumer.acknowledge(message)
    assert receive(consumer, 1) == ["small"]
    consumer.close()
    assert_silent(client.subscribe(topic, "s"))


def test_a_message_over_the_limit_is_refused_and_the_next_one_taken(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5 * 1024 * 1024 + 1))
    producer.send(b"small")
    assert receive(consumer, 1) == ["small"]
    largest = bytes(5 * 1024 * 1024 - 200)
    producer.send(largest)
    assert consumer.receive(PATIENT_MS).data() == largest


def test_keys_properties_and_times_are_carried(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="the producer", properties={"p": "1"})
    before_ms = int(time.time() * 1000)
    producer.send(
        b"x",
        properties={"colour": "blue", "empty": ""},
        partition_key="the key",
        ordering_key="the order",
        event_timestamp=12345,
        sequence_id=77,
    )
    message = consumer.receive(PATIENT_MS)
    assert message.properties() == {"colour": "blue", "empty": ""}
    assert message.partition_key() == "the key"
    assert message.ordering_key() == "the order"
    assert message.event_timestamp() == 12345
    assert message.publish_timestamp() >= before_ms - 1
    assert message.topic_name() == topic
    assert message.producer_name() == "the producer"
    assert message.redelivery_count() == 0
    assert producer.last_sequence_id() == 77


def test_a_delayed_message_waits_for_its_time_on_a_shared_subscription(
    client: pulsar.Client, topic: str
) -> None:
    shared = client.subscribe(topic, "shared", consumer_type=pulsar.ConsumerType.Shared)
    alone = client.subscribe(topic, "alone")
    producer = client.create_producer(topic)
    due_ms = int(time.time() * 1000) + 1200
    producer.send(b"late", deliver_at=due_ms)
    producer.send(b"now")
    assert receive(shared, 1) == ["now"]
    assert receive(alone, 2) == ["late", "now"]
    message = shared.receive(PATIENT_MS)
    assert message.data() == b"late"
    assert time.time() * 1000 >= due_ms


def test_producers_are_named_and_names_are_unique(client: pulsar.Client, topic: str) -> None:
    named = client.create_producer(topic, producer_name="a name")
    assert named.producer_name() == "a name"
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="a name")
    made_up = {client.create_producer(topic).producer_name() for _ in range(5)}
    assert len(made_up) == 5
    named.close()
    assert client.create_producer(topic, producer_name="a name").producer_name() == "a name"


class TestAccessModes:
    modes = pulsar.ProducerAccessMode

    def test_an_exclusive_producer_keeps_others_out(
        self, client: pulsar.Client, topic: str
    ) -> None:
        holder = client.create_producer(topic, access_mode=self.modes.Exclusive)
        with pytest.raises(pulsar.ProducerFenced):
            client.create_producer(topic, access_mode=self.modes.Exclusive)
        with pytest.raises(pulsar.ProducerBusy):
            client.create_producer(topic)
        holder.send(b"x")
        holder.close()
        client.create_producer(topic).send(b"y")

    def test_fencing_takes_the_topic_from_its_holder(
        self, client: pulsar.Client, topic: str
    ) -> None:
        consumer = client.subscribe(topic, "s")
        old = client.create_producer(topic, access_mode=self.modes.Exclusive)
        old.send(b"old")
        new = client.create_producer(topic, access_mode=self.modes.ExclusiveWithFencing)
        new.send(b"new")
        with pytest.raises(pulsar.PulsarException):
            old.send(b"too late")
        assert drain(consumer) == ["old", "new"]

    def test_a_waiting_producer_gets_the_topic_when_it_is_free(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        async def scenario() -> bytes:
            client = pulsar.asyncio.Client(broker.url)
            consumer = await client.subscribe(topic, "s")
            holder = await client.create_producer(topic, access_mode=self.modes.Exclusive)
            waiting = asyncio.ensure_future(
                client.create_producer(topic, access_mode=self.modes.WaitForExclusive)
            )
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.3)
            await holder.close()
            await (await waiting).send(b"mine now")
            message = await consumer.receive()
            await client.close()
            return bytes(message.data())

        assert asyncio.run(scenario()) == b"mine now"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Deduplicates, and lets in encrypted producers only."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("strict") / "data",
        settings=["brokerDeduplicationEnabled=true"],
    ).start()
    yield process
    assert process.stop() == 0


class TestDeduplication:
    def test_a_sequence_id_is_stored_once_even_across_a_restart(
        self, strict: BrokerProcess, topic: str
    ) -> None:
        client = connect(strict)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic, producer_name="p")
        for number in (1, 2, 3, 2, 1, 3):
            producer.send(b"%d" % number, sequence_id=number)
        assert drain(consumer) == ["1", "2", "3"]
        client.close()
        assert strict.stop() == 0
        strict.start()
        client = connect(strict)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic, producer_name="p")
        assert producer.last_sequence_id() == 3
        for number in (2, 3, 4):
            producer.send(b"%d" % number, sequence_id=number)
        assert drain(consumer) == ["4"]
        client.close()

    def test_a_killed_broker_still_knows_what_it_stored(
        self, strict: BrokerProcess, topic: str
    ) -> None:
        client = connect(strict)
        producer = client.create_producer(topic, producer_name="p")
        send_all(producer, texts(300))
        client.close()
        strict.kill()
        strict.start()
        client = connect(strict)
        consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = client.create_producer(topic, producer_name="p")
        assert producer.last_sequence_id() == 299
        producer.send(b"again", sequence_id=299)
        producer.send(b"new", sequence_id=300)
        assert drain(consumer) == [*texts(300), "new"]
        client.close()

    def test_chunks_of_one_message_are_no_doubles_of_each_other(
        self, strict: BrokerProcess, topic: str
    ) -> None:
        client = connect(strict)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic, producer_name="p", chunking_enabled=True)
        content = "many words " * (1 << 20)
        producer.send(content.encode())
        producer.send(b"behind")
        assert receive(consumer, 2) == [content, "behind"]
        client.close()


def make_keys(directory: Path) -> tuple[str, str]:
    """A key pair, as an administrator would make one."""
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make keys with")
    private, public = str(directory / "private.pem"), str(directory / "public.pem")
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(
        ["openssl", "rsa", "-in", private, "-pubout", "-out", public],
        check=True,
        capture_output=True,
    )
    return public, private


def test_encrypted_messages_are_for_those_with_the_key(
    client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    reader = pulsar.CryptoKeyReader(*make_keys(tmp_path))
    plain = client.subscribe(
        topic, "plain", crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME
    )
    with_key = client.subscribe(topic, "with key", crypto_key_reader=reader)
    producer = client.create_producer(
        topic, encryption_key="the key", crypto_key_reader=reader, batching_enabled=True
    )
    send_all(producer, texts(3))
    assert receive(with_key, 3) == texts(3)
    message = plain.receive(PATIENT_MS)
    context = message.encryption_context()
    assert context is not None
    assert context.is_decryption_failed()
    assert b"message 0" not in message.data()


def test_where_encryption_is_required_plain_producers_are_refused(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    admin = Admin(broker.http_url)
    admin.put("namespaces/public/secret")
    admin.post("namespaces/public/secret/encryptionRequired", True)
    topic = "persistent://public/secret/t"
    client = connect(broker, timeout_seconds=2)
    # The client takes this refusal for one that may pass, and tries until its time is up.
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    reader = pulsar.CryptoKeyReader(*make_keys(tmp_path))
    consumer = client.subscribe(topic, "s", crypto_key_reader=reader)
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=reader)
    producer.send(b"secret")
    assert receive(consumer, 1) == ["secret"]
    client.close()
