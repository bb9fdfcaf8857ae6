"""One connected client: bytes in, commands dispatched, answers out.

The session owns the transport and what the client opened over it. It decides nothing: data
commands go to the producer or consumer they name, everything else to a handler in `commands/`.
Answers that are queued in one turn of the loop leave in one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from anabranch.broker.ack_receipts import AckReceipts
from anabranch.broker.brakes import Brakes, Reason
from anabranch.broker.consumer import Consumer
from anabranch.broker.openings import Openings
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
# Requests of one connection under way at once, and acknowledgements waiting for their receipt;
# with more of either it is not read.
MAX_REQUESTS = 1000
MAX_RECEIPTS = 5000
MAX_WATCHES = 1000
# So much is handed to the transport without waiting for the end of the loop's turn: what all
# subscriptions of a connection send in one turn must not pile up unseen by `pause_writing`.
FLUSH_BYTES = 1 << 20
# How long a connection that we close may take to read our last words.
LAST_WORDS_SECONDS = 5.0

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
        self.producers: dict[int, ProducerHandle] = {}
        self.consumers: dict[int, Consumer] = {}
        self.openings = Openings()
        self.watches: dict[int, Callable[[], None]] = {}
        self.protocol_version = 0
        self.client_version = ""
        self.takes_broker_block = False
        self.peer = "?"
        self.refusal = ""  # why it is not let in
        self.is_closed = False  # from the first moment of the end: nothing more is said
        self.is_congested = False  # the transport takes no more bytes for now
        self.brakes = Brakes(self._pause_reading, self._resume_reading)
        self.budget = PublishBudget(
            broker.budget,
            broker.config.publish_bytes,
            lambda: self.brakes.put_on(Reason.BYTES),
            lambda: self.brakes.release(Reason.BYTES),
        )
        self._receipts = AckReceipts(
            self.send, lambda count: self.brakes.bound(Reason.RECEIPTS, count, MAX_RECEIPTS)
        )
        self._handlers = handlers
        self._transport: asyncio.Transport | None = None
        self._closed_producers: OrderedDict[int, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_flush_due = False
        self._is_heard = True  # since the last tick
        self._pongs: list[asyncio.Future[None]] = []
        self._tick: asyncio.TimerHandle | None = None
        self._last_words: asyncio.TimerHandle | None = None
        self._throttle: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"Session({self.number} {self.peer} {self.client_version!r})"

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.set_write_limit(self.broker.write_limit_bytes)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else "?"
        self._set_tick()
        self.broker.joined(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._is_heard = True
        for event in self.connection.buffer_updated(nbytes):
            if self.is_closed:
                return
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
        self._end()
        if self._last_words is not None:
            self._last_words.cancel()
        self.broker.left(self)

    def _end(self) -> None:
        """Let go of everything the client opened. From here on nothing is read or said."""
        if self.is_closed:
            return
        self.is_closed = True
        self.connection.state = State.CLOSED
        for timer in (self._tick, self._throttle):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        self._receipts.cancel()
        for close in self.watches.values():
            close()
        self.watches.clear()
        producers, consumers = list(self.producers.values()), list(self.consumers.values())
        self.producers.clear()
        self.consumers.clear()
        for producer in producers:
            producer.topic.remove_producer(producer)
        for consumer in consumers:
            self.detach(consumer)
        self.heard_pong()

    # Data

    def _publish(self, sends: list[Send]) -> None:
        """Each producer's sends in their order; between producers there is none to keep."""
        runs: defaultdict[int, list[Send]] = defaultdict(list)
        for send in sends:
            runs[send.producer_id].append(send)
        for producer_id, run in runs.items():
            producer = self.producers.get(producer_id)
            if producer is not None:
                producer.publish(run)
            elif producer_id not in self._closed_producers:
                self.abort(f"SEND for producer {producer_id}, which is not open here")
                return

    def _flow(self, flow: Flow) -> None:
        consumer = self.consumers.get(flow.consumer_id)
        if consumer is not None and consumer.subscription is not None and flow.permits > 0:
            consumer.subscription.flow(consumer, flow.permits)

    def _acknowledge(self, ack: Ack) -> None:
        consumer = self.consumers.get(ack.consumer_id)
        if consumer is None or consumer.subscription is None:
            return
        try:
            consumer.subscription.acknowledge(consumer, ack)
        except AnabranchError as error:
            if ack.has_request_id:
                self._receipts.refuse(ack, error)
            return
        # Looked at again: the last acknowledgement of all may have ended the subscription.
        if ack.has_request_id and consumer.subscription is not None:
            self._receipts.add(consumer.subscription.cursor, ack)

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
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        self.brakes.bound(Reason.REQUESTS, len(self._tasks), MAX_REQUESTS)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.brakes.bound(Reason.REQUESTS, len(self._tasks), MAX_REQUESTS)

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
        if self.connection.pending_bytes > FLUSH_BYTES:
            self.flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._is_flush_due = False
        self.flush()

    def flush(self) -> None:
        if self.connection.pending_bytes and self._transport is not None:
            pieces = self.connection.data_to_send()
            if not self._transport.is_closing():
                self._transport.writelines(pieces)

    def abort(self, reason: str) -> None:
        """Close: the peer broke the rules, or we stop. It hears what was said so far."""
        if not self.is_closed and self._transport is not None:
            log.info("connection closed session=%r reason=%s", self, reason)
            self.flush()
            self._end()
            self._transport.close()
            # A peer that does not read would keep its socket, and our bytes for it, for ever.
            self._last_words = asyncio.get_running_loop().call_later(
                LAST_WORDS_SECONDS, self._transport.abort
            )

    def cut(self, reason: str) -> None:
        """The peer is gone: nobody hears any last words."""
        if self._transport is not None:
            log.info("connection cut session=%r reason=%s", self, reason)
            self._end()
            self._transport.abort()

    # Producers and consumers closed by us

    def close_producer(self, producer: ProducerHandle) -> None:
        if self.producers.get(producer.id) is producer:
            del self.producers[producer.id]
            self._closed_producers[producer.id] = None
            while len(self._closed_producers) > CLOSED_REMEMBERED:
                self._closed_producers.popitem(last=False)
            self.send(wire_pb2.CommandCloseProducer(producer_id=producer.id, request_id=NO_REQUEST))

    def close_consumer(self, consumer: Consumer) -> None:
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
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

    async def is_alive(self) -> bool:
        """Ask, and wait a while for the answer. Who is asked: another wants what it holds."""
        if self.is_closed:
            return False
        if self.brakes.are_on:
            return True  # it may well talk: we are not listening
        pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self.send(wire_pb2.CommandPing())
        try:
            async with asyncio.timeout(self.broker.config.liveness_seconds):
                await pong
        except TimeoutError:
            return False
        finally:
            if pong in self._pongs:
                self._pongs.remove(pong)
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
        if not self._is_heard and not self.brakes.are_on:
            self.cut("nothing heard since the last ping")
            return
        self._is_heard = False
        self.send(wire_pb2.CommandPing())
        self._set_tick()

    def throttle(self, seconds: float) -> None:
        """Read nothing for so long: it published faster than it may."""
        if seconds <= 0 or self.is_closed:
            return
        loop = asyncio.get_running_loop()
        if self._throttle is not None:
            if self._throttle.when() >= loop.time() + seconds:
                return
            self._throttle.cancel()
        self.brakes.put_on(Reason.RATE)
        self._throttle = loop.call_later(seconds, self._end_throttle)

    def _end_throttle(self) -> None:
        self._throttle = None
        self.brakes.release(Reason.RATE)

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        # What was said while we did not listen is still to be heard.
        self._is_heard = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def set_write_limit(self, limit_bytes: int) -> None:
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=limit_bytes)

    def _set_congested(self, is_congested: bool) -> None:
        self.is_congested = is_congested
        for consumer in self.consumers.values():
            consumer.receiver.is_paused = is_congested
            if not is_congested and consumer.subscription is not None:
                consumer.subscription.wake()
