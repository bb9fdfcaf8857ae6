"""A broker without disk or sockets, and its admin API, called as a client would call it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, TypeVar, cast

import httpx

from anabranch.admin.api import ENDPOINTS
from anabranch.admin.application import Application, HttpLimits
from anabranch.admin.context import Admin
from anabranch.broker.config import load_config
from anabranch.broker.housekeeping import Housekeeping
from anabranch.broker.tenants import Cluster
from anabranch.broker.topic import Topic
from anabranch.metadata.memory import MemoryTree
from anabranch.node import assemble_broker, assemble_config
from anabranch.runtime.world import Disk, Network, World
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerStore
from anabranch.topics.names import parse_topic_name
from anabranch.topics.positions import EARLIEST
from tests.managed_world import ManualClock, draft

T = TypeVar("T")
V2 = "/admin/v2"
SPACE = "public/default"


class AdminWorld:
    def __init__(self, settings: Sequence[str] = (), limits: HttpLimits | None = None) -> None:
        self.clock = ManualClock()
        self.config = load_config("", settings)
        self.metadata = MemoryTree(self.clock).open_session()
        world = World(self.clock, Random(1), cast(Disk, None), cast(Network, None))
        store = MemoryLedgerStore(MemoryDisk())
        self.broker = assemble_broker(world, self.config, self.metadata, store)
        self.broker.service_url = "pulsar://broker:6650"
        live = assemble_config(self.broker, self.config, self.metadata)
        self.admin = Admin(self.broker, live, http_url="http://broker:8080")
        self.application = Application(self.admin, ENDPOINTS, limits)
        self.keeping = Housekeeping(self.broker, lambda: self.admin.live.current)
        transport = httpx.ASGITransport(app=cast(Any, self.application))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://broker:8080")

    async def start(self) -> None:
        await self.admin.live.load()
        await self.broker.catalogue.namespaces.bootstrap(Cluster())

    async def stop(self) -> None:
        await self.admin.stop()
        await self.broker.stop()
        await self.http.aclose()

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        """`path` begins behind /admin/v2, or with // for one that does not."""
        url = path[1:] if path.startswith("//") else V2 + path
        return await self.http.request(method, url, **more)

    async def done(self, method: str, path: str, json: Any = None) -> None:
        reply = await self.call(method, path, json=json)
        assert reply.status_code == 204, (reply.status_code, reply.text)
        assert reply.content == b""

    async def ask(self, path: str, **params: str) -> Any:
        reply = await self.call("GET", path, params=params)
        assert reply.status_code == 200, (reply.status_code, reply.text)
        return reply.json()

    async def refused(
        self, status: int, method: str, path: str, json: Any = None, **more: Any
    ) -> str:
        if json is not None:
            more["json"] = json
        reply = await self.call(method, path, **more)
        assert reply.status_code == status, (reply.status_code, reply.text)
        reason: str = reply.json()["reason"]
        assert reason
        return reason

    async def topic(self, name: str = "x") -> Topic:
        return await self.broker.catalogue.open_topic(
            parse_topic_name(f"persistent://{SPACE}/{name}")
        )

    async def publish(self, count: int, name: str = "x", size: int = 100) -> Topic:
        """So many entries, one each second."""
        topic = await self.topic(name)
        for number in range(count):
            self.clock.now_ms += 1000
            await topic.submit([draft(f"{number}".ljust(size), self.clock.now_ms)], size)
        return topic

    async def subscribe(self, name: str = "s", topic: str = "x") -> None:
        await (await self.topic(topic)).open_subscription(name, EARLIEST)


def play(scenario: Callable[[AdminWorld], Awaitable[T]], *settings: str, **more: Any) -> T:
    async def run() -> T:
        world = AdminWorld(settings, **more)
        await world.start()
        try:
            return await scenario(world)
        finally:
            await world.stop()

    return asyncio.run(run())
