"""Silence, half-open connections and slow readers, in virtual time against a whole broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from anabranch.broker.config import Config
from anabranch.broker.session import Session
from anabranch.protocol import wire_pb2
from tests.simulation.broker.consumer import Manners, ModelConsumer
from tests.simulation.broker.link import HOST, PORT, Client, Link
from tests.simulation.broker.producer import Habits, ModelProducer
from tests.simulation.broker.stage import (
    TOPIC,
    Stage,
    on_stage,
    producer_command,
    subscribe_command,
)
from tests.simulation.broker.subscription_history import SubscriptionHistory, SubType
from tests.simulation.broker.topic_history import TopicHistory
from tests.simulation.transport import WINDOW_BYTES

KEEP_ALIVE_SECONDS = 30.0


class SilentLink(Link):
    """Says hello, and then nothing: no pings of its own, no answers."""

    def _set_tick(self) -> None:
        pass

    def send(self, message: Any) -> None:
        if not isinstance(message, wire_pb2.CommandPong):
            super().send(message)


def test_a_client_that_answers_pings_stays_connected_for_hours() -> None:
    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        await asyncio.sleep(3 * 3600)
        assert not link.is_lost
        assert link.pings_heard >= 3 * 3600 / KEEP_ALIVE_SECONDS - 1

    on_stage(scene)


def test_a_silent_client_is_cut_off_after_two_ticks_and_its_name_is_free() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client("client")
        _, link = await client.world.network.connect(SilentLink, HOST, PORT)
        await link.ready.wait()
        await link.request(producer_command("p"))
        await asyncio.sleep(KEEP_ALIVE_SECONDS + 1)
        assert not link.is_lost
        await asyncio.sleep(KEEP_ALIVE_SECONDS)
        assert link.is_lost
        assert not stage.sessions
        other = await (await stage.client("other")).link()
        began = stage.world.loop.time()
        await other.request(producer_command("p"))
        assert stage.world.loop.time() - began < 1.0

    on_stage(scene)


def test_a_connection_without_a_handshake_is_closed_at_the_first_tick() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client("client")
        transport, _ = await client.world.network.connect(asyncio.Protocol, HOST, PORT)
        await asyncio.sleep(KEEP_ALIVE_SECONDS + 1)
        assert transport.is_closing()
        assert not stage.sessions

    on_stage(scene)


def test_a_half_open_connection_gives_up_its_producer_to_the_next_one() -> None:
    """The machine lost power: no reset, no end of stream, and the same name comes from another."""

    async def scene(stage: Stage) -> None:
        link = await (await stage.client("dead")).link()
        await link.request(producer_command("p"))
        stage.world.machine("dead").power_off()
        other = await (await stage.client("other")).link()
        began = stage.world.loop.time()
        await other.request(producer_command("p"))
        # The broker asked the dead one and waited five seconds for an answer.
        assert 4.0 < stage.world.loop.time() - began < 8.0

    on_stage(scene)


def test_a_half_open_connection_gives_up_its_exclusive_subscription() -> None:
    async def scene(stage: Stage) -> None:
        link = await (await stage.client("dead")).link()
        await link.request(subscribe_command())
        stage.world.machine("dead").power_off()
        other = await (await stage.client("other")).link()
        await other.request(subscribe_command())
        assert len(stage.sessions) <= 2

    on_stage(scene)


def test_a_one_way_partition_is_noticed_from_both_sides() -> None:
    """Bytes reach the broker, nothing comes back: the client hears no pong and leaves."""

    async def scene(stage: Stage) -> None:
        link = await (await stage.client("client")).link()
        stage.world.network.block("broker", "client")
        await asyncio.sleep(3 * KEEP_ALIVE_SECONDS)
        assert link.is_lost
        assert not stage.sessions

    on_stage(scene)


def test_a_consumer_that_does_not_read_costs_bounded_memory_and_nobody_else_waits() -> None:
    entries, filler = 300, 10_000  # three megabytes, many times what may wait for one client

    async def scene(stage: Stage) -> None:
        broker = stage.service.broker
        assert broker is not None
        broker.config = replace(broker.config, write_bytes=256 << 10)
        topic = TopicHistory(TOPIC)
        slow, fast = (SubscriptionHistory(name, SubType.Exclusive, topic) for name in ("s", "f"))
        lazy = await stage.client("lazy")
        held = consumer_of(lazy, slow)
        quick = consumer_of(await stage.client("quick"), fast)
        tasks = [asyncio.ensure_future(each.run()) for each in (held, quick)]
        await slow.created.wait()
        await fast.created.wait()
        (await lazy.link()).pause_reading()
        await produce(await stage.client("producer"), topic, entries, filler)
        await until(lambda: len(fast.delivered) == entries)
        most = max(buffered(each) for each in stage.sessions)
        assert most + WINDOW_BYTES > 256 << 10, "the slow one was not even pushed"
        # A turn of delivery may begin just below the limit, and sends a megabyte at most.
        assert most < (256 + 1200) << 10, f"{most} bytes wait for one slow reader"
        assert len(slow.delivered) < entries
        for task in tasks:
            task.cancel()

    on_stage(scene)


def test_a_slow_disk_stops_the_reading_of_publishers_and_loses_nothing() -> None:
    entries, filler = 200, 10_000
    config = Config()
    config = replace(config, server=replace(config.server, publish_buffer_mb=1))

    async def scene(stage: Stage) -> None:
        topic = TopicHistory(TOPIC)
        subscription = SubscriptionHistory("s", SubType.Exclusive, topic)
        reader = consumer_of(await stage.client("reader"), subscription)
        reading = asyncio.ensure_future(reader.run())
        await subscription.created.wait()
        stage.world.machine("broker").disk.faults.slowness = 300.0
        most = 0
        clients = [await stage.client(f"producer-{number}") for number in range(4)]
        sending = asyncio.gather(
            *(
                produce(each, topic, entries // 4, filler, window=200, name=f"p{number}")
                for number, each in enumerate(clients)
            )
        )
        while not sending.done():
            assert stage.service.broker is not None
            most = max(most, stage.service.broker.budget.taken_bytes)
            await asyncio.sleep(0.01)
        await sending
        assert most > 1 << 20, f"only {most} bytes were ever on their way: nothing was tested"
        # Each of the connections may add what one read brings, and then stops.
        assert most < (1 << 20) + 4 * 300_000, f"{most} bytes on their way to disk"
        await until(lambda: len(subscription.delivered) == entries)
        reading.cancel()

    on_stage(scene, config)


def consumer_of(client: Client, subscription: SubscriptionHistory) -> ModelConsumer:
    manners = Manners(permits=2000, again_share=0, leave_share=0, part_share=0, close_share=0)
    name = f"c-{subscription.name}"
    return ModelConsumer(client, 1, name, subscription, manners, Random(1))


async def produce(
    client: Client,
    topic: TopicHistory,
    entries: int,
    filler: int,
    window: int = 8,
    name: str = "p",
) -> None:
    habits = Habits(entries, pause_seconds=0.0, filler_bytes=filler, window=window)
    await ModelProducer(client, 1, name, topic, habits, Random(1)).run()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(600):
        while not is_so():  # noqa: ASYNC110  # it watches a history, which has no events
            await asyncio.sleep(0.1)


def buffered(session: Session) -> int:
    assert session._transport is not None
    return session._transport.get_write_buffer_size()
