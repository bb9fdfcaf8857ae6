from __future__ import annotations

import pytest

from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.layout import Layout, checked_layout
from anabranch.topics.layout_changes import split
from anabranch.topics.names import parse_topic_name
from anabranch.topics.new_layouts import initial_layout, migrated_layout, synthetic_layout
from anabranch.topics.ring import Routing, hash_key
from anabranch.topics.routing import route, route_keyless
from anabranch.topics.segment import Segment, SegmentId, SegmentState
from tests.unit.topics.hash_vectors import CLIENT_VECTORS, VECTORS, ClientVector, HashVector

TOPIC = parse_topic_name("x")


def routed(layout: Layout, key: str) -> int | None:
    segment = route(layout, hash_key(key))
    return None if segment is None else segment.id


@pytest.mark.parametrize("vector", CLIENT_VECTORS, ids=lambda vector: vector.key or "empty")
def test_key_goes_to_the_segment_of_its_range(vector: ClientVector) -> None:
    assert routed(initial_layout(4, 0), vector.key) == vector.segment_of_4


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.key or "empty")
def test_key_of_a_regular_topic_goes_to_its_partition(vector: HashVector) -> None:
    assert routed(synthetic_layout(TOPIC, 4), vector.key) == vector.mod_4
    assert routed(synthetic_layout(TOPIC, 3), vector.key) == vector.mod_3


def test_regular_topic_without_partitions_takes_every_key() -> None:
    assert {routed(synthetic_layout(TOPIC, 0), each.key) for each in VECTORS} == {0}


def test_low_half_routes_in_a_layout_that_says_so() -> None:
    layout = initial_layout(2, 0, routing=Routing.LOW16)
    assert routed(layout, "key1") == 0
    assert routed(initial_layout(2, 0), "key1") == 1


def test_migrated_topic_routes_by_range_though_its_parents_are_legacy() -> None:
    layout = migrated_layout(TOPIC, 4, 0)
    assert [routed(layout, each.key) for each in CLIENT_VECTORS] == [
        4 + each.segment_of_4 for each in CLIENT_VECTORS
    ]


def test_one_segment_that_is_not_legacy_makes_the_layout_route_by_range() -> None:
    segments = [
        Segment(SegmentId(0), KeyRange(0, 0x7FFF), legacy_topic="persistent://t/n/x"),
        Segment(SegmentId(1), KeyRange(0x8000, 0xFFFF)),
    ]
    assert routed(checked_layout(0, 2, segments), "a") == 0
    assert routed(checked_layout(0, 2, segments), "k1") == 1


def test_partition_that_the_layout_lacks_has_no_segment() -> None:
    segments = [
        Segment(SegmentId(each), KeyRange(each, each), legacy_topic=f"persistent://t/n/{each}")
        for each in (0, 5)
    ]
    layout = checked_layout(0, 6, segments)
    assert [routed(layout, key) for key in ("key2", "key1")] == [0, None]


def test_sealed_partition_takes_no_key() -> None:
    segments = [
        Segment(SegmentId(0), KEY_SPACE, SegmentState.SEALED, legacy_topic="persistent://t/n/0"),
        Segment(SegmentId(1), KEY_SPACE, legacy_topic="persistent://t/n/1"),
    ]
    assert routed(checked_layout(0, 2, segments), "a") is None


def test_keyless_messages_go_round_in_range_order() -> None:
    layout = split(initial_layout(2, 0), 0, 1)
    assert [route_keyless(layout, turn).id for turn in range(5)] == [2, 3, 1, 2, 3]
