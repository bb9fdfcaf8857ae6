from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.errors import Corrupt, Stale
from anabranch.topics.autoscale_override import AutoScaleOverride
from anabranch.topics.layout_changes import plan_merge, plan_split, split
from anabranch.topics.new_layouts import initial_layout
from anabranch.topics.record import MigrationOrigin, TopicRecord, parse_topic_record
from anabranch.topics.ring import Routing
from anabranch.topics.transition import Deletion, LayoutTransition, UnknownTransition

# As PIP-468 prints it.
PIP_468 = """{
  "epoch": 3,
  "nextSegmentId": 5,
  "segments": {
    "0": { "segmentId": 0, "hashRange": {"start": 0, "end": 65535}, "state": "SEALED",
           "parentIds": [], "childIds": [1, 2], "createdAtEpoch": 0, "sealedAtEpoch": 1 },
    "1": { "segmentId": 1, "hashRange": {"start": 0, "end": 32767}, "state": "SEALED",
           "parentIds": [0], "childIds": [3, 4], "createdAtEpoch": 1, "sealedAtEpoch": 3 },
    "2": { "segmentId": 2, "hashRange": {"start": 32768, "end": 65535}, "state": "ACTIVE",
           "parentIds": [0], "childIds": [], "createdAtEpoch": 1, "sealedAtEpoch": 0 },
    "3": { "segmentId": 3, "hashRange": {"start": 0, "end": 16383}, "state": "ACTIVE",
           "parentIds": [1], "childIds": [], "createdAtEpoch": 3, "sealedAtEpoch": 0 },
    "4": { "segmentId": 4, "hashRange": {"start": 16384, "end": 32767}, "state": "ACTIVE",
           "parentIds": [1], "childIds": [], "createdAtEpoch": 3, "sealedAtEpoch": 0 }
  },
  "properties": {}
}"""

LAYOUT = split(initial_layout(1, 1700000000000), 0, 1700000100000)
RECORD = TopicRecord(
    layout=LAYOUT,
    properties={"team": "a"},
    autoscale=AutoScaleOverride(max_segments=8),
    incarnation="5f3a",
    migrated_from=MigrationOrigin("persistent://t/n/x", 4),
)


def as_dict(record: TopicRecord) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(record.to_json())
    return parsed


def changed(**changes: Any) -> bytes:
    return json.dumps(as_dict(RECORD) | changes).encode()


def test_record_has_the_names_of_the_reference() -> None:
    assert as_dict(RECORD) == {
        "epoch": 1,
        "nextSegmentId": 3,
        "segments": {
            "0": {
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
            },
            "1": {
                "segmentId": 1,
                "hashRange": {"start": 0, "end": 32767},
                "state": "ACTIVE",
                "parentIds": [0],
                "childIds": [],
                "createdAtEpoch": 1,
                "sealedAtEpoch": 0,
                "createdAtMs": 1700000100000,
                "sealedAtMs": 0,
                "entryBucketSplits": [32768],
            },
            "2": {
                "segmentId": 2,
                "hashRange": {"start": 32768, "end": 65535},
                "state": "ACTIVE",
                "parentIds": [0],
                "childIds": [],
                "createdAtEpoch": 1,
                "sealedAtEpoch": 0,
                "createdAtMs": 1700000100000,
                "sealedAtMs": 0,
                "entryBucketSplits": [32768],
            },
        },
        "properties": {"team": "a"},
        "autoScalePolicy": {"maxSegments": 8},
        "routing": "murmur3-high16",
        "incarnation": "5f3a",
        "migratedFrom": {"topic": "persistent://t/n/x", "partitions": 4},
    }


def test_record_is_read_as_it_was_written() -> None:
    assert parse_topic_record(RECORD.to_json()) == RECORD


def test_record_of_the_proposal_is_read_and_written_back_whole() -> None:
    record = parse_topic_record(PIP_468.encode())
    assert [segment.id for segment in record.layout.active] == [3, 4, 2]
    assert record.incarnation is None
    assert record.layout.routing is Routing.HIGH16
    proposed, written = json.loads(PIP_468), as_dict(record)
    for key in ("epoch", "nextSegmentId", "properties"):
        assert written[key] == proposed[key]
    for key, segment in proposed["segments"].items():
        assert {name: written["segments"][key][name] for name in segment} == segment


def test_equal_records_have_equal_bytes() -> None:
    one = TopicRecord(LAYOUT, {"a": "1", "b": "2"})
    other = TopicRecord(LAYOUT, {"b": "2", "a": "1"})
    assert one.to_json() == other.to_json()


def test_routing_is_kept_for_the_life_of_the_topic() -> None:
    record = TopicRecord(initial_layout(2, 0, routing=Routing.LOW16))
    record = record.with_layout(split(record.layout, 0, 1))
    assert as_dict(record)["routing"] == "murmur3-low16"
    assert parse_topic_record(record.to_json()).layout.routing is Routing.LOW16


def test_rewrite_of_the_layout_keeps_everything_else() -> None:
    pruned, _ = LAYOUT.prune([0])
    after = RECORD.with_layout(pruned)
    before, now = as_dict(RECORD), as_dict(after)
    for key in ("properties", "autoScalePolicy", "routing", "incarnation", "migratedFrom"):
        assert now[key] == before[key]
    assert now["epoch"] == 2


def test_rewrite_keeps_what_a_newer_version_wrote() -> None:
    newer = as_dict(RECORD) | {"geo": {"clusters": ["a"]}}
    newer["segments"]["0"] |= {"tier": "cold", "active": False}
    newer["segments"]["2"] |= {"tier": "hot", "active": True}
    newer["autoScalePolicy"] |= {"splitLater": True}
    newer["migratedFrom"] |= {"by": "ann"}
    record = parse_topic_record(json.dumps(newer).encode())
    pruned, _ = record.layout.prune([0])
    written = as_dict(record.with_layout(split(pruned, 2, 9)))
    assert written["geo"] == {"clusters": ["a"]}
    assert written["autoScalePolicy"] == {"maxSegments": 8, "splitLater": True}
    assert written["migratedFrom"]["by"] == "ann"
    assert written["segments"]["2"]["tier"] == "hot"
    assert "active" not in written["segments"]["2"]
    assert "0" not in written["segments"]


def test_transition_is_written_first_and_cleared_by_its_commit() -> None:
    intent = LayoutTransition("op-1", plan_merge(LAYOUT, (1, 2), 5))
    planned = RECORD.with_transition(intent)
    assert planned.layout == RECORD.layout
    assert parse_topic_record(planned.to_json()) == planned
    done = planned.committed()
    assert done.transition is None
    assert done.layout == LAYOUT.apply(intent.change)
    assert done.properties == RECORD.properties


def test_plan_for_another_layout_is_not_committed() -> None:
    stale = LayoutTransition("op-1", plan_split(initial_layout(1, 0), 0, 5))
    with pytest.raises(Stale, match="planned for another layout"):
        RECORD.with_transition(stale).committed()


def test_one_intent_at_a_time() -> None:
    deleting = RECORD.with_transition(Deletion("op-2", 7))
    with pytest.raises(AssertionError):
        deleting.with_transition(Deletion("op-3", 8))
    pruned, _ = LAYOUT.prune([0])
    with pytest.raises(AssertionError, match="planned for another layout"):
        deleting.with_layout(pruned)
    assert deleting.without_transition() == RECORD


def test_topic_with_an_unknown_intent_can_still_be_read() -> None:
    record = parse_topic_record(changed(transition={"kind": "REBUCKET", "n": 3}))
    assert record.layout == LAYOUT
    assert isinstance(record.transition, UnknownTransition)
    assert as_dict(record)["transition"] == {"kind": "REBUCKET", "n": 3}


def test_properties_are_merged_and_removed_one_by_one() -> None:
    record = RECORD.with_properties({"tier": "1", "team": "b"})
    assert record.properties == {"team": "b", "tier": "1"}
    assert record.without_property("team").properties == {"tier": "1"}
    assert record.without_property("absent") == record
    assert RECORD.properties == {"team": "a"}


def test_policy_can_be_unset() -> None:
    assert "autoScalePolicy" not in as_dict(RECORD.with_autoscale(None))


def test_watchers_see_the_layout_and_the_life_of_the_topic_only() -> None:
    assert RECORD.shows_same_layout_as(RECORD.with_properties({"x": "y"}))
    assert RECORD.shows_same_layout_as(RECORD.with_transition(Deletion("op", 1)))
    assert not RECORD.shows_same_layout_as(RECORD.with_layout(LAYOUT.prune([0])[0]))
    assert not RECORD.shows_same_layout_as(TopicRecord(LAYOUT, incarnation="other"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": None}, "topic record.epoch: missing"),
        ({"epoch": "1"}, "topic record.epoch: expected an integer, got '1'"),
        ({"nextSegmentId": 2}, "names ids outside 0 to 1"),
        ({"segments": {}}, "there is no active segment"),
        ({"segments": {"5": as_dict(RECORD)["segments"]["1"]}}, r"segments\.5: holds segment 1"),
        ({"segments": {"1": as_dict(RECORD)["segments"]["1"]}}, "do not tile"),
        ({"segments": []}, "topic record.segments: expected an object"),
        ({"properties": {"a": 1}}, "topic record.properties.a: expected a string"),
        ({"routing": "md5"}, "topic record.routing: 'md5' is not known to this version"),
        ({"autoScalePolicy": 3}, "topic record.autoScalePolicy: expected an object"),
        ({"migratedFrom": {"partitions": 1}}, "topic record.migratedFrom.topic: missing"),
        ({"incarnation": 7}, "topic record.incarnation: expected a string"),
    ],
)
def test_impossible_record_is_corrupt_and_says_where(changes: Any, message: str) -> None:
    with pytest.raises(Corrupt, match=message):
        parse_topic_record(changed(**changes))


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\x00\x01"])
def test_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="topic record"):
        parse_topic_record(data)
