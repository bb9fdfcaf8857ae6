"""Frames: how commands lie one behind another in a connection's bytes.

    u32 total_size   bytes that follow this field, big-endian
    u32 cmd_size     bytes of the command
    command          cmd_size bytes
    entry            the rest; only SEND and MESSAGE have one

A length is checked before anything is done with it: no number that a peer writes makes us wait for,
or set aside, more than the limit both sides agreed on.
"""

from __future__ import annotations

from anabranch.errors import RemoteProtocolError
from anabranch.runtime.world import Buffer

DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024
# What command and metadata may add to the largest message.
_FRAME_ALLOWANCE = 10 * 1024
_MIN_TOTAL_SIZE = 5  # a cmd_size, and a command of one byte


def frame_limit(max_message_size: int) -> int:
    """The largest total_size allowed where messages may have `max_message_size` bytes."""
    return max_message_size + _FRAME_ALLOWANCE


def frame_size(data: Buffer, start: int, limit: int) -> int | None:
    """Bytes of the frame at `start`, its length field included; None: too few bytes to know."""
    if len(data) - start < 4:
        return None
    total = int.from_bytes(data[start : start + 4], "big")
    if total > limit:
        raise RemoteProtocolError(f"frame of {total} bytes announced, the limit is {limit}")
    if total < _MIN_TOTAL_SIZE:
        raise RemoteProtocolError(f"frame of {total} bytes announced, too small for a command")
    return 4 + total


def split_frame(frame: Buffer) -> tuple[memoryview, memoryview]:
    """The command and the entry of one whole frame."""
    view = memoryview(frame)
    size = int.from_bytes(view[4:8], "big")
    if not 0 < size <= len(view) - 8:
        raise RemoteProtocolError(f"command of {size} bytes in a frame of {len(view)}")
    return view[8 : 8 + size], view[8 + size :]


def encode_frame(command: bytes, entry: Buffer = b"") -> bytes:
    size = len(command)
    return b"".join(
        ((4 + size + len(entry)).to_bytes(4, "big"), size.to_bytes(4, "big"), command, entry)
    )
