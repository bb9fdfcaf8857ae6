"""The HTTP server: uvicorn's protocol on a listener of ours.

uvicorn's own server would open sockets and take the process's signals. Its protocol class needs
neither: one of it for each connection, an ASGI application behind it, and the listener comes from
the network of the world, like that of the binary protocol.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from anabranch.runtime.world import Listener, World

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 60
DRAIN_SECONDS = 5.0


class HttpServer:
    def __init__(self, application: Any, *, max_connections: int = 1024) -> None:
        self._config = Config(
            application,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=max_connections,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=64 << 10,
        )
        self._config.load()
        self._state = ServerState()
        self._listener: Listener | None = None

    async def listen(self, world: World, host: str, port: int) -> Listener:
        self._listener = await world.network.listen(self._new_connection, host, port)
        return self._listener

    def _new_connection(self) -> asyncio.BaseProtocol:
        return H11Protocol(config=self._config, server_state=self._state, app_state={})

    async def stop(self) -> None:
        """Take nobody in, and let those who were heard have their answers."""
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
        # What is left are answers that their clients do not take.
        for connection in list(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()
