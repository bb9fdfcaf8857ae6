"""Frames between two machines over a network that cuts, parts and forgets.

The client sends numbered frames and keeps at most a window of them unanswered; the server echoes.
After every loss the client connects anew and goes on. What must hold, per connection: what arrives
is a prefix of what was sent, byte for byte, in order; nothing is invented. And in the end, after
the network has healed, every frame has been answered: no wait without an end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from anabranch.runtime.world import World
from tests.simulation.world import SimulatedWorld

PORT = 6650
HEADER = 8  # four bytes of length, four of number
WINDOW = 8
SILENCE_SECONDS = 5.0  # the client's own patience: a silent connection is given up


def frame(number: int) -> bytes:
    body = bytes([number % 251]) * (number * 37 % 400)
    return len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + body


class FrameParser:
    """Cuts a stream into frames, and holds each to what `frame` makes of its number."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, data: bytes) -> list[int]:
        self._bytes += data
        numbers = []
        while len(self._bytes) >= HEADER:
            size = HEADER + int.from_bytes(self._bytes[:4], "big")
            assert size <= HEADER + 400, f"a frame nobody sent: {self._bytes[:HEADER]!r}"
            if len(self._bytes) < size:
                break
            number = int.from_bytes(self._bytes[4:8], "big")
            assert self._bytes[:size] == frame(number), f"frame {number} has changed on its way"
            numbers.append(number)
            self._bytes = self._bytes[size:]
        return numbers


class EchoServer(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = FrameParser()
        self._last = -1

    def data_received(self, data: bytes) -> None:
        for number in self._parser.feed(data):
            assert number == self._last + 1 or self._last == -1, f"{number} after {self._last}"
            self._last = number
            self._transport.write(frame(number))

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()


@dataclass(eq=False)
class EchoClient(asyncio.Protocol):
    """One connection; `next` is the first frame without an answer."""

    next: int
    total: int
    sent: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    parser: FrameParser = field(default_factory=FrameParser)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.sent = self.next
        self._fill_window()

    def data_received(self, data: bytes) -> None:
        for number in self.parser.feed(data):
            assert number == self.next < self.sent, f"{number} answered, {self.next} was next"
            self.next += 1
        self._fill_window()
        self.changed.set()

    def connection_lost(self, error: Exception | None) -> None:
        assert not self.is_lost, "connection_lost twice"
        self.is_lost = True
        self.changed.set()

    def _fill_window(self) -> None:
        while self.sent < min(self.total, self.next + WINDOW):
            self.transport.write(frame(self.sent))
            self.sent += 1


async def echo_through_a_bad_network(world: SimulatedWorld) -> None:
    total = world.random.randint(20, 120)
    server, client = world.machine("server"), world.machine("client")
    server.spawn(serve)
    process = client.spawn(lambda inner: send_all(inner, total))
    nemesis = asyncio.create_task(break_things(world))
    async with asyncio.timeout(3600):
        assert await process.exited() == "exited"
    nemesis.cancel()


async def serve(world: World) -> None:
    await world.network.listen(EchoServer, "0.0.0.0", PORT)
    await asyncio.sleep(1e6)


async def send_all(world: World, total: int) -> None:
    answered = 0
    while answered < total:
        try:
            _, client = await world.network.connect(
                lambda first=answered: EchoClient(first, total),  # type: ignore[misc]
                "server",
                PORT,
            )
        except OSError:
            await asyncio.sleep(world.random.random())
            continue
        await follow(client)
        assert client.next >= answered
        answered = client.next
        client.transport.abort()


async def follow(client: EchoClient) -> None:
    while not client.is_lost and client.next < client.total:
        client.changed.clear()
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                await client.changed.wait()
        except TimeoutError:
            return


async def break_things(world: SimulatedWorld) -> None:
    """A while of faults, then peace: whatever was broken heals, and all must be answered."""
    for _ in range(world.random.randint(1, 6)):
        await asyncio.sleep(world.random.random() * world.random.choice((0.01, 0.1, 3)))
        break_one(world, world.random)
    await asyncio.sleep(world.random.random() * 10)
    world.network.heal()
    if not any(process.alive for process in world.machine("server").processes):
        world.machine("server").spawn(serve)
    world.machine("server").resume()


def break_one(world: SimulatedWorld, random: Random) -> None:
    network, server = world.network, world.machine("server")
    connections = network.connections
    match random.choice(("cut", "cut", "lose", "part", "block", "heal", "kill", "off", "pause")):
        case "cut" if connections:
            network.cut(random.choice(connections))
        case "lose" if connections:
            network.lose(random.choice(connections))
        case "part":
            network.partition("client", "server")
        case "block":
            network.block(*random.choice((("client", "server"), ("server", "client"))))
        case "kill":
            server.kill()
            server.spawn(serve)
        case "off":
            server.power_off()
        case "pause":
            server.pause()
        case _:
            network.heal()
