"""What the load generator knows of a system: frames it may send, and how to count what comes back.

Every system is driven through the same loop with the same window, so a driver only builds its
frames beforehand and counts. All frames of a publisher are equally long: then any number of them,
from anywhere in the row, is one slice of one buffer and one system call.
"""

from __future__ import annotations

import random
import socket
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

BUFFER_BYTES = 256 * 1024
ROW_BYTES = 16 << 20
TIMEOUT_SECONDS = 60.0


class Failed(Exception):
    """The system refused, or said something the driver does not expect."""


@dataclass(frozen=True, slots=True)
class Frames:
    """A row of frames in one buffer, sent round and round."""

    row: bytes
    frame_bytes: int
    messages: int  # in each frame
    payload_bytes: int  # of each message

    def __post_init__(self) -> None:
        assert len(self.row) % self.frame_bytes == 0, (len(self.row), self.frame_bytes)

    @property
    def count(self) -> int:
        return len(self.row) // self.frame_bytes


class Channel(Protocol):
    """One connection. `received` is told how many bytes were written into `get_buffer`.

    It says how many frames were acknowledged, or how many messages have arrived.
    """

    socket: socket.socket

    def get_buffer(self) -> memoryview: ...

    def received(self, count: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Publisher:
    channel: Channel
    frames: Frames


class System(Protocol):
    def prepare(self, topics: Sequence[str]) -> None:
        """Create what must exist before anybody publishes."""

    def publisher(self, topics: Sequence[str], size: int, per_entry: int) -> Publisher: ...

    def subscriber(self, topic: str, messages: int, per_entry: int) -> Channel:
        """From the beginning on; `messages` is how many there will be to read."""


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(None)
    return connection


def payload(size: int) -> bytes:
    """Random, so that nothing compresses it, and without line ends, which drivers count."""
    letters = string.ascii_letters + string.digits
    return "".join(random.Random(size).choices(letters, k=size)).encode()


def row_of(frame: Callable[[int], bytes], kinds: int) -> tuple[bytes, int]:
    """Frames by number, a multiple of `kinds` of them, and how long each is."""
    size = len(frame(0))
    count = max(kinds, min(10_000, ROW_BYTES // size) // kinds * kinds)
    return b"".join(frame(number) for number in range(count)), size


def receive(channel: Channel) -> int:
    """Wait for some bytes and count what they bring."""
    count = channel.socket.recv_into(channel.get_buffer())
    if count == 0:
        raise Failed("the server closed the connection")
    return channel.received(count)


def read_all(channel: Channel, messages: int) -> float:
    """Seconds until so many messages have arrived."""
    start, arrived = time.perf_counter(), 0
    while arrived < messages:
        arrived += receive(channel)
    return time.perf_counter() - start
