"""The REST API of a real broker, with the real client at work on the same topics."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import (
    Admin,
    assert_silent,
    connect,
    path_of,
    receive,
    send_all,
    texts,
    until,
)

NUMBERS = count()


@pytest.fixture
def admin(broker: BrokerProcess) -> Admin:
    return Admin(broker.http_url)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that looks after its topics every second."""
    settings = [
        "backlogQuotaCheckIntervalInSeconds=1",
        "brokerDeleteInactiveTopicsFrequencySeconds=1",
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=1",
        "retentionCheckIntervalInSeconds=1",
    ]
    data = tmp_path_factory.mktemp("quick") / "data"
    process = BrokerProcess(data, settings=settings).start()
    yield process
    assert process.stop() == 0


def refused(call: Callable[[], Any]) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        call()
    with caught.value as error:
        assert b"reason" in error.read()
        return error.code


def stats(admin: Admin, topic: str) -> Any:
    return admin.get(f"{path_of(topic)}/stats")


def idle(client: pulsar.Client) -> pulsar.Consumer:
    """Something to wait with."""
    return client.subscribe(f"persistent://public/default/waiting-{next(NUMBERS)}", "w")


def test_statistics_show_who_is_connected_and_what_went_by(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_name="anna", properties={"team": "a"})
    producer = client.create_producer(topic, producer_name="paul", properties={"team": "b"})
    send_all(producer, texts(20))
    assert receive(consumer, 10) == texts(10)
    until(lambda: stats(admin, topic)["subscriptions"]["s"]["msgBacklog"] == 10, idle(client))
    found = stats(admin, topic)
    assert (found["msgInCounter"], found["msgOutCounter"]) == (20, 20)
    assert found["msgRateIn"] > 0
    assert found["bytesInCounter"] == found["storageSize"] > 20 * len("message 0")
    (publisher,) = found["publishers"]
    assert publisher["producerName"] == "paul"
    assert publisher["metadata"] == {"team": "b"}
    assert re.match(r"127\.0\.0\.1:\d+", publisher["address"])
    (one,) = found["subscriptions"]["s"]["consumers"]
    assert (one["consumerName"], one["metadata"]) == ("anna", {"team": "a"})
    assert one["msgOutCounter"] == 20
    assert found["subscriptions"]["s"]["type"] == "Exclusive"


def test_a_client_may_look_up_over_http(broker: BrokerProcess, admin: Admin, topic: str) -> None:
    admin.put(f"{path_of(topic)}/partitions", 3)
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.http_url, logger=logger)
    assert len(client.get_topic_partitions(topic)) == 3
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), texts(10))
    assert sorted(receive(consumer, 10)) == sorted(texts(10))
    client.close()


def test_a_limit_on_producers_holds_at_once(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.create_producer(topic)
    admin.post(f"{path_of(topic)}/maxProducers", 1)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)


def test_deduplication_can_be_switched_on_while_producers_send(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="paul")
    producer.send(b"before", sequence_id=7)
    admin.post(f"{path_of(topic)}/deduplicationEnabled", True)
    assert stats(admin, topic)["deduplicationStatus"] == "Enabled"
    producer.send(b"again", sequence_id=7)
    producer.send(b"after", sequence_id=8)
    assert receive(consumer, 2) == ["before", "after"]
    assert_silent(consumer)


def test_a_used_topic_stays_unless_forced(client: pulsar.Client, admin: Admin, topic: str) -> None:
    producer = client.create_producer(topic)
    assert refused(lambda: admin.call("DELETE", path_of(topic))) == 412
    producer.send(b"kept")
    producer.close()
    admin.call("DELETE", path_of(topic))
    assert topic not in admin.get("persistent/public/default")


def test_an_unloaded_topic_loses_nothing(client: pulsar.Client, admin: Admin, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for round_ in range(3):
        send_all(producer, texts(10, round_ * 10))
        admin.put(f"{path_of(topic)}/unload")
    producer.flush()
    found = [receive(consumer, 1)[0]]
    while len(set(found)) < 30:
        found += receive(consumer, 1)
    assert list(dict.fromkeys(found)) == texts(30)


def test_a_terminated_topic_ends_its_readers(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    producer = client.create_producer(topic)
    send_all(producer, texts(3))
    last = admin.post(f"{path_of(topic)}/terminate")
    assert last["entryId"] == 2
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"too late")
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert receive(consumer, 3) == texts(3)


def test_a_subscription_is_moved_under_its_consumer(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), texts(10))
    assert receive(consumer, 10) == texts(10)
    admin.post(f"{path_of(topic)}/subscription/s/resetcursor/0")
    assert receive(consumer, 10) == texts(10)
    last = admin.get(f"{path_of(topic)}/lastMessageId")
    body = {"ledgerId": last["ledgerId"], "entryId": last["entryId"]}
    admin.post(f"{path_of(topic)}/subscription/s/resetcursor", body)
    assert receive(consumer, 1)[-1] == texts(10)[-1]


def test_a_skipped_backlog_is_not_delivered(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    send_all(producer, texts(10))
    admin.post(f"{path_of(topic)}/subscription/s/skip/4")
    consumer = client.subscribe(topic, "s")
    assert receive(consumer, 6) == texts(6, 4)
    consumer.close()
    send_all(producer, texts(10))
    admin.post(f"{path_of(topic)}/subscription/s/skip_all")
    assert_silent(client.subscribe(topic, "s"))


def test_metrics_follow_the_traffic(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    send_all(client.create_producer(topic), texts(5))
    with urllib.request.urlopen(f"{broker.http_url}/metrics", timeout=10) as reply:
        text = reply.read().decode()
        assert reply.url.endswith("/metrics/")
    assert re.search(rf'pulsar_in_messages_total{{.*topic="{topic}"}} 5\n', text)


def test_a_full_backlog_refuses_producers_until_there_is_room(
    quick: BrokerProcess, topic: str
) -> None:
    admin, client = Admin(quick.http_url), connect(quick)
    admin.put(path_of(topic))
    quota = {"limitSize": 5000, "policy": "producer_exception"}
    admin.post(f"{path_of(topic)}/backlogQuota", quota)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    for _ in range(10):
        producer.send(b"x" * 1000)
    waiting = idle(client)
    until(lambda: stats(admin, topic)["publishers"] == [], waiting)
    with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
        client.create_producer(topic)
    admin.post(f"{path_of(topic)}/subscription/s/skip_all")
    client.create_producer(topic).send(b"room again")
    client.close()


def test_eviction_makes_room_and_keeps_the_producer(quick: BrokerProcess, topic: str) -> None:
    admin, client = Admin(quick.http_url), connect(quick)
    admin.put(path_of(topic))
    quota = {"limitSize": 5000, "policy": "consumer_backlog_eviction"}
    admin.post(f"{path_of(topic)}/backlogQuota", quota)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    for _ in range(10):
        producer.send(b"x" * 1000)
    until(lambda: stats(admin, topic)["backlogSize"] <= 5000, idle(client))
    producer.send(b"still here")
    assert len(stats(admin, topic)["publishers"]) == 1
    client.close()


def test_an_unused_topic_goes_and_a_used_one_stays(quick: BrokerProcess, topic: str) -> None:
    admin, client = Admin(quick.http_url), connect(quick)
    used, unused = f"{topic}-used", f"{topic}-unused"
    producer = client.create_producer(used)
    client.create_producer(unused).close()
    waiting = idle(client)
    until(lambda: unused not in admin.get("persistent/public/default"), waiting)
    producer.send(b"still here")
    assert used in admin.get("persistent/public/default")
    client.close()


def test_policies_and_settings_survive_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    admin = Admin(broker.http_url)
    admin.post("namespaces/public/default/messageTTL", 60)
    admin.post("brokers/configuration/maxTenants/7")
    broker.kill()
    broker.start()
    assert admin.get("namespaces/public/default/messageTTL") == 60
    assert admin.get("brokers/configuration/values") == {"maxTenants": "7"}
    assert broker.stop() == 0


def test_an_idle_broker_is_small(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    with urllib.request.urlopen(f"{broker.http_url}/status.html", timeout=10) as reply:
        assert reply.read() == b"OK"
    status = Path(f"/proc/{broker.pid}/status")
    if not status.exists():
        broker.stop()
        pytest.skip("needs /proc")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert broker.stop() == 0
    assert found is not None
    assert int(found[1]) < 120 * 1024


def test_a_connection_that_says_nothing_does_not_keep_the_broker_from_stopping(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    host, _, port = broker.http_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.sendall(b"GET /admin/v2/clus")
        assert broker.stop() == 0
