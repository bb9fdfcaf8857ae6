from __future__ import annotations

from anabranch.protocol.outbox import Outbox


def test_small_things_leave_as_one_buffer() -> None:
    out = Outbox()
    out.write_frame(b"a")
    out.write_entry(b"b" * 100)
    out.write_entry(memoryview(b"c"))
    out.write_encoded(b"d")
    [piece] = out.take()
    assert piece == b"\x00\x00\x00\x05\x00\x00\x00\x01a" + b"b" * 100 + b"cd"


def test_large_entries_keep_their_place_and_are_not_copied() -> None:
    out = Outbox()
    large = bytes(100_000)
    out.write_encoded(b"before")
    out.write_entry(large)
    out.write_encoded(b"after")
    assert out.size == 100_011
    before, middle, after = out.take()
    assert (before, after) == (b"before", b"after")
    assert middle is large


def test_what_was_taken_is_gone() -> None:
    out = Outbox()
    out.write_encoded(b"x")
    assert out.take() == [b"x"]
    assert out.size == 0
    assert out.take() == []
