"""One connected client: bytes in, commands dispatched, answers out.

The session owns the transport and what the client opened over it. It decides nothing: data
commands go to the producer or consumer they name, everything else to a handler in `commands/`.
Answers that are queued in one turn of the loop leave in one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from anabranch.broker.consumer import Consumer
from anabranch.broker.publish_budget import PublishBudget
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.wire_errors import code_of
from anabranch.errors import AnabranchError, NotAllowed, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command, kind_name
from anabranch.protocol.connection import Broken, Connection, Sends
from anabranch.protocol.handshake import Role, State
from anabranch.protocol.wire_codec import Ack, Flow, Send

if TYPE_CHECKING:
    from anabranch.broker.server import Broker

log = logging.getLogger(__name__)

NO_REQUEST = 2**64 - 1
# Sends of a producer that we closed are on their way for a while; so many of those are remembered.
CLOSED_REMEMBERED = 1000
# Requests of one connection under way at once; more than any client asks for in earnest.
MAX_REQUESTS = 5000
WRITE_BUFFER_BYTES = 4 << 20

Handler = Callable[["Session", Any], Awaitable[None] | None]


class Session(asyncio.BufferedProtocol):
    def __init__(
        self, broker: Broker, number: int, handlers: Mapping[type[Message], Handler]
    ) -> None:
        self.broker = broker
        self.number = number
        self.connection = Connection(
            Role.SERVER, max_message_size=broker.config.max_message_bytes, scratch=broker.scratch
        )
        self.producers: dict[int, ProducerHandle | None] = {}  # None: being opened
        self.consumers: dict[int, Consumer | None] = {}
        self.watches: dict[int, Callable[[], None]] = {}
        self.protocol_version = 0
        self.client_version = ""
        self.takes_broker_block = False
        self.peer = "?"
        self.is_closed = False
        self.budget = PublishBudget(
            broker.budget, broker.config.publish_bytes, self._pause_reading, self._resume_reading
        )
        self._handlers = handlers
        self._transport: asyncio.Transport | None = None
        self._closed_producers: OrderedDict[int, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_flush_due = False
        self._is_heard = True  # since the last tick
        self._is_congested = False
        self._pongs: list[asyncio.Future[None]] = []
        self._tick: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"Session({self.number} {self.peer} {self.client_version!r})"

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else "?"
        self._set_tick()
        self.broker.joined(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._is_heard = True
        for event in self.connection.buffer_updated(nbytes):
            match event:
                case Sends(sends):
                    self._publish(sends)
                case Ack():
                    self._acknowledge(event)
                case Flow():
                    self._flow(event)
                case Command():
                    self._dispatch(event)
                case Broken(error):
                    self.abort(str(error))
        self.flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._set_congested(True)

    def resume_writing(self) -> None:
        self._set_congested(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self.connection.state = State.CLOSED
        if self._tick is not None:
            self._tick.cancel()
        for task in self._tasks:
            task.cancel()
        for close in self.watches.values():
            close()
        self.watches.clear()
        producers = [each for each in self.producers.values() if each is not None]
        consumers = [each for each in self.consumers.values() if each is not None]
        self.producers.clear()
        self.consumers.clear()
        for producer in producers:
            producer.topic.remove_producer(producer)
        for consumer in consumers:
            self.detach(consumer)
        for pong in self._pongs:
            if not pong.done():
                pong.set_result(None)
        self.broker.left(self)

    # Data

    def _publish(self, sends: list[Send]) -> None:
        start = 0
        while start < len(sends):
            producer_id = sends[start].producer_id
            end = start + 1
            while end < len(sends) and sends[end].producer_id == producer_id:
                end += 1
            producer = self.producers.get(producer_id)
            if producer is not None:
                producer.publish(sends if end - start == len(sends) else sends[start:end])
            elif producer_id not in self._closed_producers:
                self.abort(f"SEND for producer {producer_id}, which is not open here")
                return
            start = end

    def _flow(self, flow: Flow) -> None:
        consumer = self.consumers.get(flow.consumer_id)
        if consumer is not None and consumer.subscription is not None and flow.permits > 0:
            consumer.subscription.flow(consumer, flow.permits)

    def _acknowledge(self, ack: Ack) -> None:
        consumer = self.consumers.get(ack.consumer_id)
        if consumer is None or consumer.subscription is None:
            return
        error: AnabranchError | None = None
        try:
            consumer.subscription.acknowledge(consumer, ack)
        except AnabranchError as refused:
            error = refused
        if ack.has_request_id:
            self._start(self._confirm(consumer, ack, error))

    async def _confirm(self, consumer: Consumer, ack: Ack, error: AnabranchError | None) -> None:
        response = wire_pb2.CommandAckResponse(
            consumer_id=ack.consumer_id, request_id=ack.request_id & NO_REQUEST
        )
        try:
            if error is not None:
                raise error
            if consumer.subscription is not None:
                await consumer.subscription.cursor.persist()
        except AnabranchError as refused:
            response.error, response.message = code_of(refused), str(refused)
        self.send(response)

    # Everything else

    def _dispatch(self, command: Command) -> None:
        handler = self._handlers.get(type(command.message))
        if handler is None:
            self._refuse(command.message, NotAllowed(f"{kind_name(command.kind)} is not served"))
            return
        try:
            work = handler(self, command.message)
        except RemoteProtocolError as error:
            self.abort(str(error))
            return
        except AnabranchError as error:
            self._refuse(command.message, error)
            return
        if work is not None:
            self._start(self._answer(command.message, work))

    async def _answer(self, message: Message, work: Awaitable[None]) -> None:
        try:
            await work
        except AnabranchError as error:
            self._refuse(message, error)
        except Exception as error:
            log.exception("command failed session=%s command=%s", self, type(message).__name__)
            self._refuse(message, error)
        self.flush_soon()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= MAX_REQUESTS:
            work.close()
            self.abort(f"{MAX_REQUESTS} requests under way at once")
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, message: Message, error: BaseException) -> None:
        request = getattr(message, "request_id", None)
        if request is None:
            self.abort(str(error))
            return
        self.send(
            wire_pb2.CommandError(request_id=request, error=code_of(error), message=str(error))
        )

    # Out

    def send(self, message: Message) -> None:
        if not self.is_closed and self.connection.state is State.OPEN:
            self.connection.send(message)
            self.flush_soon()

    def succeed(self, request_id: int) -> None:
        self.send(wire_pb2.CommandSuccess(request_id=request_id))

    def flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._is_flush_due = False
        if self.connection.pending_bytes and self._transport is not None:
            pieces = self.connection.data_to_send()
            if not self._transport.is_closing():
                self._transport.writelines(pieces)

    def abort(self, reason: str) -> None:
        """Close at once: the peer broke the rules, or is gone."""
        if not self.is_closed and self._transport is not None:
            log.info("connection closed session=%r reason=%s", self, reason)
            self.flush()
            self._transport.close()

    # Producers and consumers closed by us

    def close_producer(self, producer: ProducerHandle) -> None:
        if self.producers.pop(producer.id, None) is not None:
            self._closed_producers[producer.id] = None
            while len(self._closed_producers) > CLOSED_REMEMBERED:
                self._closed_producers.popitem(last=False)
            self.send(wire_pb2.CommandCloseProducer(producer_id=producer.id, request_id=NO_REQUEST))

    def close_consumer(self, consumer: Consumer) -> None:
        if self.consumers.pop(consumer.id, None) is not None:
            self.detach(consumer)
            self.send(wire_pb2.CommandCloseConsumer(consumer_id=consumer.id, request_id=NO_REQUEST))

    def detach(self, consumer: Consumer) -> None:
        subscription = consumer.subscription
        if subscription is not None:
            subscription.detach(consumer)
            subscription.topic.drop_if_not_durable(subscription)

    def remember_open(self, producer_id: int) -> None:
        self._closed_producers.pop(producer_id, None)

    # Liveness and pressure

    async def is_alive(self, within_seconds: float) -> bool:
        """Ask, and wait for any sign of life."""
        if self.is_closed:
            return False
        pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self.send(wire_pb2.CommandPing())
        try:
            async with asyncio.timeout(within_seconds):
                await pong
        except TimeoutError:
            return False
        return not self.is_closed

    def heard_pong(self) -> None:
        pongs, self._pongs = self._pongs, []
        for pong in pongs:
            if not pong.done():
                pong.set_result(None)

    def _set_tick(self) -> None:
        seconds = self.broker.config.keep_alive_seconds
        self._tick = asyncio.get_running_loop().call_later(seconds, self._on_tick)

    def _on_tick(self) -> None:
        if self.connection.state is not State.OPEN:
            self.abort("no handshake in time")
            return
        if not self._is_heard:
            self.abort("nothing heard since the last ping")
            return
        self._is_heard = False
        self.send(wire_pb2.CommandPing())
        self._set_tick()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _set_congested(self, is_congested: bool) -> None:
        self._is_congested = is_congested
        for consumer in self.consumers.values():
            if consumer is not None:
                consumer.receiver.is_paused = is_congested
                if not is_congested and consumer.subscription is not None:
                    consumer.subscription.wake()
