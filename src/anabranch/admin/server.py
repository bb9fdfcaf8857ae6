"""The HTTP server: uvicorn's protocol on a listener of ours.

uvicorn's own server would open sockets and take the process's signals. Its protocol class needs
neither: one of it for each connection, an ASGI application behind it, and the listener comes from
the network of the world, like that of the binary protocol.

Connections are bounded in number, and one that has not sent a whole request within two sweeps is
closed: uvicorn's own timer stops at the first byte.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from anabranch.runtime.world import Listener, World

KEEP_ALIVE_SECONDS: Final = 60
SWEEP_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 5.0
HEADER_BYTES: Final = 64 << 10


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
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
        self._config.load()
        self._state = ServerState()
        self._listener: Listener | None = None
        self._waiting: dict[H11Protocol, object] = {}  # for a request, at the last sweep
        self._sweep: asyncio.TimerHandle | None = None

    async def listen(self, world: World, host: str, port: int) -> Listener:
        self._listener = await world.network.listen(self._new_connection, host, port)
        self._set_sweep()
        return self._listener

    def _new_connection(self) -> asyncio.BaseProtocol:
        return H11Protocol(config=self._config, server_state=self._state, app_state={})

    def _connections(self) -> list[H11Protocol]:
        return [each for each in self._state.connections if isinstance(each, H11Protocol)]

    def _set_sweep(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.sweep)

    def sweep(self) -> None:
        """Close whoever waited for the same request at the last sweep already."""
        waiting: dict[H11Protocol, object] = {}
        for connection in self._connections():
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete:
                continue
            if connection in self._waiting and self._waiting[connection] is cycle:
                connection.transport.abort()
            else:
                waiting[connection] = cycle
        self._waiting = waiting
        self._set_sweep()

    async def stop(self) -> None:
        """Take nobody in, and let those who were heard have their answers."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            await self._listener.close()
        for connection in self._connections():
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
        # What is left are answers that their clients do not take.
        for connection in self._connections():
            connection.transport.abort()
