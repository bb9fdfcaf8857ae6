"""kill -9 under load, again and again, against the real client; then everything is counted.

    python -m tests.interop.crash --kills 50

A producer of the real client sends numbers, spread over keys, without waiting; what the broker
acknowledged is noted. Two subscriptions are consumed all the while: one by the real client, which
cannot ask for receipts of its acknowledgements; the other by a client of ours, which does, so that
an acknowledgement counts as made only when the broker said so. The broker is killed at random
moments and started again on the same directory. The oracle, for each subscription:

lost          acknowledged to the producer, never received
invented      received, never sent
forgotten     received again after its acknowledgement was confirmed
reordered     within a key, first receipts not in the order of sending
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pulsar

from anabranch.protocol import wire_pb2
from anabranch.protocol.wire_codec import Delivery
from tests.interop.broker_process import BrokerProcess
from tests.raw_client import Gone, RawClient, SubType, connected

KEYS = 8
TOPIC = "persistent://public/default/crashing"
# In flight at once; enough that every kill meets some.
PENDING = 500


@dataclass
class Received:
    """By one subscription. Numbers are messages, in the order of sending."""

    numbers: list[int] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)
    forgotten: list[int] = field(default_factory=list)

    def note(self, number: int) -> None:
        if number in self.confirmed:
            self.forgotten.append(number)
        self.numbers.append(number)

    def flaws(self, sent: int, acknowledged: set[int]) -> list[str]:
        seen = set(self.numbers)
        return [
            f"{name}: {len(numbers)}, the first are {numbers[:5]}"
            for name, numbers in (
                ("lost", sorted(acknowledged - seen)),
                ("invented", sorted(number for number in seen if number >= sent)),
                ("forgotten", self.forgotten),
                ("reordered", reordered(self.numbers)),
            )
            if numbers
        ]


def reordered(numbers: list[int]) -> list[int]:
    last = [-1] * KEYS
    wrong = []
    for number in dict.fromkeys(numbers):
        if number < last[number % KEYS]:
            wrong.append(number)
        last[number % KEYS] = max(last[number % KEYS], number)
    return wrong


@dataclass
class History:
    """What everybody was told."""

    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    plain: Received = field(default_factory=Received)
    careful: Received = field(default_factory=Received)

    def flaws(self) -> list[str]:
        return [
            f"{name} subscription: {flaw}"
            for name, received in (("plain", self.plain), ("careful", self.careful))
            for flaw in received.flaws(self.sent, self.acknowledged)
        ]


class Load:
    """A producer and two consumers in threads of their own, until told to stop."""

    def __init__(self, url: str, history: History) -> None:
        self.history = history
        self._url = url
        self._client = pulsar.Client(
            url,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
            operation_timeout_seconds=60,
        )
        first = pulsar.InitialPosition.Earliest
        self._consumer = self._client.subscribe(TOPIC, "plain", initial_position=first)
        self._client.subscribe(TOPIC, "careful", initial_position=first).close()
        self._producer = self._client.create_producer(
            TOPIC,
            producer_name="crash",
            max_pending_messages=PENDING,
            block_if_queue_full=True,
            send_timeout_millis=0,
        )
        self._is_stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce),
            threading.Thread(target=self._consume),
            threading.Thread(target=lambda: asyncio.run(self._consume_carefully())),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        while not self._is_stopping.is_set():
            number, self.history.sent = self.history.sent, self.history.sent + 1
            self._producer.send_async(
                b"%d" % number, self._note(number), partition_key=f"key {number % KEYS}"
            )
        self._producer.flush()

    def _note(self, number: int) -> object:
        def done(result: pulsar.Result, _: object) -> None:
            if result == pulsar.Result.Ok:
                self.history.acknowledged.add(number)

        return done

    def _is_done(self, received: Received) -> bool:
        if not self._is_stopping.is_set() or self._threads[0].is_alive():
            return False
        return self.history.acknowledged <= set(received.numbers)

    def _consume(self) -> None:
        received = self.history.plain
        while True:
            try:
                message = self._consumer.receive(200)
            except pulsar.Timeout:
                if self._is_done(received):
                    return
                continue
            received.note(int(message.data()))
            self._consumer.acknowledge(message)

    async def _consume_carefully(self) -> None:
        received = self.history.careful
        while not self._is_done(received):
            try:
                async with connected(self._url) as client:
                    answer = await client.subscribe(TOPIC, "careful", kind=SubType.Failover)
                    if isinstance(answer, wire_pb2.CommandSuccess):
                        await self._drink(client, received)
            except (OSError, Gone, TimeoutError, AssertionError):
                await asyncio.sleep(0.02)  # it is being started again

    async def _drink(self, client: RawClient, received: Received) -> None:
        client.flow(1000)
        receipts: set[asyncio.Task[None]] = set()
        while not client.is_gone and not (client.deliveries.empty() and self._is_done(received)):
            try:
                async with asyncio.timeout(0.2):
                    delivery = await client.deliveries.get()
            except TimeoutError:
                continue
            client.flow(1)
            number = int(bytes(delivery.body)[delivery.payload_start :])
            received.note(number)
            task = asyncio.create_task(self._acknowledge(client, delivery, number))
            receipts.add(task)
            task.add_done_callback(receipts.discard)
        await asyncio.gather(*receipts)

    async def _acknowledge(self, client: RawClient, delivery: Delivery, number: int) -> None:
        try:
            answer = await client.acknowledge_surely(delivery.id)
        except (OSError, Gone, TimeoutError):
            return  # nobody promised anything: it will come again
        if not answer.HasField("error"):
            self.history.careful.confirmed.add(number)

    def finish(self) -> None:
        """Everything sent is answered, everything acknowledged has come, twice."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads), "the load never ended"
        self._client.close()


def run(kills: int, seed: int, data: Path, *, longest_seconds: float = 1.0) -> History:
    """The history of one run; its moments of death come from the seed."""
    chance = random.Random(seed)
    # What the client sends again because no answer came is then stored once, and every second
    # receipt of a number that was acknowledged is the broker's fault.
    broker = BrokerProcess(data, settings=["brokerDeduplicationEnabled=true"]).start()
    history = History()
    load = Load(broker.url, history)
    load.start()
    try:
        for number in range(kills):
            enough = history.sent + chance.randrange(1, 2000)
            deadline = time.monotonic() + longest_seconds
            while history.sent < enough and time.monotonic() < deadline:
                threading.Event().wait(0.01)
            threading.Event().wait(chance.random() * longest_seconds)
            broker.kill()
            broker.start()
            print(f"kill {number + 1}: {len(history.acknowledged)} acknowledged", file=sys.stderr)
        load.finish()
    finally:
        broker.kill()
    return history


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    with TemporaryDirectory() as directory:
        history = run(chosen.kills, chosen.seed, Path(directory) / "data")
    print(
        f"kills={chosen.kills} sent={history.sent} acknowledged={len(history.acknowledged)} "
        f"received={len(history.plain.numbers)} and {len(history.careful.numbers)} "
        f"confirmed={len(history.careful.confirmed)}"
    )
    flaws = history.flaws()
    for flaw in flaws:
        print(flaw)
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
