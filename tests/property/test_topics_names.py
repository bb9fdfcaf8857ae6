"""Laws of names: text and name are one to one, and bad text is told, never crashes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import InvalidName
from anabranch.topics.key_range import KeyRange
from anabranch.topics.names import (
    Domain,
    SegmentDescriptor,
    TopicName,
    decode_local_name,
    encode_local_name,
    parse_descriptor,
    parse_namespace,
    parse_topic_name,
)
from anabranch.topics.segment import SegmentId

LAWS = settings(max_examples=300, deadline=None)

name_like = st.text(alphabet="abtn:/.- %0123é\x00\n\ud800", max_size=30)
schemes = st.sampled_from(["", "topic://", "segment://", "persistent://", "topic://t/n/"])
descriptors = st.builds(
    lambda ends, number: SegmentDescriptor(KeyRange(min(ends), max(ends)), SegmentId(number)),
    st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)),
    st.integers(0, 10**18 - 1),
)


def parsed(text: str) -> TopicName | None:
    try:
        return parse_topic_name(text)
    except InvalidName:
        return None


@LAWS
@given(schemes, name_like)
def test_text_is_refused_or_names_one_topic(scheme: str, rest: str) -> None:
    name = parsed(scheme + rest)
    if name is not None:
        assert parse_topic_name(str(name)) == name
        assert parse_namespace(str(name.namespace)) == name.namespace
        if scheme:
            assert str(name) == scheme + rest


@LAWS
@given(st.text(max_size=40))
def test_any_text_is_refused_or_names_one_topic(text: str) -> None:
    name = parsed(f"topic://t/n/{text}")
    if name is not None:
        assert (name.domain, name.local) == (Domain.TOPIC, text)


@LAWS
@given(st.text(max_size=30).filter(lambda text: "\ud800" not in text))
def test_local_name_survives_its_path(local: str) -> None:
    try:
        encoded = encode_local_name(local)
    except UnicodeEncodeError:
        return  # half a surrogate pair, which no parsed name holds
    assert decode_local_name(encoded) == local
    assert set(encoded).isdisjoint("/ ?#&")
    assert encoded.isascii()


@LAWS
@given(descriptors)
def test_descriptor_survives_its_text(descriptor: SegmentDescriptor) -> None:
    assert parse_descriptor(str(descriptor)) == descriptor


@LAWS
@given(descriptors, st.sampled_from(["x", "a/b", "x-partition-3", "0000-ffff-0"]))
def test_segment_finds_back_to_its_topic(descriptor: SegmentDescriptor, local: str) -> None:
    topic = parse_topic_name(f"topic://t/n/{local}")
    segment = topic.of_segment(descriptor.keys, descriptor.id)
    assert parse_topic_name(str(segment)) == segment
    assert segment.scalable == topic


@LAWS
@given(schemes, name_like, st.integers(0, 10**6))
def test_partition_finds_back_to_its_topic(scheme: str, rest: str, index: int) -> None:
    name = parsed(scheme + rest)
    if name is not None and name.partition is None and name.domain is not Domain.SEGMENT:
        partition = name.of_partition(index)
        assert parse_topic_name(str(partition)) == partition
        assert (partition.partition, partition.base) == (index, name)
