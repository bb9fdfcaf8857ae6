"""Listening: accept connections, count them, and give each a session."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import Message

from anabranch.broker.catalogue import Catalogue
from anabranch.broker.publish_budget import ProcessBudget
from anabranch.broker.schemas.registry import SchemaRegistry
from anabranch.broker.session import Handler, Session
from anabranch.protocol.connection import SCRATCH_SIZE
from anabranch.runtime.world import Listener, World

log = logging.getLogger(__name__)

# Connections over the limit that may wait to hear so.
MAX_REFUSALS = 100


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_message_bytes: int = 5 * 1024 * 1024
    keep_alive_seconds: float = 30.0
    liveness_seconds: float = 5.0  # to show life when another wants a name or a subscription
    max_connections: int = 10_000
    max_connections_per_host: int = 0  # 0: no limit
    publish_bytes: int = 16 << 20  # on their way to disk, of one connection
    process_publish_bytes: int = 256 << 20
    # Not yet taken by their clients, of one connection and of all of them together.
    write_bytes: int = 4 << 20
    process_write_bytes: int = 256 << 20


@dataclass(slots=True)
class Broker:
    """Everything a session and its commands need."""

    world: World
    catalogue: Catalogue
    schemas: SchemaRegistry
    config: ServerLimits
    handlers: Mapping[type[Message], Handler]
    service_url: str = ""
    scratch: bytearray = field(default_factory=lambda: bytearray(4 * SCRATCH_SIZE))
    budget: ProcessBudget = field(default_factory=ProcessBudget)
    sessions: dict[int, Session] = field(default_factory=dict)
    is_draining: bool = False
    _hosts: Counter[str] = field(default_factory=Counter)
    _number: int = 0
    _listener: Listener | None = None

    def __post_init__(self) -> None:
        self.budget.limit_bytes = self.config.process_publish_bytes

    async def listen(self, host: str, port: int) -> Listener:
        self._listener = await self.world.network.listen(self._new_session, host, port)
        return self._listener

    def _new_session(self) -> asyncio.BaseProtocol:
        self._number += 1
        return Session(self, self._number, self.handlers)

    @property
    def write_limit_bytes(self) -> int:
        """What each connection may have unsent, so that all of them keep within the whole."""
        config = self.config
        # By powers of two, so that a newcomer rarely changes everybody's.
        connections = 1 << len(self.sessions).bit_length()
        return min(config.write_bytes, max(config.process_write_bytes // connections, 1 << 14))

    def joined(self, session: Session) -> None:
        before = self.write_limit_bytes
        self.sessions[session.number] = session
        if self.write_limit_bytes != before:
            for each in self.sessions.values():
                each.set_write_limit(self.write_limit_bytes)
        host = session.peer.rpartition(":")[0]
        self._hosts[host] += 1
        config, connections = self.config, len(self.sessions)
        if connections > config.max_connections > 0:
            session.refusal = f"{config.max_connections} connections are open, no more are taken"
        elif self._hosts[host] > config.max_connections_per_host > 0:
            session.refusal = f"{config.max_connections_per_host} connections from {host} are open"
        # Most are told why, when they say CONNECT; a flood is not worth that.
        if connections > config.max_connections + MAX_REFUSALS > MAX_REFUSALS:
            session.cut(session.refusal)

    def left(self, session: Session) -> None:
        if self.sessions.pop(session.number, None) is not None:
            host = session.peer.rpartition(":")[0]
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]

    async def stop(self) -> None:
        """Take nobody in, unload every topic in good order, then close all connections."""
        self.is_draining = True
        if self._listener is not None:
            await self._listener.close()
        await self.catalogue.topics.close()
        for session in list(self.sessions.values()):
            session.abort("the broker stops")
