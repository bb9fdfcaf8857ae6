"""A broker that runs on a simulated machine, for stories told step by step instead of by a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anabranch.broker.config import Config
from anabranch.broker.server import Broker
from anabranch.broker.session import Session
from anabranch.broker.topic import Topic
from anabranch.protocol import wire_pb2
from anabranch.runtime.world import World
from anabranch.storage.engine_config import EngineConfig
from tests.simulation.broker.link import Client
from tests.simulation.broker.service import Service
from tests.simulation.broker.subscription_history import SubType
from tests.simulation.world import SimulatedWorld, run

TOPIC = "persistent://public/default/t"
Scene = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A broker that runs, and clients on machines of their own."""

    def __init__(self, world: SimulatedWorld, config: Config) -> None:
        self.world = world
        engine = EngineConfig(journal_file_bytes=1 << 20, reserve_bytes=0)
        self.service = Service(world.machine("broker"), config, engine)
        self.service.start()

    async def client(self, host: str) -> Client:
        """A client inside a process of that machine, connected."""
        made: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        async def live(world: World) -> None:
            made.set_result(Client(world))
            await asyncio.sleep(1e6)

        self.world.machine(host).spawn(live)
        return await made

    async def started(self) -> None:
        while self.service.broker is None:  # noqa: ASYNC110  # a process says when, not an event
            await asyncio.sleep(0.01)

    @property
    def broker(self) -> Broker:
        assert self.service.broker is not None
        return self.service.broker

    @property
    def topic(self) -> Topic:
        return self.broker.catalogue.topics.loaded[TOPIC]

    @property
    def sessions(self) -> list[Session]:
        return list(self.broker.sessions.values())


def on_stage(scene: Scene, config: Config | None = None) -> None:
    async def scenario(world: SimulatedWorld) -> None:
        stage = Stage(world, config or Config())
        await stage.started()
        await scene(stage)

    run(1, scenario)


def producer_command(name: str) -> wire_pb2.CommandProducer:
    return wire_pb2.CommandProducer(topic=TOPIC, producer_id=1, producer_name=name, epoch=1)


def subscribe_command() -> wire_pb2.CommandSubscribe:
    return wire_pb2.CommandSubscribe(
        topic=TOPIC, subscription="s", subType=SubType.Exclusive, consumer_id=1
    )
