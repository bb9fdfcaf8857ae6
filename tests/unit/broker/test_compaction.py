"""What a compacted topic keeps, entry by entry."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.broker.compaction import (
    LatestOfKeys,
    encode_kept,
    kept_bits,
    parse_kept,
    place_of,
)
from anabranch.errors import Corrupt
from anabranch.protocol import wire_pb2
from anabranch.protocol.compression import compress
from anabranch.protocol.entries import build_entry, parse_entry
from anabranch.storage.ledger import Entry
from anabranch.topics.positions import Position

LIMIT = 1 << 20
Message = tuple[str | None, bytes]


def metadata(**fields: object) -> wire_pb2.MessageMetadata:
    return wire_pb2.MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        **fields,  # type: ignore[arg-type]
    )


def single(number: int, key: str | None, payload: bytes) -> Entry:
    fields = {} if key is None else {"partition_key": key}
    return Entry(1, number, build_entry(metadata(**fields), payload), 0, 1)


def batch(number: int, *messages: Message, compression: int = 0) -> Entry:
    parts = []
    for key, payload in messages:
        each = wire_pb2.SingleMessageMetadata(payload_size=len(payload))
        if key is not None:
            each.partition_key = key
        encoded = each.SerializeToString()
        parts += [len(encoded).to_bytes(4, "big"), encoded, payload]
    plain = b"".join(parts)
    outer = metadata(num_messages_in_batch=len(messages))
    if compression:
        outer.compression = cast(Any, compression)
        outer.uncompressed_size = len(plain)
        plain = compress(outer.compression, plain)
    return Entry(1, number, build_entry(outer, plain), 0, len(messages))


def compacted(entries: list[Entry]) -> dict[int, bytes]:
    latest = LatestOfKeys(LIMIT)
    latest.look_at(entries)
    found = {entry.entry: latest.kept(entry) for entry in entries}
    return {number: body for number, body in found.items() if body is not None}


def test_of_every_key_the_last_message_is_kept() -> None:
    entries = [single(0, "a", b"1"), single(1, "b", b"2"), single(2, "a", b"3")]
    assert sorted(compacted(entries)) == [1, 2]


def test_messages_without_a_key_are_all_kept() -> None:
    assert sorted(compacted([single(0, None, b"1"), single(1, None, b"2")])) == [0, 1]


def test_a_tombstone_ends_its_key_and_is_not_kept() -> None:
    entries = [single(0, "a", b"1"), single(1, "a", b""), single(2, "b", b""), single(3, "b", b"2")]
    assert sorted(compacted(entries)) == [3]


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_of_a_batch_some_messages_go_and_the_others_keep_their_index(compression: int) -> None:
    entries = [
        batch(0, ("a", b"1"), ("b", b"2"), ("a", b"3"), (None, b"4"), compression=compression),
        single(1, "b", b"5"),
    ]
    kept = compacted(entries)
    assert sorted(kept) == [0, 1]
    stored = Entry(1, 0, kept[0], 0, 4)
    assert kept_bits(stored, LIMIT) == 0b1100
    assert parse_entry(kept[0]).is_intact
    assert kept_bits(entries[0], LIMIT) is None


def test_a_batch_of_which_nothing_stays_goes() -> None:
    entries = [batch(0, ("a", b"1"), ("a", b"2")), single(1, "a", b"3")]
    assert sorted(compacted(entries)) == [1]


def test_an_encrypted_batch_counts_as_one_message() -> None:
    outer = metadata(num_messages_in_batch=3, partition_key="a")
    outer.encryption_keys.add(key="k", value=b"v")
    secret = Entry(1, 0, build_entry(outer, b"secret"), 0, 3)
    assert sorted(compacted([secret])) == [0]
    assert sorted(compacted([secret, single(1, "a", b"1")])) == [1]


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_a_batch_that_claims_more_than_it_has_is_not_looked_into(count: int) -> None:
    entry = batch(0, ("a", b"1"))
    parsed = parse_entry(entry.body)
    parsed.metadata.num_messages_in_batch = count
    damaged = Entry(1, 0, build_entry(parsed.metadata, parsed.payload), 0, 1)
    assert sorted(compacted([damaged, single(1, "a", b"2")])) == [0, 1]


@given(st.lists(st.binary(max_size=60), max_size=4), st.binary(max_size=40), st.integers(0, 9))
def test_nothing_that_is_stored_can_stop_a_compaction(
    bodies: list[bytes], payload: bytes, count: int
) -> None:
    entries = [Entry(1, number, body, 0, 1) for number, body in enumerate(bodies)]
    odd = build_entry(metadata(num_messages_in_batch=count), payload)
    entries.append(Entry(1, len(bodies), odd, 0, 1))
    compacted(entries)
    for entry in entries:
        kept_bits(entry, LIMIT)


keys = st.sampled_from(["a", "b", "c", None])
messages = st.tuples(keys, st.sampled_from([b"", b"x", b"y"]))


@given(st.lists(st.lists(messages, min_size=1, max_size=4), max_size=8))
def test_what_is_kept_is_exactly_the_last_of_each_key(batches: list[list[Message]]) -> None:
    entries = [batch(number, *each) for number, each in enumerate(batches)]
    kept = compacted(entries)
    flat = [
        (number, index, key, payload)
        for number, each in enumerate(batches)
        for index, (key, payload) in enumerate(each)
    ]
    last = {key: (number, index, payload) for number, index, key, payload in flat if key}
    wanted = {(number, index) for number, index, payload in last.values() if payload}
    wanted |= {(number, index) for number, index, key, _ in flat if key is None}
    found = set()
    for number, body in kept.items():
        count = len(batches[number])
        bits = kept_bits(Entry(1, number, body, 0, count), LIMIT)
        found |= {(number, each) for each in range(count) if bits is None or bits >> each & 1}
    assert found == wanted


def test_a_kept_entry_remembers_where_it_was() -> None:
    stored = Entry(9, 0, encode_kept(Position(3, 7), b"body"), 5, 2)
    assert place_of(stored.body) == Position(3, 7)
    assert parse_kept(stored) == Entry(3, 7, b"body", 5, 2)
    with pytest.raises(Corrupt):
        parse_kept(Entry(9, 0, b"short", 0, 1))
