"""NATS JetStream over its text protocol: publishes with a reply subject, acks on that subject.

A topic is a stream of its own. Every acknowledgement is two lines (`MSG ...` and a JSON object),
every delivery is two lines as well, and no payload holds a line end, so counting lines is enough.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

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

OPTIONS = json.dumps({"verbose": False, "pedantic": False})


class Link:
    def __init__(self, address: str) -> None:
        self.socket = connect(address)
        self.inbox = f"r{random.getrandbits(64):016x}"  # nobody else's acknowledgements
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._odd_lines = 0
        self.uncounted = 0  # messages that are no deliveries
        self._lines()
        self.socket.sendall(f"CONNECT {OPTIONS}\r\nSUB {self.inbox} 1\r\nPING\r\n".encode())
        while b"PONG\r\n" not in self._lines():
            pass

    def _lines(self) -> bytes:
        """Some whole lines; only good while one question is under way."""
        data = b""
        while not data.endswith(b"\r\n"):
            more = self.socket.recv(BUFFER_BYTES)
            if not more:
                raise Failed("the server closed the connection")
            data += more
        return data

    def ask(self, subject: str, question: dict[str, Any]) -> None:
        """A question to the JetStream API, answered in our inbox."""
        body = json.dumps(question)
        self.socket.sendall(f"PUB {subject} {self.inbox} {len(body)}\r\n{body}\r\n".encode())
        answer = self._lines()
        while answer.count(b"\n") < 2:
            answer += self._lines()
        if b'"error"' in answer:
            raise Failed(answer.decode())

    def get_buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> int:
        data = self._buffer[:count].tobytes()
        if b'"error"' in data or b"-ERR" in data:
            raise Failed(data[:500].decode())
        lines = self._odd_lines + data.count(b"\n")
        self._odd_lines = lines % 2
        arrived = lines // 2
        skipped = min(arrived, self.uncounted)
        self.uncounted -= skipped
        return arrived - skipped


class Nats:
    def __init__(self, address: str) -> None:
        self._address = address

    def prepare(self, topics: Sequence[str]) -> None:
        link = Link(self._address)
        for topic in topics:
            stream = {"name": topic, "subjects": [f"t.{topic}"], "storage": "file"}
            link.ask(f"$JS.API.STREAM.CREATE.{topic}", stream)
        link.socket.close()

    def publisher(self, topics: Sequence[str], size: int, per_entry: int) -> Publisher:
        assert per_entry == 1, "JetStream has no batches of a producer's making"
        link, content = Link(self._address), payload(size)
        width = max(len(topic) for topic in topics)

        def frame(number: int) -> bytes:
            topic = topics[number % len(topics)]
            # Blanks between words may be repeated: they make up for shorter names.
            padding = " " * (1 + width - len(topic))
            head = f"PUB t.{topic}{padding}{link.inbox} {size}\r\n"
            return b"".join((head.encode(), content, b"\r\n"))

        row, frame_bytes = row_of(frame, len(topics))
        return Publisher(link, Frames(row, frame_bytes, 1, size))

    def subscriber(self, topic: str, messages: int, per_entry: int) -> Channel:
        """A push consumer that acknowledges nothing: the cheapest way to read a stream."""
        link = Link(self._address)
        consumer = {
            "deliver_subject": link.inbox,
            "deliver_policy": "all",
            "ack_policy": "none",
            "replay_policy": "instant",
        }
        body = json.dumps({"stream_name": topic, "config": consumer})
        # The answer is two lines like any delivery, and comes first.
        subject = f"$JS.API.CONSUMER.CREATE.{topic}"
        link.socket.sendall(f"PUB {subject} {link.inbox} {len(body)}\r\n{body}\r\n".encode())
        link.uncounted = 1
        return link
