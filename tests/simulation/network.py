"""Hosts, links, listeners and connections, all in memory.

Each direction of a connection is a pipe: first in, first out, each piece late by its own latency,
so connections overtake one another and bytes within one never do. Pieces arrive split and joined
at random, as TCP may. What can go wrong, and how it shows:

- partition, one way or both: bytes wait, and arrive after `heal`; a sender whose bytes wait too
  long gets TimeoutError, its peer hears nothing; connecting times out;
- `cut`: any part of what was under way still arrives, then both sides are reset;
- `lose`: silence; the connection looks alive at both ends for ever, or until a sender gives up;
- a killed process: its peers see the end or a reset; a host without power: silence, and a reset
  for whoever still speaks to it once it is back.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from anabranch.runtime.world import P
from tests.simulation.loop import SimulatedLoop
from tests.simulation.process import Process
from tests.simulation.trace import Trace
from tests.simulation.transport import Address, SimulatedTransport

GIVE_UP_SECONDS = 30.0
CONNECT_SECONDS = 20.0
FIRST_FREE_PORT = 49_152
_SELF = ("localhost", "127.0.0.1")
_ANY = ("", "0.0.0.0", "::")


@dataclass
class LinkFaults:
    latency_seconds: float = 0.001
    spike_chance: float = 0.02  # a piece that is late by fifty times as much
    bytes_per_second: float = float("inf")


class Pipe:
    """One direction of a connection. `None` in the queue is the end of the stream."""

    def __init__(self, fabric: Fabric, source: str, target: str) -> None:
        self._fabric = fabric
        self.source = source
        self.target = target
        self.sender: SimulatedTransport | None = None
        self.receiver: SimulatedTransport | None = None
        self.is_lost = False
        self._is_cut = False
        self._queue: deque[bytes | None] = deque()
        self._arrived = 0  # how many of the queue's pieces the receiver may have
        self._last_due = 0.0
        self._impatience: asyncio.TimerHandle | None = None

    def send(self, piece: bytes | None) -> None:
        if self._is_cut:
            return  # the sender has not heard yet; behind a gap nothing may arrive
        fabric = self._fabric
        due = fabric.loop.time() + fabric.latency(self.source, self.target, len(piece or b""))
        self._last_due = max(self._last_due, due)
        self._queue.append(piece)
        fabric.loop.call_kernel_at(self._last_due, self._arrive)

    def _arrive(self) -> None:
        if self._is_stuck():
            self._begin_to_wait()
        elif self.receiver is not None and not self.receiver.process.alive:
            self._fabric.reset_later(self.sender)  # "nobody here knows this connection"
        else:
            self._arrived = min(self._arrived + 1, len(self._queue))
            self.wake()

    def _is_stuck(self) -> bool:
        return self.is_lost or self._fabric.is_blocked(self.source, self.target)

    def _begin_to_wait(self) -> None:
        if self._impatience is None:
            when = self._fabric.loop.time() + GIVE_UP_SECONDS
            self._impatience = self._fabric.loop.call_kernel_at(when, self._give_up)

    def _give_up(self) -> None:
        self._impatience = None
        if self._is_stuck() and self.sender is not None:
            self.sender.fail_soon(TimeoutError(110, "no answer from the peer"))

    def retry(self) -> None:
        """After `heal`: everything that waits travels again."""
        if self._queue and not self._is_stuck():
            self._fabric.loop.call_kernel_at(
                self._fabric.loop.time() + self._fabric.latency(self.source, self.target, 0),
                self._arrive_all,
            )

    def _arrive_all(self) -> None:
        if not self._is_stuck():
            self._arrived = max(0, len(self._queue) - 1)
            self._arrive()

    def wake(self) -> None:
        if self.receiver is not None and self._arrived:
            self.receiver.pump_soon()

    def take(self) -> bytes | None:
        """The next arrived bytes, split or joined at random; None at the end of the stream."""
        random = self._fabric.random
        piece = self._queue.popleft()
        self._arrived -= 1
        if piece is None:
            return None
        if self._arrived and self._queue[0] is not None and random.random() < 0.3:
            piece += self._queue.popleft() or b""
            self._arrived -= 1
        if len(piece) > 1 and random.random() < 0.3:
            cut = random.randrange(1, len(piece))
            self._queue.appendleft(piece[cut:])
            self._arrived += 1
            piece = piece[:cut]
        if self.sender is not None:
            self.sender.taken_soon(len(piece))
        what = f"from {self.source}: {len(piece)} bytes {zlib.crc32(piece):08x}"
        self._fabric.trace.note(self.target, what)
        return piece

    @property
    def has_arrived(self) -> bool:
        return self._arrived > 0

    def cut(self) -> None:
        """Of what is under way some prefix still arrives, perhaps half a frame; then no more."""
        waiting = b"".join(piece or b"" for piece in self._queue)
        kept = waiting[: self._fabric.random.randint(0, len(waiting))]
        self._is_cut = True
        self._queue = deque([kept] if kept else [])
        self._arrived = len(self._queue)
        self.wake()


@dataclass(eq=False)
class Connection:
    there: Pipe  # from the one that connected
    back: Pipe

    def pipes(self) -> tuple[Pipe, Pipe]:
        return self.there, self.back

    def joins(self, first: str, second: str) -> bool:
        return {self.there.source, self.there.target} == {first, second}


@dataclass(eq=False)
class Listener:
    fabric: Fabric
    process: Process
    factory: Callable[[], asyncio.BaseProtocol]
    host: str
    port: int

    async def close(self) -> None:
        self.fabric.forget(self)

    def accept(self, connection: Connection, peer: Address) -> None:
        transport = SimulatedTransport(
            self.fabric.loop,
            self.process,
            connection.back,
            connection.there,
            local=(self.host, self.port),
            remote=peer,
        )
        transport.begin(self.factory())


@dataclass
class Fabric:
    """Every host and every link between them."""

    random: Random
    loop: SimulatedLoop
    trace: Trace
    faults: LinkFaults = field(default_factory=LinkFaults)
    listeners: dict[Address, Listener] = field(default_factory=dict)
    connections: list[Connection] = field(default_factory=list)
    _blocked: set[tuple[str, str]] = field(default_factory=set)
    _off: set[str] = field(default_factory=set)
    _next_port: int = FIRST_FREE_PORT

    def attach(self, host: str, process: Process) -> ProcessNetwork:
        process.at_death.append(lambda: self._close_sockets(host, process))
        return ProcessNetwork(self, host, process)

    def partition(self, first: str, second: str) -> None:
        self.block(first, second)
        self.block(second, first)

    def block(self, source: str, target: str) -> None:
        """A one-way partition: what `source` sends no longer reaches `target`."""
        self.trace.note("network", f"{source} -x-> {target}")
        self._blocked.add((source, target))

    def heal(self) -> None:
        self.trace.note("network", "heals")
        self._blocked.clear()
        for connection in self.connections:
            for pipe in connection.pipes():
                pipe.retry()

    def cut(self, connection: Connection) -> None:
        self.trace.note("network", f"cut {connection.there.source}-{connection.there.target}")
        for pipe in connection.pipes():
            pipe.cut()
        for pipe in connection.pipes():
            if pipe.receiver is not None:
                pipe.receiver.fail_soon(ConnectionResetError(104, "Connection reset by peer"))
        self.connections.remove(connection)

    def lose(self, connection: Connection) -> None:
        self.trace.note("network", f"lose {connection.there.source}-{connection.there.target}")
        for pipe in connection.pipes():
            pipe.is_lost = True

    def power_off(self, host: str) -> None:
        self._off.add(host)

    def power_on(self, host: str) -> None:
        self._off.discard(host)

    def is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked or target in self._off or source in self._off

    def latency(self, source: str, target: str, size: int) -> float:
        if source == target:
            return self.random.uniform(0.00001, 0.0001)
        rare = 50.0 if self.random.random() < self.faults.spike_chance else 1.0
        travel = self.faults.latency_seconds * self.random.uniform(0.1, 2.0) * rare
        return travel + size / self.faults.bytes_per_second

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def forget(self, listener: Listener) -> None:
        if self.listeners.get((listener.host, listener.port)) is listener:
            del self.listeners[(listener.host, listener.port)]

    def reset_later(self, transport: SimulatedTransport | None) -> None:
        if transport is not None:
            when = self.loop.time() + self.latency("", "-", 0)
            error = ConnectionResetError(104, "Connection reset by peer")
            self.loop.call_kernel_at(when, transport.fail_soon, error)

    def forget_closed(self) -> None:
        self.connections = [each for each in self.connections if not _is_over(each)]

    def _close_sockets(self, host: str, process: Process) -> None:
        for listener in [each for each in self.listeners.values() if each.process is process]:
            self.forget(listener)
        if host in self._off:
            return
        for connection in self.connections:
            for pipe in connection.pipes():
                if pipe.sender is not None and pipe.sender.process is process:
                    self._close_socket(pipe)

    def _close_socket(self, pipe: Pipe) -> None:
        """Linux sends a reset if there is something unread, else the end of the stream."""
        if self.random.random() < 0.5:
            self.reset_later(pipe.receiver)
        else:
            pipe.send(None)


def _is_over(connection: Connection) -> bool:
    ends = (connection.there.sender, connection.back.sender)
    return all(end is not None and end.is_over for end in ends)


@dataclass(frozen=True, slots=True)
class ProcessNetwork:
    fabric: Fabric
    host: str
    process: Process

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> Listener:
        self.process.check()
        if host not in (self.host, *_SELF, *_ANY):
            raise OSError(99, f"Cannot assign requested address {host}")
        port = port or self.fabric.free_port()
        if (self.host, port) in self.fabric.listeners:
            raise OSError(98, f"Address {self.host}:{port} already in use")
        listener = Listener(self.fabric, self.process, factory, self.host, port)
        self.fabric.listeners[(self.host, port)] = listener
        return listener

    async def connect(
        self, factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        self.process.check()
        fabric = self.fabric
        target = self.host if host in _SELF else host
        await self._travel(self.host, target)
        listener = fabric.listeners.get((target, port))
        if listener is None:
            await self._travel(target, self.host)
            raise ConnectionRefusedError(111, f"Connection refused by {target}:{port}")
        local = (self.host, fabric.free_port())
        connection = self._open(listener, local)
        await self._travel(target, self.host)
        transport = SimulatedTransport(
            fabric.loop,
            self.process,
            connection.there,
            connection.back,
            local=local,
            remote=(target, port),
        )
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol

    def _open(self, listener: Listener, local: Address) -> Connection:
        fabric = self.fabric
        fabric.forget_closed()
        connection = Connection(
            there=Pipe(fabric, self.host, listener.host),
            back=Pipe(fabric, listener.host, self.host),
        )
        fabric.connections.append(connection)
        fabric.trace.note(self.process.name, f"connects to {listener.host}:{listener.port}")
        fabric.loop.call_soon(listener.accept, connection, local, context=listener.process.context)
        return connection

    async def _travel(self, source: str, target: str) -> None:
        """One way of the handshake; tried again and again while the way is blocked."""
        deadline = self.fabric.loop.time() + CONNECT_SECONDS
        await asyncio.sleep(self.fabric.latency(source, target, 0))
        while self.fabric.is_blocked(source, target):
            if self.fabric.loop.time() > deadline:
                raise TimeoutError(110, f"{target} does not answer")
            await asyncio.sleep(1.0)
        self.process.check()
