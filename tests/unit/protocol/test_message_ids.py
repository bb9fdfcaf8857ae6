from __future__ import annotations

import tracemalloc

import pytest

from anabranch.errors import InvalidInput
from anabranch.protocol.message_ids import (
    EARLIEST,
    EARLIEST_IN_TOPIC,
    LATEST,
    LATEST_IN_TOPIC,
    Checkpoint,
    CheckpointKind,
    PlainId,
    SegmentedId,
    parse_checkpoint,
    parse_id,
    parse_segmented_id,
)

U64_MAX = "ff" * 9 + "01"


def test_the_special_ids_are_the_ones_java_uses() -> None:
    assert EARLIEST.encode().hex() == f"08{U64_MAX}10{U64_MAX}"
    assert LATEST.encode().hex() == "08" + "ff" * 8 + "7f" + "10" + "ff" * 8 + "7f"
    assert EARLIEST.to_wire().ledgerId == 2**64 - 1
    assert LATEST.to_wire().entryId == 2**63 - 1
    assert EARLIEST < PlainId(0, 0) < LATEST


def test_a_plain_id_is_a_message_id_data() -> None:
    plain = PlainId(5, 6, partition=1, batch_index=2, batch_size=3, first_chunk=PlainId(5, 4))
    assert plain.encode().hex() == "08051006180120023003" + "3a04" + "08051004"
    again = parse_id(plain.encode())
    assert (again, again.partition, again.batch_size, again.first_chunk) == (
        plain,
        1,
        3,
        PlainId(5, 4),
    )
    assert PlainId(5, 6).encode().hex() == "08051006"


def test_an_id_that_makes_no_sense_is_still_the_same_id_afterwards() -> None:
    # Found by the fuzzer: negative numbers were read, and then not written.
    strange = PlainId(1, 2, partition=-5, batch_index=-16777217, batch_size=-3)
    again = parse_id(strange.encode())
    assert again == strange
    assert (again.partition, again.batch_size) == (-5, -3)


def test_identity_is_ledger_entry_and_batch_index() -> None:
    assert PlainId(1, 2, partition=3, batch_size=9) == PlainId(1, 2)
    assert len({PlainId(1, 2, partition=3), PlainId(1, 2)}) == 1
    assert PlainId(1, 2, batch_index=0) > PlainId(1, 2)
    carried = SegmentedId(1, PlainId(1, 2), {1: PlainId(1, 2)}, "topic://a/b/c")
    assert carried == SegmentedId(1, PlainId(1, 2))
    assert hash(carried) == hash(SegmentedId(1, PlainId(1, 2)))
    assert SegmentedId(1, PlainId(9, 9)) < SegmentedId(2, PlainId(1, 1))


def test_a_segmented_id_byte_by_byte() -> None:
    made = SegmentedId(
        3,
        PlainId(5, 6),
        {3: PlainId(5, 6)},
        "t",
        {"t": {3: PlainId(5, 6)}},
    )
    position = "0000000000000003" + "00000004" + "08051006"
    assert made.encode().hex() == (
        position
        + "00000001"
        + position
        + "0000000174"
        + "00000001"
        + "0000000174"
        + "00000001"
        + position
    )
    again = parse_segmented_id(made.encode())
    assert again == made
    assert (again.positions, again.parent_topic, again.topics) == (
        made.positions,
        made.parent_topic,
        made.topics,
    )


def test_what_is_absent_is_not_empty() -> None:
    absent = parse_segmented_id(SegmentedId(1, EARLIEST).encode())
    assert (absent.parent_topic, absent.topics) == (None, None)
    empty = parse_segmented_id(SegmentedId(1, EARLIEST, {}, "", {}).encode())
    assert (empty.parent_topic, empty.topics) == ("", {})


def test_old_ids_end_early_and_newer_ones_may_go_on() -> None:
    full = SegmentedId(3, PlainId(5, 6), {1: PlainId(1, 1)}, "t", {}).encode()
    oldest = full[:16]
    assert parse_segmented_id(oldest).positions == {}
    with_positions = full[:36]
    assert parse_segmented_id(with_positions).positions == {1: PlainId(1, 1)}
    with_parent = full[:41]
    assert parse_segmented_id(with_parent).parent_topic == "t"
    assert parse_segmented_id(full + b"new").topics == {}


def test_every_other_cut_is_refused() -> None:
    full = SegmentedId(3, PlainId(5, 6), {1: PlainId(1, 1)}, "t", {"x": {}}).encode()
    for cut in set(range(len(full))) - {16, 36, 41}:
        with pytest.raises(InvalidInput):
            parse_segmented_id(full[:cut])


def test_sentinels_have_no_segment() -> None:
    assert parse_segmented_id(EARLIEST_IN_TOPIC.encode()) == SegmentedId(-1, EARLIEST)
    assert parse_segmented_id(LATEST_IN_TOPIC.encode()) == SegmentedId(-1, LATEST)


HEAD = bytes(8) + b"\x00\x00\x00\x04\x08\x05\x10\x06"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(8),
        bytes(8) + b"\xff\xff\xff\xff",  # an id of -1 bytes
        bytes(8) + b"\x7f\xff\xff\xff",
        bytes(8) + b"\x00\x00\x00\x00",  # an id of nothing
        bytes(8) + b"\x00\x00\x00\x02\x08\x05",  # an id without its entry
        bytes(8) + b"\x00\x00\x00\x02\xff\xff",
        HEAD + b"\xff\xff\xff\xff",  # -1 positions
        HEAD + b"\x7f\xff\xff\xff",
        HEAD + b"\x00\x00\x00\x01" + bytes(11),
        HEAD + bytes(4) + b"\xff\xff\xff\xfe",  # a parent of -2 bytes
        HEAD + bytes(4) + b"\x00\x00\x00\x02\xff\xfe",  # and one that is not UTF-8
        HEAD + bytes(4) + b"\xff\xff\xff\xff" + b"\xff\xff\xff\xfe",
        HEAD + bytes(4) + b"\xff\xff\xff\xff" + b"\x00\xff\xff\xff",
    ],
)
def test_bad_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_segmented_id(data)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("checkpoint", "encoded"),
    [
        (Checkpoint(CheckpointKind.EARLIEST), "01"),
        (Checkpoint(CheckpointKind.LATEST), "02"),
        (Checkpoint(CheckpointKind.REGULAR), "0000000000"),
        (
            Checkpoint(CheckpointKind.REGULAR, {7: PlainId(5, 6)}),
            "00000000010000000000000007" + "0000000408051006",
        ),
        (Checkpoint(CheckpointKind.TIME, time_ms=1700000000000), "400000018bcfe56800"),
    ],
)
def test_a_checkpoint_byte_by_byte(checkpoint: Checkpoint, encoded: str) -> None:
    assert checkpoint.encode().hex() == encoded
    assert parse_checkpoint(bytes.fromhex(encoded)) == checkpoint
    assert parse_checkpoint(bytes.fromhex(encoded) + b"more") == checkpoint
    for cut in range(len(encoded) // 2):
        with pytest.raises(InvalidInput):
            parse_checkpoint(bytes.fromhex(encoded)[:cut])


@pytest.mark.parametrize("number", [3, 0x3F, 0x41, 0xFF])
def test_a_checkpoint_of_an_unknown_type_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match=f"unknown type {number}"):
        parse_checkpoint(bytes([number]))


def test_a_length_is_not_believed_before_it_is_checked() -> None:
    tracemalloc.start()
    try:
        for data in (
            b"\x00\x7f\xff\xff\xff",
            b"\x00\x00\x00\x00\x01" + bytes(8) + b"\x7f\xff\xff\xff",
        ):
            with pytest.raises(InvalidInput):
                parse_checkpoint(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
