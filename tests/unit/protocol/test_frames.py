from __future__ import annotations

import pytest

from anabranch.errors import RemoteProtocolError
from anabranch.protocol.frames import encode_frame, frame_limit, frame_size, split_frame


def test_a_frame_comes_apart_as_it_was_put_together() -> None:
    frame = encode_frame(b"command", b"entry")
    assert frame_size(frame, 0, 100) == len(frame)
    command, entry = split_frame(frame)
    assert (bytes(command), bytes(entry)) == (b"command", b"entry")


def test_the_limit_leaves_room_for_command_and_metadata() -> None:
    assert frame_limit(5242880) == 5242880 + 10240


def test_the_size_is_unknown_before_its_four_bytes_are_there() -> None:
    frame = encode_frame(b"c")
    assert [frame_size(frame[:n], 0, 100) for n in range(5)] == [None, None, None, None, 9]


@pytest.mark.parametrize("size", [101, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_frame_above_the_limit_is_refused_by_its_length_alone(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"frame of {size} bytes announced, the limit"):
        frame_size(size.to_bytes(4, "big"), 0, 100)


def test_a_frame_at_the_limit_is_not_refused() -> None:
    assert frame_size((100).to_bytes(4, "big"), 0, 100) == 104


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_frame_without_room_for_a_command_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="too small"):
        frame_size(size.to_bytes(4, "big"), 0, 100)


@pytest.mark.parametrize("size", [0, 6, 2**31, 2**32 - 1])
def test_a_command_that_is_not_inside_its_frame_is_refused(size: int) -> None:
    frame = (9).to_bytes(4, "big") + size.to_bytes(4, "big") + b"12345"
    with pytest.raises(RemoteProtocolError, match=f"command of {size} bytes"):
        split_frame(frame)
