"""The broker as a simulated process: everything of a node but its HTTP server.

It is assembled the way node.py does it, on an engine so small that files are switched all the
time. A disk that fails ends the process, as an operator's supervisor would see it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

from anabranch.broker.config import Config
from anabranch.broker.housekeeping import Housekeeping
from anabranch.broker.server import Broker
from anabranch.broker.tenants import Cluster
from anabranch.errors import AnabranchError
from anabranch.metadata.store import MetadataStore
from anabranch.metadata.urls import open_store
from anabranch.node import assemble_broker
from anabranch.runtime.world import World
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from tests.simulation.broker.link import PORT
from tests.simulation.machine import Machine
from tests.simulation.process import Process

LOOK_SECONDS = 0.5


class Service:
    """The experimenter's handle of it, through all its lives."""

    def __init__(self, machine: Machine, config: Config, engine: EngineConfig) -> None:
        self.machine = machine
        self.config = config
        self.engine = engine
        self.broker: Broker | None = None
        self.failure: BaseException | None = None
        self._process: Process | None = None
        self._is_asked_to_stop = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        assert not self.is_running
        self.broker, self.failure = None, None
        self._is_asked_to_stop = asyncio.Event()
        self._process = self.machine.spawn(self._live)

    async def stop(self) -> None:
        """SIGTERM: it ends by itself, in good order."""
        if self._process is not None and self._process.alive:
            self._is_asked_to_stop.set()
            await self._process.exited()

    def unload_everything(self) -> None:
        """An operator's command, carried out inside the process."""
        if self.broker is not None and self._process is not None and self._process.alive:
            work = self._unload(self.broker)
            asyncio.get_running_loop().create_task(work, context=self._process.context)

    async def _unload(self, broker: Broker) -> None:
        for topic in list(broker.catalogue.topics.loaded.values()):
            try:
                await broker.catalogue.topics.unload(topic.name)
            except AnabranchError as error:
                self.failure = self.failure or error

    async def _live(self, world: World) -> None:
        try:
            await self._serve(world)
        except (AnabranchError, OSError) as failure:
            self.failure = failure

    async def _serve(self, world: World) -> None:
        metadata = await open_store("sqlite:metadata.db", world)
        ledgers = await FileLedgerStore.start(world, self.engine)
        broker = assemble_broker(world, self.config, metadata, ledgers)
        await broker.listen("0.0.0.0", PORT)
        broker.service_url = f"pulsar://broker:{PORT}"
        await broker.catalogue.namespaces.bootstrap(
            Cluster(service_url="http://broker:8080", broker_service_url=broker.service_url)
        )
        self.broker = broker
        keeping = asyncio.create_task(Housekeeping(broker, lambda: self.config).run())
        await self._is_asked_to_stop.wait()
        keeping.cancel()
        await asyncio.wait([keeping])
        await _close(broker, ledgers, metadata)


async def _close(broker: Broker, ledgers: FileLedgerStore, metadata: MetadataStore) -> None:
    await broker.stop()
    await ledgers.close()
    await metadata.close()


def small_engine(random: Random) -> EngineConfig:
    return EngineConfig(
        journal_file_bytes=random.choice((9000, 20_000, 60_000)),
        journal_files=random.randint(2, 4),
        group_bytes=random.choice((1, 1000, 8192)),
        pending_bytes=60_000,
        owed_bytes=60_000,
        cache_bytes=random.choice((0, 1000, 30_000)),
        reserve_bytes=0,
        open_files=random.choice((2, 10)),
        indexes=random.choice((1, 10)),
        retry_seconds=0.25,
    )


def small_broker(random: Random, *, deduplicate: bool) -> Config:
    config = Config()
    return replace(
        config,
        ledgers=replace(
            config.ledgers,
            max_entries=random.choice((4, 20, 1000)),
            min_minutes=0,
            max_minutes=10,
        ),
        topics=replace(
            config.topics,
            deduplicate=deduplicate,
            deduplication_snapshot_seconds=random.choice((1, 120)),
        ),
        deduplication=replace(config.deduplication, check_seconds=random.choice((1, 120))),
        housekeeping=replace(config.housekeeping, retention_seconds=random.choice((1, 5, 120))),
    )
