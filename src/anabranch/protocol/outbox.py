"""Bytes on their way out: small things copied into one buffer, large entries passed by reference.

One write per event of the loop is what makes a connection fast, so everything that was queued
leaves together. Copying a small entry is cheaper than carrying one more buffer through the
transport; copying a large one is not.
"""

from __future__ import annotations

from librt.strings import BytesWriter

from anabranch.protocol.frames import encode_frame
from anabranch.runtime.world import Buffer

# Entries from this size on are not copied.
BY_REFERENCE = 16 * 1024


class Outbox:
    def __init__(self) -> None:
        self.writer = BytesWriter()  # wire_codec writes its frames here
        self._pieces: list[Buffer] = []  # before everything in `writer`
        self._pieces_size = 0

    def __repr__(self) -> str:
        return f"Outbox({self.size} bytes)"

    @property
    def size(self) -> int:
        return self._pieces_size + len(self.writer)

    def write_frame(self, command: bytes) -> None:
        self.writer.write(encode_frame(command))

    def write_encoded(self, frames: bytes) -> None:
        if len(frames) < BY_REFERENCE:
            self.writer.write(frames)
        else:
            self._add_reference(frames)

    def write_entry(self, entry: Buffer) -> None:
        """The entry of the frame whose header was just written. It must not change from here on."""
        if len(entry) < BY_REFERENCE:
            self.writer.write(entry if isinstance(entry, bytes) else bytes(entry))
        else:
            self._add_reference(entry)

    def _add_reference(self, piece: Buffer) -> None:
        self._cut()
        self._pieces.append(piece)
        self._pieces_size += len(piece)

    def _cut(self) -> None:
        if len(self.writer):
            self._pieces.append(self.writer.getvalue())
            self._pieces_size += len(self.writer)
            self.writer = BytesWriter()

    def take(self) -> list[Buffer]:
        self._cut()
        pieces, self._pieces, self._pieces_size = self._pieces, [], 0
        return pieces
