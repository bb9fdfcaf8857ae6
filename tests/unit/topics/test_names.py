from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput, InvalidName
from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.names import (
    MAX_NAME_BYTES,
    Domain,
    NamespaceName,
    decode_local_name,
    encode_local_name,
    parse_descriptor,
    parse_namespace,
    parse_topic_name,
    segment_topic,
)
from anabranch.topics.segment import Segment, SegmentId


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("x", "persistent://public/default/x"),
        ("t/n/x", "persistent://t/n/x"),
        ("persistent://t/n/x", "persistent://t/n/x"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("topic://t/n/x", "topic://t/n/x"),
        ("topic://t/n/a/b/c", "topic://t/n/a/b/c"),
        ("segment://t/n/x/0000-7fff-3", "segment://t/n/x/0000-7fff-3"),
        ("segment://t/n/a/b/8000-ffff-12", "segment://t/n/a/b/8000-ffff-12"),
        ("topic://t-1/n.2/orders of the day é", "topic://t-1/n.2/orders of the day é"),
        ("my:tenant/a=b/x", "persistent://my:tenant/a=b/x"),
    ],
)
def test_every_form_has_one_full_name(text: str, full: str) -> None:
    name = parse_topic_name(text)
    assert str(name) == full
    assert parse_topic_name(full) == name


def test_parts_of_a_name_are_typed() -> None:
    name = parse_topic_name("segment://t/n/a/b/4000-7fff-3")
    assert name.domain is Domain.SEGMENT
    assert (name.tenant, name.namespace, name.local) == ("t", NamespaceName("t", "n"), "a/b")
    assert name.descriptor is not None
    assert (name.descriptor.keys, name.descriptor.id) == (KeyRange(0x4000, 0x7FFF), 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is blank"),
        ("  ", "is blank"),
        (" x", "begins or ends with whitespace"),
        ("x\t", "begins or ends with whitespace"),
        ("topic://t/n/ x", "whitespace around it"),
        ("topic://t/n/x /y", "whitespace around it"),
        ("a/b", "has 2 parts"),
        ("a/b/c/d", "has 4 parts"),
        ("persistent://t/n", "must be persistent://tenant/namespace/topic"),
        ("topic://x", "must be topic://tenant/namespace/topic"),
        ("persistent://t/c/n/x", "has 4 parts; a persistent one has three"),
        ("non-persistent://t/c/n/x", "has 4 parts; a non-persistent one has three"),
        ("kafka://t/n/x", "domain 'kafka'"),
        ("Topic://t/n/x", "domain 'Topic'"),
        ("://t/n/x", "domain ''"),
        ("topic:///n/x", "tenant ''"),
        ("topic://t//x", "namespace ''"),
        ("topic://t/n/", "the part ''"),
        ("topic://t/n/a//b", "the part ''"),
        ("topic://t/n/..", "the part '..'"),
        ("topic://../n/x", "tenant '..'"),
        ("topic://t/./x", "namespace '.'"),
        ("topic://té/n/x", "tenant 'té'"),
        ("topic://t/n m/x", "namespace 'n m'"),
        ("topic://t/n/a\nb", "control characters"),
        ("topic://t/n/a\x85b", "control characters"),
        ("topic://t/n/\ud800", "not valid Unicode"),
        ("topic://t/n/" + "é" * (MAX_NAME_BYTES // 2), f"at most {MAX_NAME_BYTES}"),
        ("segment://t/n/0000-ffff-0", "needs a topic and a descriptor"),
        ("segment://t/n/x/latest", "must look like 0000-7fff-3"),
        ("segment://t/n//0000-ffff-0", "the part ''"),
    ],
)
def test_name_that_is_almost_right_is_told_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(InvalidName) as caught:
        parse_topic_name(text)
    assert reason in str(caught.value)


def test_a_bad_name_is_bad_input() -> None:
    assert issubclass(InvalidName, InvalidInput)
    assert issubclass(InvalidName, ValueError)


def test_longest_name_is_accepted() -> None:
    prefix = "topic://t/n/"
    text = prefix + "x" * (MAX_NAME_BYTES - len(prefix))
    assert str(parse_topic_name(text)) == text


@pytest.mark.parametrize(
    ("text", "partition", "base"),
    [
        ("x-partition-0", 0, "x"),
        ("x-partition-17", 17, "x"),
        ("x-partition-1-partition-2", 2, "x-partition-1"),
        ("x-partition-07", None, "x-partition-07"),
        ("x-partition--1", None, "x-partition--1"),
        ("x-partition-", None, "x-partition-"),
        ("x-partition-1a", None, "x-partition-1a"),
        ("x-partition-٣", None, "x-partition-٣"),
        ("-partition-3", None, "-partition-3"),
        ("x", None, "x"),
    ],
)
def test_partition_suffix_counts_only_in_its_canonical_form(
    text: str, partition: int | None, base: str
) -> None:
    name = parse_topic_name(text)
    assert (name.partition, name.base.local) == (partition, base)


def test_partition_of_a_topic_is_named_after_it() -> None:
    topic = parse_topic_name("persistent://t/n/x")
    assert str(topic.of_partition(3)) == "persistent://t/n/x-partition-3"
    assert topic.of_partition(3).base == topic


@pytest.mark.parametrize(
    "text",
    [
        "topic://t/n/x",
        "t/n/x",
        "persistent://t/n/x",
        "persistent://t/n/x-partition-4",
        "segment://t/n/x/0000-ffff-0",
    ],
)
def test_one_scalable_topic_has_one_identity(text: str) -> None:
    assert str(parse_topic_name(text).scalable) == "topic://t/n/x"


def test_topic_that_is_not_persistent_has_no_scalable_identity() -> None:
    with pytest.raises(InvalidName, match="non-persistent://t/n/x"):
        _ = parse_topic_name("non-persistent://t/n/x").scalable


def test_partition_like_scalable_topic_is_itself() -> None:
    """Stripping it would make another topic of it; whoever creates topics refuses it instead."""
    name = parse_topic_name("topic://t/n/x-partition-3")
    assert name.scalable == name
    assert name.partition == 3


@pytest.mark.parametrize(
    "text", ["topic://t/n/x", "segment://t/n/x/0000-ffff-0", "t/n/x-partition-2"]
)
def test_schema_belongs_to_the_whole_topic(text: str) -> None:
    assert parse_topic_name(text).schema_id == "t/n/x"


def test_segment_is_named_after_its_range_and_id() -> None:
    topic = parse_topic_name("persistent://t/n/x")
    name = topic.of_segment(KeyRange(0, 0x7FFF), 1)
    assert str(name) == "segment://t/n/x/0000-7fff-1"
    assert name.partition is None


def test_legacy_segment_keeps_its_regular_name() -> None:
    topic = parse_topic_name("topic://t/n/x")
    plain = Segment(SegmentId(4), KEY_SPACE)
    legacy = Segment(SegmentId(4), KEY_SPACE, legacy_topic="persistent://t/n/x-partition-4")
    assert segment_topic(topic, plain) == "segment://t/n/x/0000-ffff-4"
    assert segment_topic(topic, legacy) == "persistent://t/n/x-partition-4"


@pytest.mark.parametrize("text", ["0000-ffff-0", "4000-7fff-3", "0007-0007-123456789012345678"])
def test_descriptor_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_descriptor(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0000-ffff",
        "0-ffff-0",
        "0000-FFFF-0",
        "0000-ffff-01",
        "0000-ffff--1",
        "ffff-0000-0",
        "0000-ffff-0 ",
        "00000-ffff-0",
        "0000-ffff-" + "9" * 19,
    ],
)
def test_other_descriptors_are_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="segment descriptor"):
        parse_descriptor(text)


def test_namespace_has_two_parts() -> None:
    assert parse_namespace("t/n") == NamespaceName("t", "n")
    assert str(parse_namespace("public/default")) == "public/default"


@pytest.mark.parametrize("text", ["", "t", "t/n/x", "t/", "/n", "t/ n", " t/n", "t/n m", "t/.."])
def test_other_namespaces_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_namespace(text)


@pytest.mark.parametrize(
    ("local", "encoded"),
    [
        ("orders", "orders"),
        ("a/b", "a%2Fb"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("a*b-c_d.e", "a*b-c_d.e"),
        ("~", "%7E"),
        ("é", "%C3%A9"),
        ("50%", "50%25"),
    ],
)
def test_local_name_is_one_component_of_a_path(local: str, encoded: str) -> None:
    assert encode_local_name(local) == encoded
    assert decode_local_name(encoded) == local


def test_encoded_local_name_is_a_field_of_the_name() -> None:
    assert parse_topic_name("topic://t/n/a/b").encoded_local == "a%2Fb"
