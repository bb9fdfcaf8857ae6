"""What the real client can do with a consumer, on each type of subscription."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pulsar
import pytest

from tests.interop.exchange import (
    PATIENT_MS,
    QUIET_MS,
    assert_silent,
    drain,
    receive,
    send_all,
    texts,
)

EARLIEST = pulsar.InitialPosition.Earliest
LATEST = pulsar.InitialPosition.Latest
Type = pulsar.ConsumerType


def test_an_exclusive_subscription_has_one_consumer(client: pulsar.Client, topic: str) -> None:
    holder = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", consumer_type=Type.Shared)
    holder.close()
    client.subscribe(topic, "s", consumer_type=Type.Shared)
    client.subscribe(topic, "s", consumer_type=Type.Shared)


def test_a_failover_subscription_hands_over_what_was_not_acknowledged(
    client: pulsar.Client, topic: str
) -> None:
    first = client.subscribe(topic, "s", consumer_type=Type.Failover, consumer_name="a")
    second = client.subscribe(topic, "s", consumer_type=Type.Failover, consumer_name="b")
    send_all(client.create_producer(topic), texts(10))
    active, standby = (first, second) if is_fed(first) else (second, first)
    active.redeliver_unacknowledged_messages()
    assert receive(active, 2) == texts(2)
    assert_silent(standby)
    active.close()
    assert receive(standby, 8) == texts(8, start=2)


def is_fed(consumer: pulsar.Consumer) -> bool:
    try:
        consumer.receive(1000)
    except pulsar.Timeout:
        return False
    return True


def test_a_shared_subscription_spreads_its_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, "s", consumer_type=Type.Shared, receiver_queue_size=20)
        for _ in range(3)
    ]
    send_all(client.create_producer(topic), texts(150))
    shares = [drain(each) for each in consumers]
    assert sorted(text for share in shares for text in share) == sorted(texts(150))
    assert all(shares)


def test_what_a_shared_consumer_leaves_behind_goes_to_the_others(
    client: pulsar.Client, topic: str
) -> None:
    leaver = client.subscribe(topic, "s", consumer_type=Type.Shared)
    send_all(client.create_producer(topic), texts(20))
    receive(leaver, 5)
    stayer = client.subscribe(topic, "s", consumer_type=Type.Shared)
    leaver.close()
    found = drain(stayer)
    assert sorted(found) == sorted(texts(15, start=5))
    assert_silent(stayer)


class TestKeyShared:
    def test_a_key_stays_with_one_consumer(self, client: pulsar.Client, topic: str) -> None:
        consumers = [client.subscribe(topic, "s", consumer_type=Type.KeyShared) for _ in range(3)]
        producer = client.create_producer(topic)
        send_keyed(producer, keys=20, each=10)
        seen = [keyed(each) for each in consumers]
        owned = [set(each) for each in seen]
        assert set.union(*owned) == {f"key {key}" for key in range(20)}
        assert sum(map(len, owned)) == 20
        assert len([each for each in owned if each]) > 1
        for each in seen:
            assert all(numbers == list(range(10)) for numbers in each.values())

    def test_sticky_consumers_get_the_ranges_they_named(
        self, client: pulsar.Client, topic: str
    ) -> None:
        def subscribe(*ranges: tuple[int, int]) -> pulsar.Consumer:
            return client.subscribe(
                topic,
                "s",
                consumer_type=Type.KeyShared,
                key_shared_policy=pulsar.ConsumerKeySharedPolicy(
                    key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges)
                ),
            )

        low, high = subscribe((0, 0x7FFF)), subscribe((0x8000, 0xFFFF))
        with pytest.raises(pulsar.ConsumerAssignError):
            subscribe((0x7000, 0x9000))
        producer = client.create_producer(topic)
        # Their hashes are in the table of test vectors: 0x602a, 0x0125, 0x39b4, 0xc022.
        for key in ("k1", "key1", "key2", "orders-42"):
            producer.send(key.encode(), partition_key=key)
        assert drain(low) == ["k1", "key1", "key2"]
        assert drain(high) == ["orders-42"]

    def test_order_within_a_key_survives_consumers_that_come_and_go(
        self, client: pulsar.Client, topic: str
    ) -> None:
        """Consumers join and leave, some with messages in hand, while all is being received."""
        keys, each = 20, 60
        seen: dict[str, list[int]] = {}
        lock = threading.Lock()

        def join(name: str) -> pulsar.Consumer:
            return client.subscribe(
                topic,
                "s",
                consumer_type=Type.KeyShared,
                consumer_name=name,
                receiver_queue_size=10,
                initial_position=EARLIEST,
            )

        def work(consumer: pulsar.Consumer, limit: int) -> int:
            count = 0
            while count < limit:
                try:
                    message = consumer.receive(QUIET_MS)
                except pulsar.Timeout:
                    return count
                with lock:
                    seen.setdefault(message.partition_key(), []).append(int(message.data()))
                consumer.acknowledge(message)
                count += 1
            return count

        consumers = [join("0"), join("1")]
        send_keyed(client.create_producer(topic, max_pending_messages=5000), keys, each)
        work(consumers[0], 100)
        consumers.append(join("2"))
        work(consumers[1], 100)
        consumers.pop(0).close()  # with up to ten that it has and nobody acknowledged
        work(consumers[0], 50)
        consumers.append(join("3"))
        threads = [
            threading.Thread(target=work, args=(each, 10_000)) for each in [*consumers, join("4")]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {key: first_times(numbers) for key, numbers in seen.items()} == {
            f"key {key}": list(range(each)) for key in range(keys)
        }


def send_keyed(producer: pulsar.Producer, keys: int, each: int) -> None:
    for number in range(each):
        for key in range(keys):
            producer.send_async(b"%d" % number, lambda *_: None, partition_key=f"key {key}")
    producer.flush()


def keyed(consumer: pulsar.Consumer) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    while True:
        try:
            message = consumer.receive(QUIET_MS)
        except pulsar.Timeout:
            return found
        consumer.acknowledge(message)
        found.setdefault(message.partition_key(), []).append(int(message.data()))


def first_times(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def test_a_consumer_without_a_queue_is_given_one_message_at_a_time(
    client: pulsar.Client, topic: str
) -> None:
    shy = client.subscribe(topic, "s", consumer_type=Type.Shared, receiver_queue_size=0)
    producer = client.create_producer(topic)
    for text in texts(10):
        producer.send(text.encode())
    # This client offers no receive with a timeout here.
    for text in texts(2):
        message = shy.receive()
        assert message.data() == text.encode()
        shy.acknowledge(message)
    other = client.subscribe(topic, "s", consumer_type=Type.Shared)
    assert drain(other) == texts(8, start=2)


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_consumer_gets_no_more_than_it_asked_for(
    client: pulsar.Client, topic: str, is_batched: bool
) -> None:
    shy = client.subscribe(topic, "s", consumer_type=Type.Shared, receiver_queue_size=1)
    producer = client.create_producer(topic, batching_enabled=is_batched)
    if is_batched:
        send_all(producer, texts(10))
    else:
        for text in texts(10):
            producer.send(text.encode())
    received = receive(shy, 1)
    other = client.subscribe(topic, "s", consumer_type=Type.Shared, receiver_queue_size=100)
    if is_batched:  # an entry is not cut for want of permits
        received += drain(shy)
    received += drain(other)
    received += drain(shy)
    assert sorted(received) == sorted(texts(10))


def test_a_negative_acknowledgement_brings_a_message_back_and_counts(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=Type.Shared, negative_ack_redelivery_delay_ms=100
    )
    send_all(client.create_producer(topic), texts(2))
    for count in range(3):
        message = consumer.receive(PATIENT_MS)
        while message.data() != b"message 0":
            consumer.acknowledge(message)
            message = consumer.receive(PATIENT_MS)
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)
    message = consumer.receive(PATIENT_MS)
    assert message.redelivery_count() == 3
    consumer.acknowledge(message)
    assert_silent(consumer)


def test_after_the_acknowledgement_timeout_a_message_comes_again(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=Type.Shared, unacked_messages_timeout_ms=10_000
    )
    client.create_producer(topic).send(b"x")
    consumer.receive(PATIENT_MS)
    message = consumer.receive(30_000)
    assert message.redelivery_count() == 1
    consumer.acknowledge(message)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "KeyShared"])
def test_redelivery_of_everything_unacknowledged(
    client: pulsar.Client, topic: str, kind: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=getattr(Type, kind))
    producer = client.create_producer(topic)
    for text in texts(10):
        producer.send(text.encode(), partition_key="one key")
    receive(consumer, 4)
    receive(consumer, 6, is_acked=False)
    consumer.redeliver_unacknowledged_messages()
    found = receive(consumer, 6, is_acked=False)
    assert found == texts(6, start=4)


def test_too_often_refused_messages_go_to_the_dead_letter_topic(
    client: pulsar.Client, topic: str
) -> None:
    dead = client.subscribe(f"{topic}-dead", "s")
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=Type.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "initial"),
    )
    client.create_producer(topic).send(b"poison")
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(PATIENT_MS))
    assert receive(dead, 1) == ["poison"]
    # Made by the client's producer, before its first message.
    assert receive(client.subscribe(f"{topic}-dead", "initial"), 1) == ["poison"]


def test_a_cumulative_acknowledgement_covers_all_before_it(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), texts(10))
    messages = [consumer.receive(PATIENT_MS) for _ in range(10)]
    consumer.acknowledge_cumulative(messages[6])
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive(again, 3) == texts(3, start=7)
    assert_silent(again)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_single_messages_of_a_batch_are_acknowledged(
    client: pulsar.Client, topic: str, kind: str
) -> None:
    def subscribe() -> pulsar.Consumer:
        return client.subscribe(
            topic, "s", consumer_type=getattr(Type, kind), batch_index_ack_enabled=True
        )

    consumer = subscribe()
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1000
    )
    send_all(producer, texts(10))
    messages = [consumer.receive(PATIENT_MS) for _ in range(10)]
    assert len({each.message_id().entry_id() for each in messages}) == 1
    for index in (0, 3, 4, 9):
        consumer.acknowledge(messages[index])
    consumer.close()
    again = subscribe()
    assert receive(again, 6) == [f"message {number}" for number in (1, 2, 5, 6, 7, 8)]
    again.close()
    assert_silent(subscribe())


class TestSeek:
    def test_back_to_a_message_by_its_id(self, client: pulsar.Client, topic: str) -> None:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        ids = [producer.send(text.encode()) for text in texts(10)]
        assert receive(consumer, 10) == texts(10)
        consumer.seek(ids[4])
        assert receive(consumer, 5) == texts(5, start=5)
        consumer.seek(pulsar.MessageId.earliest)
        assert receive(consumer, 10) == texts(10)
        consumer.seek(pulsar.MessageId.latest)
        assert_silent(consumer)
        producer.send(b"new")
        assert receive(consumer, 1) == ["new"]

    def test_back_to_a_time(self, client: pulsar.Client, topic: str) -> None:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        send_all(producer, texts(5))
        receive(consumer, 5)
        assert_silent(consumer)  # so that the clock has moved on
        middle_ms = int(time.time() * 1000)
        send_all(producer, texts(5, start=5))
        receive(consumer, 5)
        consumer.seek(middle_ms)
        assert receive(consumer, 5) == texts(5, start=5)
        consumer.seek(0)
        assert receive(consumer, 10) == texts(10)

    @pytest.mark.parametrize("kind", ["Failover", "Shared", "KeyShared"])
    def test_on_every_type_of_subscription(
        self, client: pulsar.Client, topic: str, kind: str
    ) -> None:
        consumer = client.subscribe(topic, "s", consumer_type=getattr(Type, kind))
        send_all(client.create_producer(topic), texts(5))
        receive(consumer, 5)
        consumer.seek(pulsar.MessageId.earliest)
        assert sorted(receive(consumer, 5)) == texts(5)


def test_the_initial_position_decides_what_a_new_subscription_sees(
    client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "keeps them")
    send_all(client.create_producer(topic), texts(5))
    assert drain(client.subscribe(topic, "late", initial_position=LATEST)) == []
    assert receive(client.subscribe(topic, "early", initial_position=EARLIEST), 5) == texts(5)


def test_a_subscription_remembers_and_an_unsubscribed_one_does_not(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    client.subscribe(topic, "keeps them")
    send_all(client.create_producer(topic), texts(5))
    receive(consumer, 2)
    consumer.close()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive(consumer, 3) == texts(3, start=2)
    consumer.unsubscribe()
    again = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive(again, 5) == texts(5)


def test_only_the_last_consumer_can_unsubscribe(client: pulsar.Client, topic: str) -> None:
    one = client.subscribe(topic, "s", consumer_type=Type.Shared)
    client.subscribe(topic, "s", consumer_type=Type.Shared)
    with pytest.raises(pulsar.PulsarException):
        one.unsubscribe()


def test_the_last_message_id_is_that_of_the_last_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    assert consumer.get_last_message_id().entry_id() == -1
    producer = client.create_producer(topic)
    ids = [producer.send(text.encode()) for text in texts(3)]
    assert consumer.get_last_message_id() == ids[-1]


def test_messages_are_received_in_groups(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(10, -1, 1000)
    )
    send_all(client.create_producer(topic, batching_enabled=True), texts(30))
    found: list[str] = []
    while len(found) < 30:
        found += [each.data().decode() for each in consumer.batch_receive()]
    assert found == texts(30)


def test_a_listener_is_called_for_every_message(client: pulsar.Client, topic: str) -> None:
    found: list[str] = []
    done = threading.Event()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        found.append(message.data().decode())
        if len(found) == 50:
            done.set()

    client.subscribe(topic, "s", message_listener=listen)
    send_all(client.create_producer(topic), texts(50))
    assert done.wait(20)
    assert found == texts(50)


class TestReader:
    def test_reads_from_where_it_was_told(self, client: pulsar.Client, topic: str) -> None:
        producer = client.create_producer(topic)
        ids = [producer.send(text.encode()) for text in texts(10)]

        def read(start: pulsar.MessageId, *, is_inclusive: bool = False) -> list[str]:
            reader = client.create_reader(topic, start, start_message_id_inclusive=is_inclusive)
            found = []
            while reader.has_message_available():
                found.append(reader.read_next(PATIENT_MS).data().decode())
            reader.close()
            return found

        assert read(pulsar.MessageId.earliest) == texts(10)
        assert read(pulsar.MessageId.latest) == []
        assert read(ids[3]) == texts(6, start=4)
        assert read(ids[3], is_inclusive=True) == texts(7, start=3)

    def test_sees_what_comes_after_it(self, client: pulsar.Client, topic: str) -> None:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        assert not reader.has_message_available()
        producer = client.create_producer(topic, batching_enabled=True)
        send_all(producer, texts(10))
        assert reader.has_message_available()
        assert [reader.read_next(PATIENT_MS).data().decode() for _ in range(10)] == texts(10)
        assert not reader.has_message_available()

    def test_starts_inside_a_batch(self, client: pulsar.Client, topic: str) -> None:
        first = client.create_reader(topic, pulsar.MessageId.earliest)
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=1000
        )
        send_all(producer, texts(10))
        ids = [first.read_next(PATIENT_MS).message_id() for _ in range(10)]
        second = client.create_reader(topic, ids[5])
        found = [second.read_next(PATIENT_MS).data().decode() for _ in range(4)]
        assert found == texts(4, start=6)

    def test_seeks(self, client: pulsar.Client, topic: str) -> None:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        send_all(client.create_producer(topic), texts(5))
        reader.read_next(PATIENT_MS)
        reader.seek(pulsar.MessageId.earliest)
        assert [reader.read_next(PATIENT_MS).data().decode() for _ in range(5)] == texts(5)

    def test_leaves_nothing_behind(self, client: pulsar.Client, topic: str) -> None:
        reader = client.create_reader(topic, pulsar.MessageId.earliest, reader_name="r")
        client.create_producer(topic).send(b"x")
        reader.read_next(PATIENT_MS)
        reader.close()
        assert client.create_reader(topic, pulsar.MessageId.earliest).has_message_available()


def test_a_table_view_holds_the_last_value_of_every_key(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(b"%d" % number, partition_key=f"key {number % 3}")
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("key 0", "key 1", "key 2", "none")} == {
        "key 0": b"9",
        "key 1": b"7",
        "key 2": b"8",
        "none": None,
    }
    changed = threading.Event()
    view.for_each_and_listen(once_seen(changed, ("key 0", b"new")))
    producer.send(b"new", partition_key="key 0")
    assert changed.wait(20)
    assert view.get("key 0") == b"new"
    view.close()


def once_seen(event: threading.Event, wanted: tuple[str, bytes]) -> Callable[[str, bytes], None]:
    def look(key: str, value: bytes) -> None:
        if (key, value) == wanted:
            event.set()

    return look
