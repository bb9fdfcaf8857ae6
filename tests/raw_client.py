"""A client that can do what no proper client does: one connection, every command, no manners.

It speaks through `anabranch.protocol.Connection` in the client's role, or, with `write`, past it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf.message import Message

from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command
from anabranch.protocol.connection import Broken, Connection, Deliveries, Receipts
from anabranch.protocol.entries import build_entry
from anabranch.protocol.handshake import Role
from anabranch.protocol.wire_codec import Ack, Delivery, Receipt, Send, WireId

WAIT_SECONDS = 20.0

SubType = wire_pb2.CommandSubscribe.SubType
Earliest = wire_pb2.CommandSubscribe.InitialPosition.Earliest


class Gone(Exception):
    """The broker closed the connection."""


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection = Connection(Role.CLIENT)
        self.deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
        self.receipts: asyncio.Queue[Receipt] = asyncio.Queue()
        self.pushed: asyncio.Queue[Message] = asyncio.Queue()  # what answers no request
        self.answers_pings = True
        self._reader = reader
        self._writer = writer
        self._requests = 0
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # The connection

    async def handshake(self) -> wire_pb2.CommandConnected:
        self.listen()
        self.send(wire_pb2.CommandConnect(client_version="raw 1", protocol_version=21))
        answer = await self.next_pushed()
        assert isinstance(answer, wire_pb2.CommandConnected), answer
        return answer

    def listen(self) -> None:
        """Read without a handshake of ours."""
        self._task = asyncio.create_task(self._read())

    def flush(self) -> None:
        if self.is_gone:
            raise Gone
        self._writer.writelines([bytes(piece) for piece in self.connection.data_to_send()])

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def pause(self) -> None:
        """Read no more: from here on the broker's bytes pile up."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 18):
                for event in self.connection.receive(data):
                    self._handle(event)
        except ConnectionError:
            pass
        finally:
            self._gone.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(Gone())

    def _handle(self, event: object) -> None:
        match event:
            case Deliveries(deliveries):
                for delivery in deliveries:
                    self.deliveries.put_nowait(delivery)
            case Receipts(receipts):
                for receipt in receipts:
                    self.receipts.put_nowait(receipt)
            case Command(_, message):
                self._answer(message)
            case Broken(error):
                raise error

    def _answer(self, message: Message) -> None:
        if isinstance(message, wire_pb2.CommandPing):
            if self.answers_pings:
                self.send(wire_pb2.CommandPong())
            return
        number = getattr(message, "request_id", None)
        future = self._waiting.pop(number, None) if number is not None else None
        if future is None:
            self.pushed.put_nowait(message)
        elif not future.done():
            future.set_result(message)

    async def closed(self) -> None:
        """Until the broker has closed it."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._gone.wait()

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    async def close(self) -> None:
        self._writer.close()
        if self._task is not None:
            self._task.cancel()

    # Commands

    def send(self, message: Message) -> None:
        self.connection.send(message)
        self.flush()

    def start(self, message: Any) -> asyncio.Future[Message]:
        """Send a request; the future has its answer."""
        self._requests += 1
        message.request_id = self._requests
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[self._requests] = future
        self.send(message)
        return future

    async def ask(self, message: Any) -> Any:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.start(message)

    async def next_pushed(self) -> Any:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.pushed.get()

    async def next_delivery(self) -> Delivery:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.deliveries.get()

    async def next_receipt(self) -> Receipt:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.receipts.get()

    async def produce(self, topic: str, producer_id: int = 0, **fields: Any) -> Any:
        return await self.ask(
            wire_pb2.CommandProducer(topic=topic, producer_id=producer_id, request_id=0, **fields)
        )

    async def subscribe(
        self,
        topic: str,
        subscription: str = "s",
        consumer_id: int = 0,
        kind: SubType = SubType.Exclusive,
        **fields: Any,
    ) -> Any:
        return await self.ask(
            wire_pb2.CommandSubscribe(
                topic=topic,
                subscription=subscription,
                subType=kind,
                consumer_id=consumer_id,
                request_id=0,
                **fields,
            )
        )

    def publish(
        self, content: bytes, producer_id: int = 0, sequence_id: int = 0, **metadata: Any
    ) -> None:
        """Without waiting for the receipt, nor for the write."""
        send = Send()
        send.producer_id, send.sequence_id = producer_id, sequence_id
        self.connection.send_entry(send, entry(content, sequence_id=sequence_id, **metadata))
        self.flush()

    def flow(self, permits: int, consumer_id: int = 0) -> None:
        self.connection.send_flow(consumer_id, permits)
        self.flush()

    def acknowledge(self, *ids: WireId, consumer_id: int = 0) -> None:
        self.connection.send_ack(_ack(consumer_id, ids))
        self.flush()

    async def acknowledge_surely(self, *ids: WireId, consumer_id: int = 0) -> Any:
        """With a receipt."""
        self._requests += 1
        ack = _ack(consumer_id, ids)
        ack.has_request_id, ack.request_id = True, self._requests
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[self._requests] = future
        self.connection.send_ack(ack)
        self.flush()
        async with asyncio.timeout(WAIT_SECONDS):
            return await future


def _ack(consumer_id: int, ids: tuple[WireId, ...]) -> Ack:
    ack = Ack()
    ack.consumer_id, ack.ids = consumer_id, list(ids)
    return ack


def entry(content: bytes, **fields: Any) -> bytes:
    defaults: dict[str, Any] = {
        "producer_name": "raw",
        "sequence_id": 0,
        "publish_time": int(time.time() * 1000),
    }
    return build_entry(wire_pb2.MessageMetadata(**(defaults | fields)), content)


async def connect(url: str) -> RawClient:
    """TCP only; say `handshake` next."""
    host, _, port = url.removeprefix("pulsar://").rpartition(":")
    return RawClient(*await asyncio.open_connection(host, int(port), limit=1 << 20))


@asynccontextmanager
async def reached(url: str) -> AsyncIterator[RawClient]:
    """TCP only."""
    client = await connect(url)
    client.listen()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[RawClient]:
    client = await connect(url)
    try:
        await client.handshake()
        yield client
    finally:
        await client.close()
