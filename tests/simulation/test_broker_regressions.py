"""What seeds of the broker's workloads have found, each as the story that shows it.

See test_regressions.py: a seed means another run as soon as a workload changes.
"""

from __future__ import annotations

import asyncio

import pytest

from anabranch.protocol import wire_pb2
from tests.simulation.broker.link import LinkLost, RequestRefused
from tests.simulation.broker.producer import Mode
from tests.simulation.broker.stage import (
    Stage,
    on_stage,
    producer_command,
    subscribe_command,
)


def exclusive(name: str, mode: int, number: int = 1) -> wire_pb2.CommandProducer:
    command = producer_command(name)
    command.producer_id = number
    command.producer_access_mode = mode  # type: ignore[assignment]
    return command


def test_a_broker_that_stops_loads_no_topic_again() -> None:
    """Clients are still connected when their topics are unloaded, and ask for them at once."""

    async def scene(stage: Stage) -> None:
        links = [await (await stage.client(f"client-{number}")).link() for number in range(3)]
        await links[0].request(producer_command("p"))
        stopping = asyncio.ensure_future(stage.service.stop())
        opening = []
        for number in range(200):
            link = links[number % 3]
            opening.append(asyncio.ensure_future(link.request(exclusive("p", 0, number))))
            await asyncio.sleep(0.0002)
        await stopping
        assert stage.service.failure is None
        assert not stage.broker.catalogue.topics.loaded
        outcomes = await asyncio.gather(*opening, return_exceptions=True)
        assert all(isinstance(each, LinkLost | RequestRefused) for each in outcomes[10:])

    on_stage(scene)


def test_a_producer_that_waits_hears_when_its_topic_is_unloaded() -> None:
    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        await link.request(exclusive("holder", Mode.Exclusive))
        waiting = asyncio.ensure_future(
            link.request(exclusive("waiter", Mode.WaitForExclusive, 2), patience=60.0)
        )
        await asyncio.sleep(1.0)
        stage.service.unload_everything()
        with pytest.raises(RequestRefused) as refused:
            await waiting
        assert refused.value.error == wire_pb2.ServerError.ServiceNotReady

    on_stage(scene)


def test_a_producer_that_vanishes_while_it_waits_does_not_keep_the_topic() -> None:
    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        await link.request(exclusive("holder", Mode.Exclusive))
        vanishing = await stage.client("vanishing")
        waiting = asyncio.ensure_future(
            (await vanishing.link()).request(
                exclusive("waiter", Mode.WaitForExclusive), patience=None
            )
        )
        await asyncio.sleep(1.0)
        assert len(stage.topic.producers) == 2
        vanishing.cut()
        with pytest.raises(LinkLost):
            await waiting
        await asyncio.sleep(1.0)
        await link.request(wire_pb2.CommandCloseProducer(producer_id=1))
        await link.request(exclusive("next", Mode.Exclusive, 2))

    on_stage(scene)


@pytest.mark.parametrize("delay_us", range(0, 3000, 100))
def test_a_connection_that_ends_while_an_epoch_is_saved_leaves_the_topic_as_it_was(
    delay_us: int,
) -> None:
    """The save went on without the one who asked, and looked like another owner's to the next."""

    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        await link.request(subscribe_command())
        ledger = stage.topic.ledger
        vanishing = await stage.client("vanishing")
        opening = asyncio.ensure_future(
            (await vanishing.link()).request(exclusive("p", Mode.Exclusive))
        )
        await asyncio.sleep(delay_us / 1e6)
        vanishing.cut()
        await asyncio.wait([opening])
        if not isinstance(opening.exception(), LinkLost):
            opening.result()
        await asyncio.sleep(1.0)
        await link.request(exclusive("next", Mode.Exclusive))
        assert stage.topic.ledger is ledger
        assert ledger.ended_by is None

    on_stage(scene)


def test_consumers_of_a_topic_whose_ledger_was_lost_come_to_the_new_one() -> None:
    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        await link.request(subscribe_command())
        closed = asyncio.Event()
        link.consumers[1] = ClosedConsumer(closed)  # type: ignore[assignment]
        lost = stage.topic
        lost.ledger.abandon("somebody else has it")
        async with asyncio.timeout(10.0):
            await closed.wait()
        await link.request(subscribe_command())
        assert stage.topic is not lost

    on_stage(scene)


class ClosedConsumer:
    def __init__(self, closed: asyncio.Event) -> None:
        self._closed = closed

    def closed_by_broker(self) -> None:
        self._closed.set()
