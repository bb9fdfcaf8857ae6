"""A whole broker on memory, and clients on pipes: no disk, no sockets, a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, TypeVar, cast

from anabranch.broker.config import load_config
from anabranch.broker.server import Broker
from anabranch.broker.session import Session
from anabranch.broker.tenants import Cluster
from anabranch.broker.topic import Topic
from anabranch.metadata.memory import MemoryTree
from anabranch.node import assemble_broker
from anabranch.runtime.world import Disk, Network, World
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerStore
from anabranch.topics.names import parse_topic_name
from tests.managed_world import ManualClock
from tests.raw_client import RawClient

T = TypeVar("T")
TOPIC = "persistent://public/default/t"


class Pipe(asyncio.Transport):
    """The broker's end: what it writes is read by the client at once, unless that `is_stuck`."""

    def __init__(self, session: Session, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._session = session
        self._reader = reader
        self._arrived: list[bytes] = []  # from the client, while nobody reads
        self._unsent = bytearray()
        self._high_bytes = 1 << 16
        self._is_closing = False
        self.is_read = True
        self.is_stuck = False

    # For the client

    def arrive(self, data: bytes) -> None:
        if not self.is_read:
            self._arrived.append(data)
            return
        while data and not self._is_closing:
            buffer = self._session.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self._session.buffer_updated(count)
            if not self.is_read:
                self._arrived.insert(0, data)
                return

    def get_unstuck(self) -> None:
        self.is_stuck = False
        data, self._unsent = bytes(self._unsent), bytearray()
        self._reader.feed_data(data)
        self._session.resume_writing()

    # For the broker

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("pipe", self._session.number) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_stuck:
            self._unsent += data
            if len(self._unsent) > self._high_bytes:
                self._session.pause_writing()
        else:
            self._reader.feed_data(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(piece) for piece in list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = high or self._high_bytes

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        assert self.is_read, "a transport cannot be paused twice"
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read, "nor resumed twice"
        self.is_read = True
        asyncio.get_running_loop().call_soon(self._take_arrived)

    def _take_arrived(self) -> None:
        arrived, self._arrived = self._arrived, []
        for data in arrived:
            self.arrive(data)

    def close(self) -> None:
        if not self._unsent:
            self.abort()
        self._is_closing = True

    def abort(self) -> None:
        if not self._reader.at_eof():
            self._is_closing = True
            self._reader.feed_eof()
            asyncio.get_running_loop().call_soon(self._session.connection_lost, None)


class PipeWriter:
    """The client's end."""

    def __init__(self, pipe: Pipe) -> None:
        self.transport = pipe

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.arrive(data)

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.write(b"".join(pieces))

    def close(self) -> None:
        self.transport.abort()


class BrokerWorld:
    def __init__(self, settings: Sequence[str] = (), disk: MemoryDisk | None = None) -> None:
        self.clock = ManualClock()
        self.disk = disk or MemoryDisk()
        self.tree = MemoryTree(self.clock)
        self._settings = settings
        self.start_again()

    def start_again(self) -> None:
        """Another process on what the last one left behind."""
        self.store = MemoryLedgerStore(self.disk)
        self.metadata = self.tree.open_session()
        world = World(self.clock, Random(1), cast(Disk, None), cast(Network, None))
        config = load_config("", self._settings)
        self.broker: Broker = assemble_broker(world, config, self.metadata, self.store)
        self.broker.service_url = "pulsar://broker:6650"

    async def begin(self) -> None:
        await self.broker.catalogue.namespaces.bootstrap(Cluster())

    async def crash(self) -> None:
        """Whatever was not answered may be lost, or not."""
        self.store.crash()
        for topic in self.broker.catalogue.topics.loaded.values():
            topic.ledger.abandon("the process died")
        for session in list(self.broker.sessions.values()):
            session.cut("the process died")
        self.start_again()
        await self.begin()

    async def client(self) -> RawClient:
        found, _ = await self.client_and_pipe()
        return found

    async def client_and_pipe(self) -> tuple[RawClient, Pipe]:
        session = cast(Session, self.broker._new_session())
        reader = asyncio.StreamReader(limit=1 << 30)
        pipe = Pipe(session, reader)
        session.connection_made(pipe)
        client = RawClient(reader, cast(asyncio.StreamWriter, PipeWriter(pipe)))
        await client.handshake()
        return client, pipe

    async def topic(self, name: str = TOPIC) -> Topic:
        return await self.broker.catalogue.open_topic(parse_topic_name(name))


def play(scenario: Callable[[BrokerWorld], Awaitable[T]], *settings: str) -> T:
    async def run() -> T:
        world = BrokerWorld(settings)
        await world.begin()
        try:
            async with asyncio.timeout(30):
                return await scenario(world)
        finally:
            await world.broker.stop()

    return asyncio.run(run())
