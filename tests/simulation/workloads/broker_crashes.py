"""A whole broker and its clients through crashes, bad disks and bad networks.

One broker on one machine, SQLite and the ledger engine on its disk; a few clients with producers
and with consumers of every subscription type. Faults come for a while; then there is peace, in
which everything that was acknowledged must reach every subscription. Then the broker is restarted
once more, and new consumers must get exactly what nobody acknowledged. The rules are in
tests/simulation/broker: topic_history.py and subscription_history.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from anabranch.runtime.world import World
from tests.simulation.broker.consumer import Manners, ModelConsumer
from tests.simulation.broker.faults import Nemesis
from tests.simulation.broker.link import Client
from tests.simulation.broker.producer import Habits, ModelProducer
from tests.simulation.broker.service import Service, small_broker, small_engine
from tests.simulation.broker.subscription_history import SubscriptionHistory, SubType
from tests.simulation.broker.topic_history import TopicHistory
from tests.simulation.world import SimulatedWorld

TOPIC = "persistent://public/default/t"
KINDS = (
    SubType.Exclusive,
    SubType.Failover,
    SubType.Shared,
    SubType.Key_Shared,
    SubType.Key_Shared,  # the one with the most to get wrong
)
LIVENESS_SECONDS = 900.0
QUIET_SECONDS = 3.0


@dataclass
class Run:
    world: SimulatedWorld
    random: Random
    service: Service
    topics: list[TopicHistory]
    subscriptions: list[SubscriptionHistory]
    producers: list[ModelProducer] = field(default_factory=list)
    consumers: list[ModelConsumer] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)


async def crash_a_broker(world: SimulatedWorld) -> None:
    run = plan(world)
    run.service.start()
    for number in range(run.random.choice((1, 2, 2, 3))):
        start_client(run, f"client-{number}")
    await disturb(run)
    await expect(run, lambda: unfinished(run))
    await start_again(run)
    check(run)


async def disturb(run: Run) -> None:
    """Starting and the first messages are met by faults as well as the middle of things."""
    if run.random.random() < 0.7:
        for each in run.subscriptions:
            await each.created.wait()
    await Nemesis(run.world, run.service, run.hosts, lambda: answers(run)).run()


def answers(run: Run) -> int:
    return sum(len(each.answered) for each in run.topics) + sum(
        len(each.sure) for each in run.subscriptions
    )


def plan(world: SimulatedWorld) -> Run:
    random = Random(f"{world.seed}/workload")
    deduplicate = random.random() < 0.5
    world.network.faults.latency_seconds = random.choice((0.0002, 0.001, 0.02))
    service = Service(
        world.machine("broker"), small_broker(random, deduplicate=deduplicate), small_engine(random)
    )
    count = random.choice((1, 1, 1, 2))
    topics = [TopicHistory(f"{TOPIC}{number}", deduplicate) for number in range(count)]
    subscriptions = [
        SubscriptionHistory(f"s{number}", random.choice(KINDS), topic)
        for topic in topics
        for number in range(random.randint(1, 2))
    ]
    return Run(world, random, service, topics, subscriptions)


def start_client(run: Run, host: str) -> None:
    run.hosts.append(host)
    run.world.machine(host).spawn(lambda world: live(world, run, host))


async def live(world: World, run: Run, host: str) -> None:
    """A client process: consumers for some subscriptions, and a producer or two."""
    client, random = Client(world), Random(f"{run.world.seed}/{host}")
    producers = [
        ModelProducer(
            client, number, f"{host}-p{number}", random.choice(run.topics),
            habits_of(run, random), random,
        )
        for number in range(random.randint(0 if run.producers else 1, 2))
    ]  # fmt: skip
    run.producers += producers
    consumers = [
        ModelConsumer(client, number, f"{host}-c{number}", each, manners_of(random), random)
        for number, each in enumerate(run.subscriptions)
        if host == "client-0" or random.random() < 0.7
    ]
    run.consumers += consumers
    async with asyncio.TaskGroup() as group:
        for consumer in consumers:
            group.create_task(consumer.run())
        # What is sent before a subscription exists is none of its business.
        for each in run.subscriptions:
            await each.created.wait()
        for producer in producers:
            group.create_task(send_all(client, producer))


async def send_all(client: Client, producer: ModelProducer) -> None:
    await producer.run()
    if producer.random.random() < 0.5:
        await client.close_producer(producer.number)


def habits_of(run: Run, random: Random) -> Habits:
    """Messages that are delivered later break the order of their keys: none on Key_Shared."""
    is_keyed = any(each.kind == SubType.Key_Shared for each in run.subscriptions)
    return Habits(
        random.randint(3, 40),
        pause_seconds=random.choice((0.0, 0.03, 0.3)),
        delay_share=0.0 if is_keyed else random.choice((0.0, 0.0, 0.2)),
    )


def manners_of(random: Random) -> Manners:
    return Manners(
        permits=random.choice((2, 10, 100)),
        receipt_share=random.choice((0.3, 1.0)),
        again_share=random.choice((0.0, 0.1)),
        leave_share=random.choice((0.0, 0.1)),
        pause_seconds=random.choice((0.001, 0.02, 0.2)),
        close_share=random.choice((0.01, 0.05)),
    )


def unfinished(run: Run) -> str:
    """What is still owed; empty when all is delivered."""
    owed = [f"{each.name} has {len(each.pending)} unanswered, {each.left} unsent"
            for each in run.producers if not each.is_done]  # fmt: skip
    for each in run.subscriptions:
        lost = each.undelivered()
        if lost:
            owed.append(f"lost: {each.name} {SubType.Name(each.kind)} never got {lost[:5]}")
    return "; ".join(owed)


async def expect(run: Run, owed: Callable[[], str]) -> None:
    deadline = run.world.loop.time() + LIVENESS_SECONDS
    while text := owed():
        assert run.world.loop.time() < deadline, f"after {LIVENESS_SECONDS:.0f} s of peace: {text}"
        assert not run.world.errors, run.world.errors
        assert run.service.is_running, f"a sound broker gave up: {run.service.failure!r}"
        await asyncio.sleep(0.5)


async def start_again(run: Run) -> None:
    """Everybody leaves, the broker starts once more, and new consumers look at what is left."""
    for consumer in run.consumers:
        consumer.is_stopping = True
    await asyncio.sleep(5.0)
    for host in run.hosts:
        run.world.machine(host).kill()
    service = run.service
    match run.random.choice(("stop", "kill", "power", "stay")):
        case "stop":
            await service.stop()
        case "kill":
            service.machine.kill()
        case "power":
            service.machine.power_off()
    if not service.is_running:
        service.start()
    run.consumers.clear()
    run.world.machine("auditor").spawn(lambda world: audit(world, run))
    await expect(run, lambda: not_seen_again(run))
    await asyncio.sleep(QUIET_SECONDS)
    assert not (text := not_seen_again(run)), text


async def audit(world: World, run: Run) -> None:
    client, random = Client(world), Random(f"{run.world.seed}/auditor")
    manners = Manners(permits=100_000, close_share=0.0)
    for number, each in enumerate(run.subscriptions):
        consumer = ModelConsumer(client, number, f"auditor-{number}", each, manners, random)
        run.consumers.append(consumer)
    async with asyncio.TaskGroup() as group:
        for consumer in run.consumers:
            group.create_task(consumer.run())
            consumer.only_looks = True


def not_seen_again(run: Run) -> str:
    """What nobody acknowledged must come; what was acknowledged for sure would have failed."""
    if not run.consumers:
        return "nobody looks yet"
    owed = []
    for consumer in run.consumers:
        subscription = consumer.subscription
        missing = sorted(subscription.unacknowledged() - consumer.seen())
        if missing or not consumer.is_attached:
            owed.append(f"lost: {subscription.name} does not deliver {missing[:5]}, "
                        "which nobody acknowledged")  # fmt: skip
    return "; ".join(owed)


def check(run: Run) -> None:
    for topic in run.topics:
        topic.check_order()
    for subscription in run.subscriptions:
        subscription.check_exclusion()
