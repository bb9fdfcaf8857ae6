"""The layouts that topics begin with: created, migrated, or standing for a regular topic."""

from __future__ import annotations

from anabranch.errors import InvalidInput
from anabranch.topics.buckets import DEFAULT_BUDGET, bucket_splits, initial_buckets
from anabranch.topics.key_range import KEY_SPACE, KEY_SPACE_SIZE, KeyRange, equal_ranges
from anabranch.topics.layout import Layout
from anabranch.topics.names import Domain, TopicName
from anabranch.topics.ring import DEFAULT_ROUTING, Routing
from anabranch.topics.segment import Segment, SegmentId, SegmentState


def initial_layout(
    segments: int,
    now_ms: int,
    *,
    routing: Routing = DEFAULT_ROUTING,
    bucket_budget: int = DEFAULT_BUDGET,
) -> Layout:
    """Active segments of equal width, ids from 0, epoch 0."""
    ranges = equal_ranges(segments)
    splits = bucket_splits(initial_buckets(routing, bucket_budget, segments))
    made = tuple(
        Segment(SegmentId(index), keys, created_at_ms=now_ms, entry_bucket_splits=splits)
        for index, keys in enumerate(ranges)
    )
    return Layout(0, segments, made, routing)


def synthetic_layout(topic: TopicName, partitions: int) -> Layout:
    """A regular topic seen as segments: one for each partition, or one for the topic itself.

    Keys are routed modulo the number of partitions, so the ranges are only for show.
    """
    names = legacy_names(topic, partitions)
    made = tuple(
        Segment(SegmentId(index), keys, legacy_topic=name)
        for index, (name, keys) in enumerate(zip(names, _shown_ranges(len(names)), strict=True))
    )
    return Layout(0, len(made), made)


def migrated_layout(
    topic: TopicName,
    partitions: int,
    now_ms: int,
    *,
    routing: Routing = DEFAULT_ROUTING,
    bucket_budget: int = DEFAULT_BUDGET,
) -> Layout:
    """Every partition a sealed parent, and as many children, each with all parents.

    A key may be in any parent, since partitions were chosen modulo their number; therefore every
    parent covers the whole key space and every child waits for all of them.
    """
    names = legacy_names(topic, partitions)
    count = len(names)
    if count > KEY_SPACE_SIZE:
        raise InvalidInput(f"{topic} has {count} partitions; at most {KEY_SPACE_SIZE} can migrate")
    parent_ids = tuple(SegmentId(index) for index in range(count))
    child_ids = tuple(SegmentId(count + index) for index in range(count))
    parents = tuple(
        Segment(
            id=each,
            keys=KEY_SPACE,
            state=SegmentState.SEALED,
            children=child_ids,
            # Its first message is older than now by an unknown time, and 0 says "not known": a seek
            # to a time before the migration then looks into the parent instead of replaying it.
            created_at_ms=0,
            sealed_at_ms=now_ms,
            legacy_topic=name,
        )
        for each, name in zip(parent_ids, names, strict=True)
    )
    splits = bucket_splits(initial_buckets(routing, bucket_budget, count))
    children = tuple(
        Segment(
            id=each,
            keys=keys,
            parents=parent_ids,
            created_at_ms=now_ms,
            entry_bucket_splits=splits,
        )
        for each, keys in zip(child_ids, equal_ranges(count), strict=True)
    )
    return Layout(0, 2 * count, parents + children, routing)


def legacy_names(topic: TopicName, partitions: int) -> tuple[str, ...]:
    """The regular topics that hold the data: the partitions, or the topic itself if it has none."""
    assert topic.domain is Domain.PERSISTENT, topic
    assert topic.partition is None, topic
    if partitions <= 0:
        return (str(topic),)
    return tuple(str(topic.of_partition(index)) for index in range(partitions))


def _shown_ranges(count: int) -> tuple[KeyRange, ...]:
    if count <= KEY_SPACE_SIZE:
        return equal_ranges(count)
    return tuple(KeyRange(index % KEY_SPACE_SIZE, index % KEY_SPACE_SIZE) for index in range(count))
