"""The command line's connection against a scripted server, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from anabranch.cli.exchange import Exchange, Refused, partitions_of
from anabranch.errors import AnabranchError, Unavailable
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command
from anabranch.protocol.connection import Connection
from anabranch.protocol.handshake import Role
from tests.unit.admin.test_server import MemoryTransport

Partitions = wire_pb2.CommandPartitionedTopicMetadataResponse


class Server(MemoryTransport):
    """Answers each command by the script, on the next turn of the loop."""

    def __init__(self, exchange: Exchange, script: Callable[[Any], list[Message]]) -> None:
        super().__init__()
        self.connection = Connection(Role.SERVER)
        self.heard: list[Message] = []
        self._exchange = exchange
        self._script = script

    def writelines(self, list_of_data: Any) -> None:
        for event in self.connection.receive(b"".join(map(bytes, list_of_data))):
            assert isinstance(event, Command), event
            self.heard.append(event.message)
            for answer in self._script(event.message):
                self.say(answer)

    def say(self, message: Message) -> None:
        self.connection.send(message)
        data = b"".join(map(bytes, self.connection.data_to_send()))
        asyncio.get_running_loop().call_soon(self._exchange.data_received, data)


def usual(message: Any) -> list[Message]:
    match message:
        case wire_pb2.CommandConnect():
            return [wire_pb2.CommandConnected(server_version="test", protocol_version=21)]
        case wire_pb2.CommandPartitionedTopicMetadata():
            return [
                Partitions(request_id=message.request_id, partitions=2, response=Partitions.Success)
            ]
    return []


def play(
    scenario: Callable[[Exchange, Server], Awaitable[None]],
    script: Callable[[Any], list[Message]] = usual,
) -> None:
    async def run() -> None:
        exchange = Exchange()
        server = Server(exchange, script)
        exchange.connection_made(server)
        await exchange.ready()
        await scenario(exchange, server)

    asyncio.run(run())


def test_a_request_gets_the_answer_with_its_number() -> None:
    async def scenario(exchange: Exchange, server: Server) -> None:
        assert await partitions_of(exchange, "x") == ["x-partition-0", "x-partition-1"]

    play(scenario)


def test_a_refusal_is_told_in_the_brokers_words() -> None:
    def script(message: Any) -> list[Message]:
        if isinstance(message, wire_pb2.CommandProducer):
            code = wire_pb2.ServerError.TopicNotFound
            number = message.request_id
            return [wire_pb2.CommandError(request_id=number, error=code, message="no x")]
        return usual(message)

    async def scenario(exchange: Exchange, server: Server) -> None:
        with pytest.raises(Refused, match=r"no x \(TopicNotFound\)"):
            await exchange.request(wire_pb2.CommandProducer(topic="x", producer_id=1))

    play(scenario, script)


def test_a_ping_is_answered() -> None:
    async def scenario(exchange: Exchange, server: Server) -> None:
        server.say(wire_pb2.CommandPing())
        await asyncio.sleep(0)
        assert isinstance(server.heard[-1], wire_pb2.CommandPong)

    play(scenario)


@pytest.mark.parametrize(
    "message",
    [
        wire_pb2.CommandCloseProducer(producer_id=0, request_id=1),
        wire_pb2.CommandCloseConsumer(consumer_id=0, request_id=1),
        wire_pb2.CommandSendError(
            producer_id=0,
            sequence_id=0,
            error=wire_pb2.ServerError.TopicTerminatedError,
            message="over",
        ),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_the_broker_ends_ends_the_command(message: Message) -> None:
    async def scenario(exchange: Exchange, server: Server) -> None:
        server.say(message)
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(AnabranchError):
            await exchange.whichever(never)

    play(scenario)


def test_a_lost_connection_ends_whatever_waits() -> None:
    async def scenario(exchange: Exchange, server: Server) -> None:
        asyncio.get_running_loop().call_soon(exchange.connection_lost, None)
        with pytest.raises(Unavailable, match="closed the connection"):
            await exchange.request(wire_pb2.CommandProducer(topic="x", producer_id=1))

    play(scenario)


def test_what_takes_too_long_is_given_up() -> None:
    async def scenario(exchange: Exchange, server: Server) -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await exchange.whichever(never, 0.001)

    play(scenario)
