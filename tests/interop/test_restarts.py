"""A broker that stops, dies or is started twice, seen from the clients that use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import connect, drain, receive, send_all, texts


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data").start()
    yield process
    assert process.stop() == 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_connected_clients_get_over_a_restart(own_broker: BrokerProcess, end: str) -> None:
    client = connect(own_broker)
    consumer = client.subscribe("t", "s")
    keyed = client.subscribe("t", "keyed", consumer_type=pulsar.ConsumerType.KeyShared)
    producer = client.create_producer("t")
    send_all(producer, texts(10))
    assert receive(consumer, 10) == texts(10)
    getattr(own_broker, end)()
    own_broker.start()
    send_all(producer, texts(10, start=10))
    found = receive(consumer, 10) + drain(consumer)
    # Without receipts, acknowledgements of the last second may be forgotten: those come again.
    assert [text for text in found if text not in texts(10)] == texts(10, start=10)
    assert list(dict.fromkeys(receive(keyed, 20) + drain(keyed))) == texts(20)
    client.close()


def test_sigterm_ends_it_with_0_under_load(own_broker: BrokerProcess) -> None:
    client = connect(own_broker)
    producer = client.create_producer("t", max_pending_messages=20_000)
    acknowledged: list[int] = []

    def note(number: int) -> object:
        def done(result: pulsar.Result, _: object) -> None:
            if result == pulsar.Result.Ok:
                acknowledged.append(number)

        return done

    for number in range(10_000):
        producer.send_async(b"%d" % number, note(number))
    assert own_broker.stop() == 0
    own_broker.start()
    producer.flush()
    assert acknowledged == list(range(10_000))
    consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
    found = [int(text) for text in receive(consumer, 10_000) + drain(consumer)]
    assert list(dict.fromkeys(found)) == list(range(10_000))
    client.close()


def test_a_second_start_on_the_same_directory_is_refused(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "anabranch", "standalone", "--port", "0", "--http-port", "0"]
    second = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode != 0
    assert "ready" not in second.stdout
    assert "held by another running process" in second.stderr
    client = connect(own_broker)
    client.create_producer("t").send(b"the first one still serves")
    client.close()


def test_everything_is_there_after_a_restart(own_broker: BrokerProcess) -> None:
    client = connect(own_broker)
    consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
    client.subscribe("t", "other")
    send_all(client.create_producer("t", batching_enabled=True), texts(100))
    assert receive(consumer, 60) == texts(60)
    client.close()
    assert own_broker.stop() == 0
    own_broker.start()
    client = connect(own_broker)
    assert receive(client.subscribe("t", "s"), 40) == texts(40, start=60)
    assert receive(client.subscribe("t", "other"), 100) == texts(100)
    client.close()
