"""The raw limit: frames of one size to a server that only counts them, or logs and syncs them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.channel import (
    BUFFER_BYTES,
    Channel,
    Frames,
    Publisher,
    connect,
    payload,
    row_of,
)

ACK_BYTES = 16


class Link:
    def __init__(self, address: str, frame_bytes: int) -> None:
        self.socket = connect(address)
        self.socket.sendall(frame_bytes.to_bytes(4, "big"))
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._odd_bytes = 0

    def get_buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> int:
        acks, self._odd_bytes = divmod(self._odd_bytes + count, ACK_BYTES)
        return acks


class Bare:
    def __init__(self, address: str) -> None:
        self._address = address

    def prepare(self, topics: Sequence[str]) -> None:
        """There are no topics."""

    def publisher(self, topics: Sequence[str], size: int, per_entry: int) -> Publisher:
        content = payload(size) * per_entry
        row, frame_bytes = row_of(lambda number: content, 1)
        return Publisher(
            Link(self._address, frame_bytes), Frames(row, frame_bytes, per_entry, size)
        )

    def subscriber(self, topic: str, messages: int, per_entry: int) -> Channel:
        raise NotImplementedError("nothing is kept")
