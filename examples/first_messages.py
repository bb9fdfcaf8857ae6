"""The main job: a broker, used through the unmodified Pulsar client, that may be killed.

    python examples/first_messages.py [--orders 5000] [--directory DIR]

Starts `anabranch standalone`, sends orders of a few customers with `pulsar-client`, kills the
broker with SIGKILL in the middle and starts it again, while the producer goes on. Then a shared
subscription by key, with two consumers, receives everything. In the end: every order that was
acknowledged must have come, nothing that was not sent, and each customer's orders in their order.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pulsar

TOPIC = "persistent://public/default/orders"
CUSTOMERS = [f"customer-{number}" for number in range(8)]


class Broker:
    """A broker process on one directory. It keeps its port, so that clients find it again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        command = [sys.executable, "-m", "anabranch", "standalone", "--host", "127.0.0.1"]
        command += ["--data-dir", str(self._directory), "--port", str(self._port)]
        command += ["--http-port", "0"]
        with (self._directory / "broker.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit((self._directory / "broker.log").read_text())
        url = line.split()[1]
        self._port = int(url.rpartition(":")[2])
        return url

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=60)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=5000)
    parser.add_argument("--directory", type=Path, help="keep the data in this new directory")
    options = parser.parse_args()
    with opened(options.directory) as directory:
        broker = Broker(directory)
        url = broker.start()
        print(f"broker ready at {url}")
        log = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(directory / "client.log"))
        client = pulsar.Client(url, logger=log, operation_timeout_seconds=60)
        try:
            acknowledged = produce(client, broker, options.orders)
            received = consume(client, len(acknowledged))
        finally:
            client.close()
        code = broker.end(signal.SIGTERM)
    wrong = compare(acknowledged, received)
    if code != 0:
        wrong.append(f"the broker ended with exit code {code}")
    for problem in wrong[:20]:
        print(f"  {problem}")
    print(
        "FAILED" if wrong else "PASSED: every acknowledged order came, in order for each customer"
    )
    return 1 if wrong else 0


@contextlib.contextmanager
def opened(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        directory.mkdir(parents=True)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as temporary:
        yield Path(temporary)


def produce(client: pulsar.Client, broker: Broker, orders: int) -> set[str]:
    """Send them all, killing the broker half way; what was acknowledged."""
    client.subscribe(
        TOPIC, "billing", pulsar.ConsumerType.KeyShared,
        initial_position=pulsar.InitialPosition.Earliest,
    ).close()  # fmt: skip
    producer = client.create_producer(
        TOPIC,
        producer_name="shop",
        block_if_queue_full=True,
        send_timeout_millis=60_000,
        # Batches of one key each, so that a key-shared subscription can tell them apart.
        batching_enabled=True,
        batching_type=pulsar.BatchingType.KeyBased,
    )
    acknowledged: set[str] = set()
    failed: list[str] = []

    def answered(text: str, result: pulsar.Result) -> None:
        if result == pulsar.Result.Ok:
            acknowledged.add(text)
        else:
            failed.append(text)

    for number in range(orders):
        customer = CUSTOMERS[number % len(CUSTOMERS)]
        text = f"{customer} {number}"
        producer.send_async(
            text.encode(), lambda result, _, text=text: answered(text, result),
            partition_key=customer,
        )  # fmt: skip
        if number == orders // 2:
            broker.end(signal.SIGKILL)
            print(f"broker killed after {len(acknowledged)} acknowledgements")
            broker.start()
    producer.flush()
    producer.close()
    print(f"{len(acknowledged)} of {orders} orders acknowledged, {len(failed)} failed")
    return acknowledged


def consume(client: pulsar.Client, expected: int) -> list[str]:
    """In order of arrival; each customer belongs to one of the two consumers at a time."""
    consumers = [
        client.subscribe(TOPIC, "billing", pulsar.ConsumerType.KeyShared, consumer_name=name)
        for name in ("left", "right")
    ]
    received: list[str] = []
    counts = [0, 0]
    idle = 0
    while len(set(received)) < expected and idle < 20:
        idle += 1
        for index, consumer in enumerate(consumers):
            with contextlib.suppress(pulsar.Timeout):
                while True:
                    message = consumer.receive(timeout_millis=250)
                    received.append(message.data().decode())
                    consumer.acknowledge(message)
                    counts[index] += 1
                    idle = 0
    print(f"received {len(received)} orders: {counts[0]} on the left, {counts[1]} on the right")
    return received


def compare(acknowledged: set[str], received: list[str]) -> list[str]:
    """What is wrong. A resent order may come twice, but never behind a later one for the first."""
    wrong = [f"{text} was acknowledged and did not come" for text in acknowledged - set(received)]
    latest: dict[str, int] = defaultdict(lambda: -1)
    seen: set[str] = set()
    for text in received:
        customer, number = text.split()
        if text in seen:
            continue
        seen.add(text)
        if int(number) <= latest[customer]:
            wrong.append(f"{text} came behind {customer} {latest[customer]}")
        latest[customer] = int(number)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
