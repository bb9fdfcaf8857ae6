"""One broker process, put together: each part is handed only what it needs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from anabranch.admin.api import ENDPOINTS
from anabranch.admin.application import Application, HttpLimits
from anabranch.admin.context import Admin
from anabranch.admin.server import HttpServer
from anabranch.broker.catalogue import Catalogue
from anabranch.broker.commands import HANDLERS
from anabranch.broker.config import Config
from anabranch.broker.housekeeping import Housekeeping
from anabranch.broker.ledger_records import StoredLedgerRecords
from anabranch.broker.live_config import LiveConfig
from anabranch.broker.schemas.registry import SchemaRegistry
from anabranch.broker.server import Broker, ServerLimits
from anabranch.broker.tenants import Cluster
from anabranch.metadata.store import MetadataStore
from anabranch.metadata.urls import open_store
from anabranch.runtime.world import World
from anabranch.storage.appender import RollConfig
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import LedgerStore
from anabranch.storage.managed_ledger import ManagedLedgerConfig, Surroundings

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Node:
    config: Config
    world: World
    metadata: MetadataStore
    ledgers: FileLedgerStore
    broker: Broker
    admin: Admin
    http: HttpServer
    housekeeping: asyncio.Task[None]

    async def stop(self) -> None:
        """In good order: what was accepted is answered, what is open is closed."""
        self.housekeeping.cancel()
        await asyncio.wait([self.housekeeping])
        await self.broker.stop()
        await self.admin.stop()
        await self.http.stop()
        await self.ledgers.close()
        await self.metadata.close()


async def start_node(world: World, config: Config) -> Node:
    """Everything embedded, on the world's own disk."""
    metadata = await open_store(config.metadata.url or "sqlite:metadata.db", world)
    ledgers = await FileLedgerStore.start(world, _engine_config(config))
    broker = assemble_broker(world, config, metadata, ledgers)
    server = config.server
    admin = Admin(broker, assemble_config(broker, config, metadata))
    http = HttpServer(assemble_application(admin), max_connections=server.max_http_requests)
    await admin.live.load()
    listener = await broker.listen(server.host, server.port)
    web_listener = await http.listen(world, server.host, server.http_port)
    host = server.advertised_host or _reachable(listener.host)
    broker.service_url = f"pulsar://{host}:{listener.port}"
    admin.http_url = f"http://{host}:{web_listener.port}"
    await broker.catalogue.namespaces.bootstrap(
        Cluster(service_url=admin.http_url, broker_service_url=broker.service_url)
    )
    keeping = Housekeeping(broker, lambda: admin.live.current)
    task = asyncio.create_task(keeping.run(), name="housekeeping")
    return Node(config, world, metadata, ledgers, broker, admin, http, task)


def assemble_config(broker: Broker, config: Config, metadata: MetadataStore) -> LiveConfig:
    async def apply(changed: Config) -> None:
        broker.budget.limit_bytes = changed.server.publish_buffer_mb << 20
        await broker.catalogue.reconfigure(changed.policies(), changed.admin)

    broker.catalogue.limit(config.admin)
    return LiveConfig(metadata, config, apply)


def assemble_application(admin: Admin) -> Application:
    server = admin.live.current.server
    defaults = HttpLimits()
    largest = server.max_http_request_bytes
    return Application(
        admin,
        ENDPOINTS,
        HttpLimits(
            body_bytes=largest if largest > 0 else defaults.body_bytes,
            requests=server.max_http_requests,
        ),
    )


def assemble_broker(
    world: World, config: Config, metadata: MetadataStore, ledgers: LedgerStore
) -> Broker:
    server = config.server
    around = Surroundings(
        ledgers,
        StoredLedgerRecords(metadata),
        world.clock,
        owner=server.cluster,
        config=ManagedLedgerConfig(
            roll=RollConfig(
                max_entries=config.ledgers.max_entries,
                max_bytes=config.ledgers.max_mb << 20,
                max_age_seconds=config.ledgers.max_minutes * 60.0,
                min_age_seconds=config.ledgers.min_minutes * 60.0,
            )
        ),
    )
    return Broker(
        world=world,
        catalogue=Catalogue(metadata, around, config.policies(), cluster=server.cluster),
        schemas=SchemaRegistry(metadata, world.clock),
        config=ServerLimits(
            max_message_bytes=server.max_message_bytes,
            keep_alive_seconds=server.keep_alive_seconds,
            liveness_seconds=server.liveness_check_ms / 1000,
            max_connections=server.max_connections,
            max_connections_per_host=server.max_connections_per_host,
            process_publish_bytes=server.publish_buffer_mb << 20,
        ),
        handlers=HANDLERS,
    )


def _engine_config(config: Config) -> EngineConfig:
    storage = config.storage
    return EngineConfig(
        journal_file_bytes=storage.journal_file_mb << 20,
        journal_files=storage.journal_files,
        group_bytes=storage.group_bytes,
        pending_bytes=storage.pending_bytes,
        cache_bytes=config.ledgers.cache_mb << 20,
    )


def _reachable(host: str) -> str:
    """What a client on this machine can connect to, for an address that means all of them."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
