"""The real clock, randomness and sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from anabranch.runtime.system import system_world


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.answer.set_result(data)


def test_port_zero_picks_a_free_port_that_answers(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        network = system_world(tmp_path).network
        listener = await network.listen(Echo, "127.0.0.1", 0)
        transport, caller = await network.connect(Caller, listener.host, listener.port)
        transport.write(b"hello")
        async with asyncio.timeout(10):
            answer = await caller.answer
        transport.close()
        await listener.close()
        return answer

    assert asyncio.run(scenario()) == b"hello"


def test_clocks_agree_with_each_other_in_direction(tmp_path: Path) -> None:
    clock = system_world(tmp_path).clock
    first = clock.wall_ms(), clock.monotonic()
    second = clock.wall_ms(), clock.monotonic()
    assert first[1] <= second[1]
    assert abs(second[0] - first[0]) < 60_000
