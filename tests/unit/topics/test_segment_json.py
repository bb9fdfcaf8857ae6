from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.errors import Corrupt
from anabranch.topics.json_fields import Fields, Json
from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.positions import EARLIEST, Position
from anabranch.topics.segment import Segment, SegmentId, SegmentState
from anabranch.topics.segment_json import (
    PrunedSegment,
    parse_pruned_segment,
    read_segment,
    segment_to_json,
    unknown_fields,
)

SEALED: dict[str, Json] = {
    "segmentId": 0,
    "hashRange": {"start": 0, "end": 65535},
    "state": "SEALED",
    "parentIds": [],
    "childIds": [1, 2],
    "createdAtEpoch": 0,
    "sealedAtEpoch": 1,
    "createdAtMs": 1700000000000,
    "sealedAtMs": 1700000100000,
    "entryBucketSplits": [16384, 32768, 49152],
}


def read(raw: Json) -> Segment:
    return read_segment(Fields(raw, "segment"))


def test_segment_is_read_and_written_under_the_names_of_the_record() -> None:
    segment = read(SEALED)
    assert segment == Segment(
        SegmentId(0),
        KeyRange(0, 0xFFFF),
        SegmentState.SEALED,
        children=(SegmentId(1), SegmentId(2)),
        sealed_at_epoch=1,
        created_at_ms=1700000000000,
        sealed_at_ms=1700000100000,
        entry_bucket_splits=(16384, 32768, 49152),
    )
    assert segment_to_json(segment) == SEALED


@pytest.mark.parametrize("value", [-1, 0, 7, None])
def test_state_alone_decides_whether_a_segment_is_sealed(value: int | None) -> None:
    raw = SEALED | {"state": "ACTIVE", "sealedAtEpoch": value, "sealedAtMs": value, "childIds": []}
    segment = read(raw)
    assert segment.is_active
    assert (segment.sealed_at_epoch, segment.sealed_at_ms) == (0, 0)
    assert segment_to_json(segment)["sealedAtEpoch"] == 0


def test_segment_of_the_first_record_format_is_read() -> None:
    """Without wall-clock times and buckets, as PIP-468 shows it."""
    older = {key: SEALED[key] for key in list(SEALED)[:7]}
    segment = read(older)
    assert (segment.created_at_ms, segment.sealed_at_ms, segment.bucket_count) == (0, 0, 1)


def test_legacy_name_is_there_only_if_there_is_one() -> None:
    assert "legacyTopicName" not in segment_to_json(read(SEALED))
    raw = SEALED | {"legacyTopicName": "persistent://t/n/x"}
    assert segment_to_json(read(raw)) == raw


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": "MELTED"}, "segment.state: unknown state 'MELTED'"),
        ({"state": None}, "segment.state: missing"),
        ({"segmentId": None}, "segment.segmentId: missing"),
        ({"hashRange": None}, "segment.hashRange: expected an object, got None"),
        ({"hashRange": {"start": 5, "end": 2}}, r"segment.hashRange.end: range \[5, 2\]"),
        ({"hashRange": {"start": 0}}, "segment.hashRange.end: missing"),
        ({"parentIds": 3}, "segment.parentIds: expected a list, got 3"),
        ({"entryBucketSplits": ["a"]}, r"segment.entryBucketSplits\[0\]"),
    ],
)
def test_bad_field_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Corrupt, match=message):
        read(SEALED | change)


def test_only_what_does_not_follow_from_the_state_is_kept() -> None:
    source = Fields(SEALED | {"active": False, "leaf": True, "colour": "blue"}, "segment")
    read_segment(source)
    assert unknown_fields(source) == {"colour": "blue"}


@pytest.mark.parametrize("last", [EARLIEST, Position(12, 1199)])
def test_pruned_segment_keeps_where_it_ended(last: Position) -> None:
    pruned = PrunedSegment(read(SEALED), last)
    assert parse_pruned_segment(pruned.to_json()) == pruned
    assert json.loads(pruned.to_json())["lastMessageId"] == {
        "ledgerId": last.ledger,
        "entryId": last.entry,
    }


def test_pruned_segment_that_never_was_sealed_is_corrupt() -> None:
    record = PrunedSegment(Segment(SegmentId(0), KEY_SPACE), EARLIEST).to_json()
    with pytest.raises(Corrupt, match="said to be active"):
        parse_pruned_segment(record)


def test_pruned_segment_without_an_end_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="lastMessageId"):
        parse_pruned_segment(json.dumps(SEALED).encode())
    bad = SEALED | {"lastMessageId": {"ledgerId": -2, "entryId": 0}}
    with pytest.raises(Corrupt, match="-2:0 is no position"):
        parse_pruned_segment(json.dumps(bad).encode())
