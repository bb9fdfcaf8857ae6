"""One end of a simulated connection, with everything asyncio promises of a transport.

Bytes wait in two places: here, in the process, once the kernel's send window is full (that is the
write buffer whose marks pause the protocol), and in the pipe until the receiver takes them. A
closing transport delivers what it holds; `connection_lost` comes exactly once, and nothing after.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from anabranch.runtime.world import Buffer
from tests.simulation.loop import SimulatedLoop
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.network import Pipe

Address: TypeAlias = tuple[str, int]

WINDOW_BYTES = 64 * 1024
HIGH_BYTES = 64 * 1024


class SimulatedTransport(asyncio.Transport):
    def __init__(
        self,
        loop: SimulatedLoop,
        process: Process,
        outgoing: Pipe,
        incoming: Pipe,
        *,
        local: Address,
        remote: Address,
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.process = process
        self._loop = loop
        self._outgoing = outgoing
        self._incoming = incoming
        self._protocol: asyncio.BaseProtocol = asyncio.Protocol()
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._under_way = 0  # bytes in the pipe that the peer has not taken
        self._high, self._low = HIGH_BYTES, HIGH_BYTES // 4
        self._is_reading = True
        self._has_begun = False
        self._has_paused_protocol = False
        self._is_closing = False
        self._eof_wanted = False
        self._has_sent_end = False
        self._pump_is_due = False
        self.is_over = False  # connection_lost was called, or is about to be

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._outgoing.sender = self
        self._incoming.receiver = self
        protocol.connection_made(self)
        self._has_begun = True
        self._incoming.wake()

    # asyncio's interface

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.pump_soon()

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_BYTES if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low
        if not self._high >= self._low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._maybe_pause_protocol()

    def write(self, data: Buffer) -> None:
        if self._eof_wanted:
            raise RuntimeError("cannot write after write_eof()")
        if not data or self._is_closing or not self.process.alive:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(data)
        self._flush()
        self._maybe_pause_protocol()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._eof_wanted:
            return
        self._eof_wanted = True
        self._flush()

    def close(self) -> None:
        if self._is_closing or not self.process.alive:
            return
        self._is_closing = True
        self._flush()

    def abort(self) -> None:
        if self.process.alive and not self.is_over:
            self._outgoing.cut()
            if self._outgoing.receiver is not None:
                self._outgoing.receiver.fail_soon(ConnectionResetError(104, "reset by peer"))
            self._finish(None)

    # what the network calls

    def pump_soon(self) -> None:
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self._pump, context=self.process.context)

    def taken_soon(self, size: int) -> None:
        self._loop.call_soon(self._taken, size, context=self.process.context)

    def fail_soon(self, error: OSError) -> None:
        self._loop.call_soon(self._fail, error, context=self.process.context)

    # inside

    def _pump(self) -> None:
        self._pump_is_due = False
        if not self._can_receive() or not self._incoming.has_arrived:
            return
        piece = self._incoming.take()
        if piece is None:
            self._receive_eof()
        else:
            _feed(self._protocol, piece)
        if self._incoming.has_arrived:
            self.pump_soon()

    def _can_receive(self) -> bool:
        return self._has_begun and self.is_reading() and self.process.alive

    def _receive_eof(self) -> None:
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not self._protocol.eof_received():
            self.close()

    def _taken(self, size: int) -> None:
        self._under_way -= size
        if not self.is_over:
            self._flush()
            self._maybe_resume_protocol()

    def _fail(self, error: OSError) -> None:
        while self._can_receive() and self._incoming.has_arrived and not self.is_over:
            self._pump()  # what arrived before the reset is still read
        if self.process.alive and not self.is_over:
            self._finish(error)

    def _flush(self) -> None:
        """Move what fits into the kernel's window; when all is gone, the end follows."""
        while self._buffer and self._under_way < WINDOW_BYTES:
            piece = self._buffer.popleft()
            self._buffered -= len(piece)
            self._under_way += len(piece)
            self._outgoing.send(piece)
        if self._buffer or self.is_over:
            return
        if self._is_closing:
            self._send_end()
            self._finish(None)
        elif self._eof_wanted:
            self._send_end()

    def _send_end(self) -> None:
        if not self._has_sent_end:
            self._has_sent_end = True
            self._outgoing.send(None)

    def _finish(self, error: Exception | None) -> None:
        self._is_closing = self.is_over = True
        self._buffer.clear()
        self._buffered = 0
        self._loop.call_soon(self._protocol.connection_lost, error, context=self.process.context)

    def _maybe_pause_protocol(self) -> None:
        if self._buffered > self._high and not self._has_paused_protocol:
            self._has_paused_protocol = True
            self._protocol.pause_writing()

    def _maybe_resume_protocol(self) -> None:
        if self._has_paused_protocol and self._buffered <= self._low:
            self._has_paused_protocol = False
            self._protocol.resume_writing()


def _feed(protocol: asyncio.BaseProtocol, piece: bytes) -> None:
    if isinstance(protocol, asyncio.BufferedProtocol):
        rest = memoryview(piece)
        while rest:
            buffer = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]
    else:
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(piece)
