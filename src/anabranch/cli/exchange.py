"""A connection to a broker, for the commands that send and receive: just what they need.

It does not look up other brokers, and it does not reconnect: whatever the broker ends, ends the
command, with what it said. The client library does all of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import click
from google.protobuf.message import Message

import anabranch
from anabranch.errors import AnabranchError, RemoteProtocolError, Unavailable
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command
from anabranch.protocol.connection import Broken, Connection, Deliveries, Receipts
from anabranch.protocol.handshake import Role
from anabranch.protocol.wire_codec import Delivery, Receipt

SERVICE_URL: Final = "pulsar://localhost:6650"
PROTOCOL_VERSION: Final = 21
REQUEST_SECONDS: Final = 30.0


class Refused(AnabranchError):
    """The broker's own words."""


def service_url_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-u",
        "--url",
        "--service-url",
        "service_url",
        envvar="ANABRANCH_SERVICE_URL",
        default=SERVICE_URL,
        show_default=True,
        help="The broker's binary address; also $ANABRANCH_SERVICE_URL.",
    )(command)


class Exchange(asyncio.Protocol):
    def __init__(self) -> None:
        self.connection = Connection(Role.CLIENT)
        self.deliveries: asyncio.Queue[Delivery] = asyncio.Queue()  # no more than was asked for
        self.on_receipt: Callable[[Receipt], None] = lambda _: None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._requests = 0

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.connection.send(
            wire_pb2.CommandConnect(
                client_version=f"anabranch-cli-{anabranch.__version__}",
                protocol_version=PROTOCOL_VERSION,
            )
        )
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.connection.receive(data):
            match event:
                case Receipts(receipts):
                    for receipt in receipts:
                        self.on_receipt(receipt)
                case Deliveries(deliveries):
                    for delivery in deliveries:
                        self.deliveries.put_nowait(delivery)
                case Command(_, message):
                    self._handle(message)
                case Broken(error):
                    self.end(error)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(Unavailable("the broker closed the connection"))

    def _handle(self, message: Message) -> None:
        match message:
            case wire_pb2.CommandConnected():
                self._connected.set_result(None)
            case wire_pb2.CommandPing():
                self.connection.send(wire_pb2.CommandPong())
            case wire_pb2.CommandError() | wire_pb2.CommandSendError():
                self._refused(message)
            case wire_pb2.CommandCloseProducer() | wire_pb2.CommandCloseConsumer():
                self.end(Unavailable("the broker closed what this command had open; try again"))
            case wire_pb2.CommandProducerSuccess() if not message.producer_ready:
                return  # it waits for its turn, and hears again
            case _:
                answer = self._answers.pop(getattr(message, "request_id", -1), None)
                if answer is not None and not answer.done():
                    answer.set_result(message)

    def _refused(self, message: wire_pb2.CommandError | wire_pb2.CommandSendError) -> None:
        name = wire_pb2.ServerError.Name(message.error)
        error = Refused(f"{message.message or 'refused'} ({name})")
        answer = self._answers.pop(getattr(message, "request_id", -1), None)
        if answer is not None:
            answer.set_exception(error)
        else:
            self.end(error)

    # The command's side

    async def request(self, message: Any) -> Any:
        """The answer to a command that has a request id."""
        self._requests += 1
        message.request_id = self._requests
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[self._requests] = answer
        self.connection.send(message)
        self.flush()
        return await self.whichever(answer, REQUEST_SECONDS)

    async def whichever(self, wanted: asyncio.Future[Any], seconds: float | None = None) -> Any:
        """What is wanted, unless the connection ends first, or it takes too long."""
        await asyncio.wait(
            [wanted, self.ended], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if wanted.done():
            return wanted.result()
        if self.ended.done():
            self.ended.result()
        raise TimeoutError

    async def ready(self) -> None:
        await self.whichever(self._connected, REQUEST_SECONDS)

    def flush(self) -> None:
        if self._transport is not None and self.connection.pending_bytes:
            self._transport.writelines(self.connection.data_to_send())

    def end(self, error: AnabranchError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # nobody may be waiting for it

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(service_url: str) -> Exchange:
    parts = urlsplit(service_url)
    if parts.scheme != "pulsar" or not parts.hostname:
        raise click.UsageError(f"{service_url!r} must look like pulsar://host:6650")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            _, exchange = await loop.create_connection(Exchange, parts.hostname, parts.port or 6650)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"no answer from {service_url}: {error}") from None
    await exchange.ready()
    return exchange


async def partitions_of(exchange: Exchange, topic: str) -> list[str]:
    """The topics to attach to: the topic itself, or its partitions."""
    found = await exchange.request(wire_pb2.CommandPartitionedTopicMetadata(topic=topic))
    if found.response != wire_pb2.CommandPartitionedTopicMetadataResponse.Success:
        name = wire_pb2.ServerError.Name(found.error)
        raise Refused(f"{found.message} ({name})")
    if not found.partitions:
        return [topic]
    return [f"{topic}-partition-{index}" for index in range(found.partitions)]


def run(work: Any) -> None:
    """Errors become one line and exit code 1."""
    try:
        asyncio.run(work)
    except RemoteProtocolError as error:
        raise click.ClickException(f"the broker does not speak the protocol: {error}") from None
    except AnabranchError as error:
        raise click.ClickException(str(error)) from None
    except TimeoutError:
        raise click.ClickException(f"the broker did not answer in {REQUEST_SECONDS:g} s") from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
