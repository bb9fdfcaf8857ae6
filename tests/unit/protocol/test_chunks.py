from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.protocol import wire_pb2
from anabranch.protocol.chunks import Assembled, ChunkAssembler, GivenUp, Progress, split_message


def metadata(sequence_id: int = 1) -> wire_pb2.MessageMetadata:
    return wire_pb2.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1)


def chunk(index: int, count: int, total: int, uuid: str = "u") -> wire_pb2.MessageMetadata:
    made = metadata()
    made.uuid, made.chunk_id = uuid, index
    made.num_chunks_from_msg, made.total_chunk_msg_size = count, total
    return made


def assembler(max_pending: int = 3, max_bytes: int = 1000) -> ChunkAssembler[int]:
    return ChunkAssembler(
        max_pending=max_pending, max_message_size=500, max_pending_bytes=max_bytes
    )


def test_what_fits_is_not_chunked() -> None:
    [(same, payload)] = split_message(metadata(), b"small", 1000)
    assert same == metadata()
    assert bytes(payload) == b"small"


def test_chunks_say_what_they_are_part_of_and_fit() -> None:
    payload = bytes(range(250))
    chunks = list(split_message(metadata(7), payload, 200))
    assert b"".join(bytes(part) for _, part in chunks) == payload
    for index, (made, part) in enumerate(chunks):
        assert made.uuid == "p-7"
        assert (made.chunk_id, made.num_chunks_from_msg) == (index, len(chunks))
        assert made.total_chunk_msg_size == 250
        assert made.ByteSize() + len(part) <= 200


def test_metadata_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(InvalidInput, match="leaves no room"):
        list(split_message(metadata(), bytes(100), 70))


def test_chunks_of_several_messages_may_lie_between_each_other() -> None:
    box = assembler()
    assert box.add(chunk(0, 2, 4, "a"), b"a1", 1, 0) == Progress()
    assert box.add(chunk(0, 2, 4, "b"), b"b1", 2, 0) == Progress()
    assert box.add(chunk(1, 2, 4, "a"), b"a2", 3, 0).message == Assembled(b"a1a2", (1, 3))
    assert box.add(chunk(1, 2, 4, "b"), b"b2", 4, 0).message == Assembled(b"b1b2", (2, 4))
    assert (len(box), box.pending_bytes) == (0, 0)


def test_a_chunk_sent_twice_is_a_duplicate_that_can_be_acknowledged() -> None:
    box = assembler()
    box.add(chunk(0, 3, 6), b"11", 1, 0)
    box.add(chunk(1, 3, 6), b"22", 2, 0)
    again = box.add(chunk(1, 3, 6), b"22", 3, 0)
    assert again.given_up == (GivenUp("u", (3,), "chunk 1 was sent twice", is_duplicate=True),)
    first_again = box.add(chunk(0, 3, 6), b"11", 4, 0)
    assert first_again.given_up[0].is_duplicate
    assert box.add(chunk(2, 3, 6), b"33", 5, 0).message == Assembled(b"112233", (1, 2, 5))


def test_the_same_entry_again_is_a_redelivery() -> None:
    box = assembler()
    box.add(chunk(0, 2, 4), b"11", 1, 0)
    assert box.add(chunk(0, 2, 4), b"11", 1, 0) == Progress()
    assert box.pending_bytes == 2
    three = assembler()
    three.add(chunk(0, 3, 6), b"11", 1, 0)
    three.add(chunk(1, 3, 6), b"22", 2, 0)
    assert three.add(chunk(1, 3, 6), b"22", 2, 0) == Progress()
    assert three.add(chunk(2, 3, 6), b"33", 3, 0).message == Assembled(b"112233", (1, 2, 3))


def test_a_gap_gives_up_everything_of_that_message() -> None:
    box = assembler()
    box.add(chunk(0, 3, 6), b"11", 1, 0)
    lost = box.add(chunk(2, 3, 6), b"33", 3, 0)
    assert [(item.entries, item.is_duplicate) for item in lost.given_up] == [
        ((1,), False),
        ((3,), False),
    ]
    assert "chunk 2 arrived, 1 was next" in lost.given_up[0].reason
    assert len(box) == 0


def test_a_message_whose_beginning_was_never_seen_is_given_up() -> None:
    lost = assembler().add(chunk(1, 3, 6), b"22", 2, 0)
    assert lost.given_up == (GivenUp("u", (2,), "chunk 1 arrived, 0 was next"),)


@pytest.mark.parametrize(
    ("index", "count", "total", "payload"),
    [
        (0, 0, 5, b"x"),
        (-1, 2, 5, b"x"),
        (2, 2, 5, b"x"),
        (0, 2, -5, b"x"),
        (0, 2**31 - 1, 5, b"x"),  # more chunks than bytes
        (0, 2, 501, b"x"),  # larger than allowed
        (0, 2, 5, b"toolong"),
        (0, 1, 5, b"four"),
    ],
)
def test_numbers_that_cannot_be_are_given_up_with_a_reason(
    index: int, count: int, total: int, payload: bytes
) -> None:
    box = assembler()
    lost = box.add(chunk(index, count, total), payload, 1, 0)
    assert lost.message is None
    assert lost.given_up[0].entries == (1,)
    assert str(total) in lost.given_up[0].reason
    assert (len(box), box.pending_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("count", "total", "payload"), [(3, 4, b"22"), (2, 5, b"22"), (2, 4, b"222"), (2, 4, b"2")]
)
def test_chunks_that_contradict_each_other_are_given_up(
    count: int, total: int, payload: bytes
) -> None:
    box = assembler()
    box.add(chunk(0, 2, 4), b"11", 1, 0)
    lost = box.add(chunk(1, count, total), payload, 2, 0)
    assert [item.entries for item in lost.given_up] == [(1,), (2,)]
    assert len(box) == 0


def test_the_oldest_makes_room_when_there_are_too_many() -> None:
    box = assembler(max_pending=2)
    for entry, uuid in enumerate("abc"):
        progress = box.add(chunk(0, 2, 4, uuid), b"11", entry, 0)
    assert [item.uuid for item in progress.given_up] == ["a"]
    assert (len(box), box.pending_bytes) == (2, 4)


def test_the_oldest_makes_room_when_there_is_too_much() -> None:
    box = assembler(max_bytes=10)
    box.add(chunk(0, 2, 100, "a"), bytes(8), 1, 0)
    progress = box.add(chunk(0, 2, 100, "b"), bytes(8), 2, 0)
    assert [item.uuid for item in progress.given_up] == ["a"]
    assert box.pending_bytes == 8


def test_what_stays_incomplete_for_too_long_is_given_up() -> None:
    box = assembler()
    box.add(chunk(0, 2, 4, "old"), b"11", 1, now_ms=100)
    box.add(chunk(0, 2, 4, "new"), b"11", 2, now_ms=200)
    assert box.expire(since_before_ms=150) == (GivenUp("old", (1,), "incomplete for too long"),)
    assert len(box) == 1
