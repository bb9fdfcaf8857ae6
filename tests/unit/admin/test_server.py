"""HTTP over transports without sockets: whole requests, silent ones, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from anabranch.admin.server import HttpServer
from anabranch.runtime.world import World
from tests.managed_world import turns


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_reading_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False


@dataclass
class MemoryNetwork:
    factory: Callable[[], Any] | None = None
    is_closed: bool = False
    host: str = "127.0.0.1"
    port: int = 8080
    transports: list[MemoryTransport] = field(default_factory=list)

    async def listen(self, factory: Callable[[], Any], host: str, port: int) -> MemoryNetwork:
        self.factory = factory
        return self

    async def close(self) -> None:
        self.is_closed = True

    def connect(self) -> tuple[Any, MemoryTransport]:
        assert self.factory is not None
        protocol, transport = self.factory(), MemoryTransport()
        protocol.connection_made(transport)
        return protocol, transport


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["raw_path"]})


GET = b"GET /a%2Fb HTTP/1.1\r\nhost: x\r\n\r\n"


def play(
    scenario: Callable[[HttpServer, MemoryNetwork], Awaitable[None]],
    application: Any = hello,
    **options: Any,
) -> None:
    async def run() -> None:
        network = MemoryNetwork()
        server = HttpServer(application, **options)
        world = World(cast(Any, None), cast(Any, None), cast(Any, None), cast(Any, network))
        assert (await server.listen(world, "127.0.0.1", 0)).port == 8080
        try:
            await scenario(server, network)
        finally:
            await server.stop()
        assert network.is_closed

    asyncio.run(run())


def test_a_request_is_answered_with_its_path_as_it_was_sent() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        protocol, transport = network.connect()
        protocol.data_received(GET)
        await turns()
        assert b"200 OK" in transport.written
        assert transport.written.endswith(b"/a%2Fb\r\n0\r\n\r\n")

    play(scenario)


def test_what_is_no_http_is_refused() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        protocol, transport = network.connect()
        protocol.data_received(b"\x00\x00\x00\x09 pulsar \r\n\r\n")
        await turns()
        assert b"400 Bad Request" in transport.written
        assert transport.is_closed

    play(scenario)


def test_headers_without_end_are_refused() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        protocol, transport = network.connect()
        protocol.data_received(b"GET / HTTP/1.1\r\nx: " + b"y" * (65 << 10))
        assert transport.is_closed

    play(scenario)


def test_a_connection_that_sends_no_whole_request_is_closed_at_the_second_sweep() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        protocol, silent = network.connect()
        protocol.data_received(b"GET /slow")
        server.sweep()
        assert not silent.is_closed
        protocol.data_received(b"er")
        server.sweep()
        assert silent.is_closed

    play(scenario)


def test_a_connection_that_asks_now_and_then_stays() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        protocol, transport = network.connect()
        for _ in range(3):
            protocol.data_received(GET)
            await turns()
            server.sweep()
        assert not transport.is_closed

    play(scenario)


def test_so_many_connections_are_taken() -> None:
    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        connected = [network.connect() for _ in range(3)]
        protocol, transport = connected[-1]
        protocol.data_received(GET)
        await turns()
        assert b"503 Service Unavailable" in transport.written

    play(scenario, max_connections=2)


def test_stopping_waits_for_answers_under_way_and_closes_the_rest() -> None:
    gate: asyncio.Future[None] | None = None

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        assert gate is not None
        await gate
        await hello(scope, receive, send)

    async def scenario(server: HttpServer, network: MemoryNetwork) -> None:
        nonlocal gate
        gate = asyncio.get_running_loop().create_future()
        protocol, busy = network.connect()
        _, idle = network.connect()
        protocol.data_received(GET)
        await turns()
        stopping = asyncio.create_task(server.stop())
        await turns()
        assert idle.is_closed
        assert not stopping.done()
        gate.set_result(None)
        await stopping
        assert b"200 OK" in busy.written

    play(scenario, slow)
