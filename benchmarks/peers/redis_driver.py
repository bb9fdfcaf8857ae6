"""Redis Streams: XADD in a pipeline, XREAD to read. A topic is a key.

An answer to XADD is two lines. An entry in an answer to XREAD is eight, behind five of a preamble;
no payload holds a line end, so counting lines is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

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

PER_READ = 1000
PREAMBLE_LINES = 5
ENTRY_LINES = 8


def command(*words: bytes) -> bytes:
    head = f"*{len(words)}\r\n".encode()
    return head + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Link:
    def __init__(self, address: str) -> None:
        self.socket = connect(address)
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self._odd_lines = 0

    def get_buffer(self) -> memoryview:
        return self.buffer

    def received(self, count: int) -> int:
        data = self.buffer[:count].tobytes()
        if data[:1] == b"-":
            raise Failed(data[:500].decode())
        lines = self._odd_lines + data.count(b"\n")
        self._odd_lines = lines % 2
        return lines // 2


class Subscriber(Link):
    """Asks for the next thousand behind the last it has seen, and waits if there are none."""

    def __init__(self, address: str, topic: str, messages: int) -> None:
        super().__init__(address)
        self._topic = topic.encode()
        self._left = messages
        self._last = b"0-0"
        self._answer = bytearray()
        self._ask()

    def _ask(self) -> None:
        self._answer.clear()
        self.socket.sendall(
            command(
                b"XREAD", b"COUNT", b"%d" % PER_READ, b"BLOCK", b"0", b"STREAMS", self._topic,
                self._last,
            )
        )  # fmt: skip

    def received(self, count: int) -> int:
        self._answer += self.buffer[:count]
        answer = self._answer
        head = answer[:200].split(b"\r\n", PREAMBLE_LINES)
        if len(head) <= PREAMBLE_LINES:
            return 0
        if not head[0].startswith(b"*1"):
            raise Failed(answer[:500].decode())
        entries = int(head[PREAMBLE_LINES - 1][1:])
        if not answer.endswith(b"\r\n") or answer.count(b"\n") < PREAMBLE_LINES + (
            ENTRY_LINES * entries
        ):
            return 0
        end = answer.rindex(b"\r\n*2\r\n$1\r\nd\r\n")
        self._last = bytes(answer[answer.rindex(b"\n", 0, end) + 1 : end])
        self._left -= entries
        if self._left > 0:
            self._ask()
        return entries


class Redis:
    def __init__(self, address: str) -> None:
        self._address = address

    def prepare(self, topics: Sequence[str]) -> None:
        """A stream is made by its first entry."""

    def publisher(self, topics: Sequence[str], size: int, per_entry: int) -> Publisher:
        assert per_entry == 1, "Redis has no batches of a producer's making"
        content = payload(size)
        width = max(len(topic) for topic in topics)
        keys = [topic.ljust(width, "-").encode() for topic in topics]

        def frame(number: int) -> bytes:
            return command(b"XADD", keys[number % len(keys)], b"*", b"d", content)

        row, frame_bytes = row_of(frame, len(topics))
        return Publisher(Link(self._address), Frames(row, frame_bytes, 1, size))

    def subscriber(self, topic: str, messages: int, per_entry: int) -> Channel:
        return Subscriber(self._address, topic, messages)
