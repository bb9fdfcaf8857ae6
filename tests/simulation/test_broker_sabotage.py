"""The rules of broker histories can fail: each is shown a broken broker, and must say so.

See test_sabotage.py. Here a broker answers before anything is durable, forgets what it confirmed,
stores doubles, gives one key to two consumers, or lets two have what only one may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.broker import subscription
from anabranch.broker.deduplication_log import DeduplicationLog
from anabranch.broker.producers import Accepted, ProducerRoster
from anabranch.broker.single_delivery import SingleDelivery
from anabranch.broker.subscription import Subscription
from anabranch.runtime.world import Buffer
from anabranch.storage.cursor_log import CursorLog
from tests.simulation.catalogue import WORKLOADS, run_seed
from tests.simulation.disk import DiskFile


def complaint(
    *words: str, workload: str = "broker-crashes", seeds: Iterable[int] = range(150)
) -> str:
    """What the first seed says that complains in these words; else what others said."""
    others = []
    for seed in seeds:
        try:
            run_seed(WORKLOADS[workload], seed)
        except AssertionError as error:
            if any(word in str(error) for word in words):
                return str(error)
            others.append(f"seed {seed}: {error}")
    raise AssertionError(f"no seed complains of {words}: {others}")


def test_an_answer_before_the_message_is_durable_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = DiskFile.write

    async def write_only(
        self: DiskFile, offset: int, pieces: Sequence[Buffer], *, sync: bool = False
    ) -> None:
        await write(self, offset, pieces, sync=sync and "/journal/" not in self._path)

    monkeypatch.setattr(DiskFile, "write", write_only)
    # The engine itself may see that something it answered is gone: a loss that is admitted.
    assert complaint("lost: ", "forgotten", "these entries were acknowledged", seeds=range(60))


def test_a_confirmed_acknowledgement_that_was_not_saved_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def promise(self: CursorLog, *args: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(CursorLog, "persist", promise)
    assert complaint("forgotten")


def test_doubles_that_a_restart_lets_in_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeduplicationLog, "replay", lambda *ignored: None)
    assert complaint("lies at")


def test_a_key_at_two_consumers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "_owners_for", lambda meta: None)
    assert complaint("both hold key", "delivered first after", seeds=range(40))


def test_two_consumers_of_an_exclusive_subscription_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Subscription, "check", lambda *ignored: None)
    assert complaint("until")


def test_a_delivery_that_skips_an_entry_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    send = SingleDelivery._send

    def send_but_the_last(self: SingleDelivery, consumer: Any, entries: list[Any]) -> None:
        send(self, consumer, entries)
        if len(entries) > 2:
            self._next = self._next.next()

    monkeypatch.setattr(SingleDelivery, "_send", send_but_the_last)
    assert complaint("lost", "delivered first after")


def test_two_holders_of_a_topic_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerRoster, "holder", property(lambda self: None))
    monkeypatch.setattr(ProducerRoster, "_hold", _hold_too)
    words = ("had the topic", "share an epoch", "had epoch")
    assert complaint(*words, workload="broker-access")


def _hold_too(self: ProducerRoster, producer: Any, topic_epoch: int) -> Any:
    self.topic_epoch = topic_epoch
    self._names[producer.name] = producer.key
    return Accepted(replace(producer, topic_epoch=topic_epoch), is_epoch_new=True)
