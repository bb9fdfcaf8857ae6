"""Producers that want a topic for themselves, through the faults of broker_crashes.py.

Each client has a producer of some exclusive mode, and sends a few messages under every reign. What
must hold: along the ledger epochs never fall and belong to one producer each, reigns that were
both proved by receipts do not overlap, and in the end the topic is free again: whoever waits for
it gets it, whatever became of those before.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random

from anabranch.runtime.world import World
from tests.simulation.broker.consumer import Manners, ModelConsumer
from tests.simulation.broker.faults import Nemesis
from tests.simulation.broker.link import Client
from tests.simulation.broker.producer import Habits, Mode, ModelProducer
from tests.simulation.broker.service import Service, small_broker, small_engine
from tests.simulation.broker.subscription_history import SubscriptionHistory, SubType
from tests.simulation.broker.topic_history import TopicHistory
from tests.simulation.world import SimulatedWorld

TOPIC = "persistent://public/default/t"
MODES = (Mode.Exclusive, Mode.WaitForExclusive, Mode.WaitForExclusive, Mode.ExclusiveWithFencing)
LIVENESS_SECONDS = 900.0


@dataclass
class Run:
    world: SimulatedWorld
    topic: TopicHistory
    subscription: SubscriptionHistory
    producers: list[ModelProducer] = field(default_factory=list)
    clients: int = 0


async def contest_a_topic(world: SimulatedWorld) -> None:
    random = Random(f"{world.seed}/workload")
    deduplicate = random.random() < 0.3
    topic = TopicHistory(TOPIC, deduplicate)
    run = Run(world, topic, SubscriptionHistory("s", SubType.Exclusive, topic))
    service = Service(
        world.machine("broker"), small_broker(random, deduplicate=deduplicate), small_engine(random)
    )
    service.start()
    world.machine("reader").spawn(lambda inner: read(inner, run))
    await run.subscription.created.wait()
    hosts = [f"client-{number}" for number in range(random.randint(2, 4))]
    for host in hosts:
        world.machine(host).spawn(partial(contest, run, host))
    await Nemesis(world, service, hosts, lambda: len(topic.answered)).run()
    await expect_the_end(run, len(hosts))
    check_reigns(run)
    topic.check_order()


async def read(world: World, run: Run) -> None:
    manners = Manners(again_share=0.0, leave_share=0.0, close_share=0.0)
    random = Random(f"{run.world.seed}/reader")
    await ModelConsumer(Client(world), 0, "reader", run.subscription, manners, random).run()


async def contest(run: Run, host: str, world: World) -> None:
    """A few producers one after the other, each with a name of its own."""
    random = Random(f"{run.world.seed}/{host}")
    client = Client(world)
    for number in range(random.randint(1, 3)):
        await asyncio.sleep(random.random() * random.choice((0.0, 0.1, 1.0)))
        habits = Habits(
            random.randint(1, 12),
            pause_seconds=random.choice((0.0, 0.01, 0.2)),
            mode=random.choice(MODES),
        )
        producer = ModelProducer(client, number, f"{host}-p{number}", run.topic, habits, random)
        run.producers.append(producer)
        try:
            async with asyncio.timeout(random.choice((None, None, 0.1, 2.0))):
                await producer.run()
        except TimeoutError:
            producer.give_up()
        await leave(client, number, random)
    run.clients += 1


async def leave(client: Client, number: int, random: Random) -> None:
    """Some say so, some just vanish; a producer that is open still keeps the topic."""
    if random.random() < 0.5:
        client.cut()
    else:
        await client.close_producer(number)


async def expect_the_end(run: Run, clients: int) -> None:
    deadline = run.world.loop.time() + LIVENESS_SECONDS
    while run.clients < clients or run.subscription.undelivered():
        assert not run.world.errors, run.world.errors
        waiting = [each.name for each in run.producers if not each.is_done]
        assert run.world.loop.time() < deadline, (
            f"after {LIVENESS_SECONDS:.0f} s of peace {waiting} still wait for the topic, "
            f"{run.subscription.undelivered()[:5]} is not delivered"
        )
        await asyncio.sleep(0.5)


def check_reigns(run: Run) -> None:
    """Each from its first sure moment to its last."""
    reigns: dict[tuple[int, str], tuple[float, float]] = {}
    for producer in run.producers:
        for epoch, start, end in producer.held:
            first, last = reigns.get((epoch, producer.name), (start, end))
            reigns[epoch, producer.name] = (min(first, start), max(last, end))
    ordered = sorted((start, end, key) for key, (start, end) in reigns.items())
    for (_, end, before), (start, _, after) in pairwise(ordered):
        assert end <= start, f"{before} until {end} and {after} from {start} both had the topic"
        assert before[0] < after[0], f"epoch {after} came after {before}"
