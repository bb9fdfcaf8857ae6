"""Partitions, patterns, ends and compactions, through the real client and the REST API."""

from __future__ import annotations

import re
import threading
import time
import urllib.error

import pulsar
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import (
    PATIENT_MS,
    Admin,
    assert_silent,
    connect,
    drain,
    path_of,
    receive,
    send_all,
    texts,
)

EARLIEST = pulsar.InitialPosition.Earliest
Type = pulsar.ConsumerType


@pytest.fixture
def admin(broker: BrokerProcess) -> Admin:
    return Admin(broker.http_url)


def test_a_partitioned_topic_is_produced_to_and_consumed_as_one(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{path_of(topic)}/partitions", 3)
    names = [f"{topic}-partition-{index}" for index in range(3)]
    assert client.get_topic_partitions(topic) == names
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, texts(30))
    found, seen = [], set()
    for _ in range(30):
        message = consumer.receive(PATIENT_MS)
        consumer.acknowledge(message)
        found.append(message.data().decode())
        seen.add((message.topic_name(), message.message_id().partition()))
    assert sorted(found) == sorted(texts(30))
    assert seen == {(name, index) for index, name in enumerate(names)}


def test_a_key_always_goes_to_the_same_partition(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{path_of(topic)}/partitions", 4)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(40):
        producer.send(b"%d" % number, partition_key=f"key {number % 8}")
    by_key: dict[str, list[int]] = {}
    partitions: dict[str, set[int]] = {}
    for _ in range(40):
        message = consumer.receive(PATIENT_MS)
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
        partitions.setdefault(message.partition_key(), set()).add(message.message_id().partition())
    assert by_key == {f"key {key}": list(range(key, 40, 8)) for key in range(8)}
    assert all(len(each) == 1 for each in partitions.values())


def test_added_partitions_lose_nothing_for_subscriptions_that_exist(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{path_of(topic)}/partitions", 1)
    consumer = client.subscribe(topic, "s")
    consumer.close()
    admin.post(f"{path_of(topic)}/partitions", 3)
    assert len(client.get_topic_partitions(topic)) == 3
    send_all(client.create_producer(topic), texts(9))
    assert sorted(receive(client.subscribe(topic, "s"), 9)) == texts(9)


def test_partitions_cannot_be_taken_away(admin: Admin, topic: str) -> None:
    admin.put(f"{path_of(topic)}/partitions", 3)
    with pytest.raises(urllib.error.HTTPError, match="422"):
        admin.post(f"{path_of(topic)}/partitions", 2)


def test_a_reader_reads_one_partition(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{path_of(topic)}/partitions", 2)
    send_all(client.create_producer(f"{topic}-partition-1"), texts(3))
    reader = client.create_reader(f"{topic}-partition-1", pulsar.MessageId.earliest)
    assert [reader.read_next(PATIENT_MS).data().decode() for _ in range(3)] == texts(3)


def test_a_pattern_stands_for_every_topic_it_matches(client: pulsar.Client, topic: str) -> None:
    matching = [client.create_producer(f"{topic}-{name}") for name in ("one", "two")]
    other = client.create_producer(topic.replace("pattern", "other"))
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s")
    for producer in (*matching, other):
        producer.send(producer.topic().encode())
    assert sorted(receive(consumer, 2)) == [f"{topic}-one", f"{topic}-two"]
    assert_silent(consumer)


def test_several_topics_are_consumed_together(client: pulsar.Client, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    consumer = client.subscribe(names, "s")
    for name in names:
        client.create_producer(name).send(name.encode())
    assert sorted(receive(consumer, 3)) == names


def test_a_sealed_topic_takes_nothing_more_and_says_where_it_ends(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    last = [producer.send(text.encode()) for text in texts(5)][-1]
    end = admin.post(f"{path_of(topic)}/terminate")
    assert (end["ledgerId"], end["entryId"]) == (last.ledger_id(), last.entry_id())
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"too late")
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert receive(consumer, 5) == texts(5)
    assert_silent(consumer)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(PATIENT_MS).data().decode() for _ in range(5)] == texts(5)
    assert not reader.has_message_available()


def test_an_unloaded_topic_is_served_again_and_nobody_notices(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, texts(5))
    assert receive(consumer, 3) == texts(3)
    admin.put(f"{path_of(topic)}/unload")
    send_all(producer, texts(5, start=5))
    # Acknowledgements that the client still held back are lost with the consumer they were of.
    found = receive(consumer, 7) + drain(consumer)
    assert list(dict.fromkeys(found))[-7:] == texts(7, start=3)


def test_a_deleted_topic_is_gone_with_its_messages(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"x")
    producer.close()
    admin.call("DELETE", path_of(topic))
    assert drain(client.subscribe(topic, "s", initial_position=EARLIEST)) == []


def test_a_compacted_topic_shows_the_last_message_of_every_key(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    compacted = client.subscribe(
        topic, "compacted", is_read_compacted=True, initial_position=EARLIEST
    )
    compacted.close()
    producer = client.create_producer(topic)
    batching = client.create_producer(topic, batching_enabled=True)
    for number in range(10):
        producer.send(b"%d" % number, partition_key=f"key {number % 2}")
    for number in range(10, 16):
        batching.send_async(b"%d" % number, lambda *_: None, partition_key=f"key {number % 3}")
    batching.flush()
    producer.send(b"", partition_key="key 1")  # a tombstone
    producer.send(b"without a key")
    admin.put(f"{path_of(topic)}/compaction")
    until_compacted(admin, topic)
    producer.send(b"behind", partition_key="key 0")
    compacted = client.subscribe(
        topic, "compacted", is_read_compacted=True, initial_position=EARLIEST
    )
    found = []
    for _ in range(4):
        message = compacted.receive(PATIENT_MS)
        found.append((message.partition_key(), message.data()))
    assert found == [
        ("key 2", b"14"),
        ("key 0", b"15"),
        ("", b"without a key"),
        ("key 0", b"behind"),
    ]
    assert_silent(compacted)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert [reader.read_next(PATIENT_MS).data() for _ in range(4)] == [each for _, each in found]


def until_compacted(admin: Admin, topic: str) -> None:
    deadline = time.monotonic() + 30
    while (status := admin.get(f"{path_of(topic)}/compaction")["status"]) != "SUCCESS":
        assert status in ("NOT_RUN", "RUNNING"), status
        assert time.monotonic() < deadline, "compaction never ended"


def test_compacted_reads_are_for_one_consumer_at_a_time(client: pulsar.Client, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s", consumer_type=Type.Shared, is_read_compacted=True)


def test_topics_are_not_made_where_that_is_forbidden(broker: BrokerProcess, admin: Admin) -> None:
    admin.put("namespaces/public/closed")
    admin.post("namespaces/public/closed/autoTopicCreation", {"allowAutoTopicCreation": False})
    client = connect(broker, timeout_seconds=3)
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer("persistent://public/closed/t")
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe("persistent://public/closed/t", "s")
    admin.put("persistent/public/closed/t")
    client.create_producer("persistent://public/closed/t").send(b"x")
    client.close()


def test_illegal_names_and_unknown_namespaces_are_refused(broker: BrokerProcess) -> None:
    client = connect(broker, timeout_seconds=3)
    # To this client such a name has a cluster in it, and our refusal is worth another try.
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/default/a/b/c")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/nowhere/t")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("non-persistent://public/default/t")
    client.close()


def test_the_end_of_a_topic_reaches_its_consumers(
    broker: BrokerProcess, client: pulsar.Client, admin: Admin, topic: str
) -> None:
    """A listener that waits for the last message of a sealed topic gets it, and no error."""
    seen: list[bytes] = []
    done = threading.Event()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        seen.append(message.data())
        consumer.acknowledge(message)
        if len(seen) == 3:
            done.set()

    client.subscribe(topic, "s", message_listener=listen)
    send_all(client.create_producer(topic), texts(3))
    admin.post(f"{path_of(topic)}/terminate")
    assert done.wait(20)
    assert seen == [text.encode() for text in texts(3)]
