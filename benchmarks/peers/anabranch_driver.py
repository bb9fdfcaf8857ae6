"""Anabranch, driven by its own sans-I/O connection and the compiled codec."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from librt.strings import BytesWriter

from anabranch.protocol import batch_codec, wire_pb2
from anabranch.protocol.commands import Command, encode_command_frame
from anabranch.protocol.connection import Broken, Connection, Deliveries, Event, Receipts
from anabranch.protocol.entries import build_entry
from anabranch.protocol.handshake import Role
from anabranch.protocol.wire_codec import Ack, Delivery
from benchmarks.peers.channel import (
    BUFFER_BYTES,
    Channel,
    Failed,
    Frames,
    Publisher,
    connect,
    payload,
    row_of,
)

# Numbers from here on take three bytes on the wire, so all frames are equally long.
FIRST_SEQUENCE = 1 << 14
# Entries a subscriber asks for ahead of what it has read.
ENTRIES_AHEAD = 2000


class Link:
    """One connection: requests are answered before anything else happens on it."""

    def __init__(self, address: str) -> None:
        self.socket = connect(address)
        self.connection = Connection(Role.CLIENT, scratch=bytearray(BUFFER_BYTES))
        self._requests = 0
        self.connection.send(
            wire_pb2.CommandConnect(
                client_version="load", protocol_version=21, auth_method_name="none", auth_data=b""
            )
        )
        self.flush()
        self._answer()

    def ask(self, message: Any) -> Any:
        self._requests += 1
        message.request_id = self._requests
        self.connection.send(message)
        self.flush()
        return self._answer()

    def _answer(self) -> Any:
        while True:
            count = self.socket.recv_into(self.get_buffer())
            if count == 0:
                raise Failed("the broker closed the connection")
            for event in self.connection.buffer_updated(count):
                if isinstance(event, Command) and not self._is_ping(event):
                    if isinstance(event.message, wire_pb2.CommandError):
                        raise Failed(str(event.message))
                    return event.message

    def flush(self) -> None:
        for piece in self.connection.data_to_send():
            self.socket.sendall(piece)

    def get_buffer(self) -> memoryview:
        return self.connection.get_buffer(BUFFER_BYTES)

    def received(self, count: int) -> int:
        return sum([self.count(event) for event in self.connection.buffer_updated(count)])

    def count(self, event: Event) -> int:
        match event:
            case Receipts(receipts):
                return len(receipts)
            case Command() if self._is_ping(event):
                return 0
            case Broken(error):
                raise error
            case Command(_, message):
                raise Failed(f"{type(message).__name__} {message}".replace("\n", " "))
        raise Failed(str(event))

    def _is_ping(self, command: Command) -> bool:
        if not isinstance(command.message, wire_pb2.CommandPing):
            return False
        self.connection.send(wire_pb2.CommandPong())
        self.flush()
        return True


class Subscriber(Link):
    """Exclusive, from the earliest message, one cumulative ack whenever permits are renewed."""

    def __init__(self, address: str, topic: str, per_entry: int) -> None:
        super().__init__(address)
        self._per_entry = per_entry
        self._unacked = 0
        self.ask(
            wire_pb2.CommandSubscribe(
                topic=topic,
                subscription=f"load-{time.monotonic_ns()}",
                subType=wire_pb2.CommandSubscribe.SubType.Exclusive,
                consumer_id=1,
                request_id=0,
                initialPosition=wire_pb2.CommandSubscribe.InitialPosition.Earliest,
            )
        )
        self.connection.send_flow(1, ENTRIES_AHEAD * per_entry)
        self.flush()

    def count(self, event: Event) -> int:
        if not isinstance(event, Deliveries):
            return super().count(event)
        arrived = len(event.deliveries)
        self._unacked += arrived
        if self._unacked >= ENTRIES_AHEAD // 4:
            self._renew(event.deliveries[-1])
        return arrived * self._per_entry

    def _renew(self, last: Delivery) -> None:
        ack = Ack()
        ack.consumer_id, ack.is_cumulative, ack.ids = 1, True, [last.id]
        self.connection.send_ack(ack)
        self.connection.send_flow(1, self._unacked * self._per_entry)
        self._unacked = 0
        self.flush()


class Anabranch:
    def __init__(self, address: str) -> None:
        self._address = address

    def prepare(self, topics: Sequence[str]) -> None:
        """Topics are made by their first producer."""

    def publisher(self, topics: Sequence[str], size: int, per_entry: int) -> Publisher:
        link = Link(self._address)
        for number, topic in enumerate(topics):
            link.ask(wire_pb2.CommandProducer(topic=topic, producer_id=number, request_id=0))
        content = payload(size)

        def frame(number: int) -> bytes:
            sequence = FIRST_SEQUENCE + number
            send = wire_pb2.CommandSend(producer_id=number % len(topics), sequence_id=sequence)
            if per_entry > 1:
                send.num_messages = per_entry
            return encode_command_frame(send, entry(sequence, content, per_entry))

        row, frame_bytes = row_of(frame, len(topics))
        return Publisher(link, Frames(row, frame_bytes, per_entry, size))

    def subscriber(self, topic: str, messages: int, per_entry: int) -> Channel:
        return Subscriber(self._address, topic, per_entry)


def entry(sequence: int, content: bytes, messages: int) -> bytes:
    metadata = wire_pb2.MessageMetadata(
        producer_name="load", sequence_id=sequence, publish_time=int(time.time() * 1000)
    )
    if messages == 1:
        return build_entry(metadata, content)
    metadata.num_messages_in_batch = messages
    batch = BytesWriter()
    for _ in range(messages):
        batch_codec.write_message(batch, content, sequence)
    return build_entry(metadata, batch.getvalue())
