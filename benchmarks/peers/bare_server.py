"""The least a server can do in Python: take frames of one size and answer each with 16 bytes.

    python -m benchmarks.peers.bare_server echo|log FILE

`log` writes what arrived to a preallocated file, syncs it in a thread, and only then answers; what
arrives meanwhile is the next group. A client begins with the size of its frames, as four bytes.
Frames are neither parsed, checked nor kept, so nothing that is a broker can be faster.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.bare_driver import ACK_BYTES
from benchmarks.peers.channel import BUFFER_BYTES

LOG_BYTES = 512 << 20
Settle = Callable[[], None]


class GroupLog:
    """One sync under way at a time; the file is written round and round."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(LOG_BYTES >> 20):
            os.write(self._file, bytes(1 << 20))
        os.fsync(self._file)
        self._pieces: list[bytes] = []
        self._settles: list[Settle] = []
        self._position = 0
        self._is_due = threading.Event()
        self._is_busy = False
        self._group: tuple[list[bytes], list[Settle]] = ([], [])
        threading.Thread(target=self._run, daemon=True).start()

    def append(self, data: bytes, settle: Settle) -> None:
        self._pieces.append(data)
        self._settles.append(settle)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = bool(self._pieces)
        if self._is_busy:
            self._group = (self._pieces, self._settles)
            self._pieces, self._settles = [], []
            self._is_due.set()

    def _run(self) -> None:
        while True:
            self._is_due.wait()
            self._is_due.clear()
            pieces, settles = self._group
            data = b"".join(pieces)
            if self._position + len(data) > LOG_BYTES:
                self._position = 0
            os.pwrite(self._file, data, self._position)
            os.fdatasync(self._file)
            self._position += len(data)
            self._loop.call_soon_threadsafe(self._settle, settles)

    def _settle(self, settles: list[Settle]) -> None:
        self._next()
        for settle in settles:
            settle()


class Session(asyncio.BufferedProtocol):
    def __init__(self, log: GroupLog | None) -> None:
        self._log = log
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._frame_bytes = 0
        self._odd_bytes = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer if self._frame_bytes else self._buffer[:4]

    def buffer_updated(self, nbytes: int) -> None:
        if not self._frame_bytes:
            self._frame_bytes = int.from_bytes(self._buffer[:4], "big")
            return
        frames, self._odd_bytes = divmod(self._odd_bytes + nbytes, self._frame_bytes)
        if self._log is None:
            self._answer(frames)
        else:
            self._log.append(self._buffer[:nbytes].tobytes(), lambda: self._answer(frames))

    def _answer(self, frames: int) -> None:
        assert self._transport is not None
        if frames and not self._transport.is_closing():
            self._transport.write(bytes(ACK_BYTES * frames))


async def serve(mode: str, file: str) -> None:
    log = GroupLog(file) if mode == "log" else None
    server = await asyncio.get_running_loop().create_server(lambda: Session(log), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"ready {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], str(Path(sys.argv[2]))))
