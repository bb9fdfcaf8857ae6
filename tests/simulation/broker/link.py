"""A client's connection to a simulated broker: the sans-I/O protocol on a simulated transport.

It knows nothing of what it carries: answers go to whoever asked, data to the producer or consumer
it names. A link that is lost stays lost; clients make a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command
from anabranch.protocol.connection import Connection, Deliveries, Event, Receipts
from anabranch.protocol.handshake import Role
from anabranch.protocol.wire_codec import Delivery, Receipt
from anabranch.runtime.world import World

PORT = 6650
HOST = "broker"
PATIENCE_SECONDS = 40.0  # for the answer to a request: a client's own "operation timeout"
PING_SECONDS = 15.0

M = TypeVar("M", bound=Message)
OnAnswer = Callable[[Message | None], None]


class LinkLost(Exception):
    """The connection is gone, or as good as gone."""


class RequestRefused(Exception):
    def __init__(self, error: int, message: str) -> None:
        super().__init__(f"{wire_pb2.ServerError.Name(error)}: {message}")
        self.error = error


class ProducerEnd(Protocol):
    def received_receipt(self, receipt: Receipt) -> None: ...
    def received_error(self, error: wire_pb2.CommandSendError) -> None: ...
    def closed_by_broker(self) -> None: ...


class ConsumerEnd(Protocol):
    def received(self, delivery: Delivery) -> None: ...
    def became_active(self, is_active: bool) -> None: ...
    def closed_by_broker(self) -> None: ...


class Link(asyncio.Protocol):
    def __init__(self) -> None:
        self.connection = Connection(Role.CLIENT)
        self.producers: dict[int, ProducerEnd] = {}
        self.consumers: dict[int, ConsumerEnd] = {}
        self.is_lost = False
        self.lost = asyncio.Event()
        self.ready = asyncio.Event()
        self.pings_heard = 0
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, OnAnswer] = {}
        self._request = 0
        self._is_heard = True
        self._tick: asyncio.TimerHandle | None = None

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.connection.send(wire_pb2.CommandConnect(client_version="model", protocol_version=21))
        self.flush()
        self._set_tick()

    def data_received(self, data: bytes) -> None:
        self._is_heard = True
        for event in self.connection.receive(data):
            if not self.is_lost:
                self._handle(event)
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self._tick is not None:
            self._tick.cancel()
        self.lost.set()
        self.ready.set()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(None)

    def abort(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.abort()
            self.is_lost = True  # nothing that still arrives is looked at

    def pause_reading(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    def _set_tick(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(PING_SECONDS, self._on_tick)

    def _on_tick(self) -> None:
        if not self._is_heard or not self.ready.is_set():
            self.abort()
            return
        self._is_heard = False
        self.send(wire_pb2.CommandPing())
        self._set_tick()

    # In

    def _handle(self, event: Event) -> None:
        match event:
            case Receipts(receipts):
                self._pass_on_receipts(receipts)
            case Deliveries(deliveries):
                self._pass_on_deliveries(deliveries)
            case Command():
                self._handle_command(event.message)
            case _:
                raise AssertionError(f"the broker broke the protocol: {event}")

    def _pass_on_receipts(self, receipts: list[Receipt]) -> None:
        for receipt in receipts:
            if receipt.producer_id in self.producers:
                self.producers[receipt.producer_id].received_receipt(receipt)

    def _pass_on_deliveries(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.consumer_id in self.consumers:
                self.consumers[delivery.consumer_id].received(delivery)

    def _handle_command(self, message: Message) -> None:  # noqa: C901  # a table, in fact
        match message:
            case wire_pb2.CommandConnected():
                self.ready.set()
            case wire_pb2.CommandPing():
                self.pings_heard += 1
                self.send(wire_pb2.CommandPong())
            case wire_pb2.CommandPong():
                pass
            case wire_pb2.CommandProducerSuccess(producer_ready=False):
                pass  # the same request is answered again when its turn has come
            case (
                wire_pb2.CommandSuccess()
                | wire_pb2.CommandError()
                | wire_pb2.CommandProducerSuccess()
                | wire_pb2.CommandAckResponse()
                | wire_pb2.CommandGetLastMessageIdResponse()
            ):
                answer = self._answers.pop(message.request_id, None)
                assert answer is not None, f"an answer to nothing: {message}"
                answer(message)
            case wire_pb2.CommandSendError():
                if message.producer_id in self.producers:
                    self.producers[message.producer_id].received_error(message)
            case wire_pb2.CommandCloseProducer():
                if message.producer_id in self.producers:
                    self.producers.pop(message.producer_id).closed_by_broker()
            case wire_pb2.CommandCloseConsumer():
                if message.consumer_id in self.consumers:
                    self.consumers.pop(message.consumer_id).closed_by_broker()
            case wire_pb2.CommandActiveConsumerChange():
                if message.consumer_id in self.consumers:
                    self.consumers[message.consumer_id].became_active(message.is_active)
            case _:
                raise AssertionError(f"unexpected: {message!r}")

    # Out

    def next_request(self, answer: OnAnswer) -> int:
        self._request += 1
        self._answers[self._request] = answer
        return self._request

    async def request(
        self, message: Message, *, patience: float | None = PATIENCE_SECONDS
    ) -> Message:
        """The answer; whoever waits too long gives up the whole connection, as clients do."""
        if self.is_lost:
            raise LinkLost
        future: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

        def resolve(answer: Message | None) -> None:
            if not future.done():
                future.set_result(answer)

        message.request_id = self.next_request(resolve)  # type: ignore[attr-defined]
        self.send(message)
        try:
            async with asyncio.timeout(patience):
                answer = await future
        except TimeoutError:
            self.abort()
            raise LinkLost from None
        if answer is None:
            raise LinkLost
        if isinstance(answer, wire_pb2.CommandError):
            raise RequestRefused(answer.error, answer.message)
        return answer

    def send(self, message: Message) -> None:
        if not self.is_lost:
            self.connection.send(message)
            self.flush()

    def flush(self) -> None:
        pieces = self.connection.data_to_send()
        if pieces and self._transport is not None and not self.is_lost:
            self._transport.writelines(pieces)


class Client:
    """Connects when somebody needs a link, all of its producers and consumers over one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._link: Link | None = None
        self._connecting = asyncio.Lock()

    async def link(self) -> Link:
        """A link that was open a moment ago. LinkLost: try again later."""
        async with self._connecting:
            if self._link is None or self._link.is_lost:
                self._link = await self._connect()
            return self._link

    async def _connect(self) -> Link:
        try:
            _, link = await self.world.network.connect(Link, HOST, PORT)
        except OSError as error:
            raise LinkLost(str(error)) from error
        await link.ready.wait()
        if link.is_lost:
            raise LinkLost
        return link

    async def close_producer(self, number: int) -> None:
        """Gone when this returns, one way or the other."""
        if self._link is not None and not self._link.is_lost:
            self._link.producers.pop(number, None)
            with contextlib.suppress(LinkLost, RequestRefused):
                await self._link.request(wire_pb2.CommandCloseProducer(producer_id=number))

    def cut(self) -> None:
        if self._link is not None:
            self._link.abort()
