from __future__ import annotations

import base64
import contextlib

import pytest

from anabranch.errors import LocalProtocolError, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import (
    broker_block,
    build_entry,
    locate,
    parse_entry,
    parse_metadata,
    sticky_key,
    without_broker_block,
    without_checksum,
)

METADATA = wire_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)


@pytest.mark.parametrize("with_checksum", [True, False])
@pytest.mark.parametrize("block", [b"", broker_block(5, None), broker_block(5, 9)])
def test_an_entry_comes_apart_as_it_was_put_together(block: bytes, with_checksum: bool) -> None:
    entry = parse_entry(block + build_entry(METADATA, b"payload", with_checksum=with_checksum))
    assert entry.metadata == METADATA
    assert bytes(entry.payload) == b"payload"
    assert entry.is_intact
    assert (entry.broker_metadata is not None) == bool(block)


def test_the_checksum_covers_metadata_and_payload_but_no_broker_block() -> None:
    entry = build_entry(METADATA, b"payload")
    for index in range(6, len(entry)):
        damaged = bytearray(broker_block(5, 9) + entry)
        damaged[-len(entry) + index] ^= 1
        with contextlib.suppress(RemoteProtocolError):  # the damage hit a length
            assert not parse_entry(damaged).is_intact
    damaged = bytearray(broker_block(5, 9) + entry)
    damaged[7] ^= 1  # the time in the block
    assert parse_entry(damaged).is_intact


def test_every_cut_through_an_entry_is_noticed_or_harmless() -> None:
    entry = broker_block(5, 9) + build_entry(METADATA, b"payload")
    payload_start = locate(entry).payload_start
    for cut in range(payload_start):
        with pytest.raises(RemoteProtocolError):
            parse_entry(entry[:cut])
    for cut in range(payload_start, len(entry)):
        assert not parse_entry(entry[:cut]).is_intact


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x0e",
        b"\x0e\x01",
        b"\x0e\x02\x00\x00",
        b"\x0e\x02\xff\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x05abc",
    ],
)
def test_lengths_that_lie_are_refused(entry: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"entry of|announced"):
        locate(entry)


def test_blocks_are_stripped_for_clients_that_do_not_know_them() -> None:
    entry = build_entry(METADATA, b"payload")
    assert without_broker_block(broker_block(5, 9) + entry) == entry
    assert without_broker_block(entry) == entry
    bare = build_entry(METADATA, b"payload", with_checksum=False)
    assert without_checksum(entry) == bare
    assert without_checksum(bare) == bare


def test_incomplete_metadata_is_our_fault_when_we_write_it_and_theirs_when_we_read_it() -> None:
    with pytest.raises(LocalProtocolError, match="incomplete metadata"):
        build_entry(wire_pb2.MessageMetadata(producer_name="p"), b"")
    with pytest.raises(
        RemoteProtocolError, match="MessageMetadata without sequence_id, publish_time"
    ):
        parse_metadata(b"\x0a\x01p")


def test_a_key_that_is_not_utf8_is_replaced_rather_than_refused() -> None:
    metadata = wire_pb2.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, partition_key="??", replicate_to=["??"]
    )
    raw = metadata.SerializeToString().replace(b"??", b"k\xff")
    parsed = parse_metadata(raw)
    assert parsed.partition_key == "k\ufffd"
    assert list(parsed.replicate_to) == ["k\ufffd"]


def test_the_sticky_key_is_the_first_there_is() -> None:
    metadata = wire_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
    assert sticky_key(metadata) == b"p-7"
    metadata.partition_key = base64.b64encode(b"\xff\x00").decode()
    assert sticky_key(metadata) == b"/wA="
    metadata.partition_key_b64_encoded = True
    assert sticky_key(metadata) == b"\xff\x00"
    metadata.ordering_key = b"o"
    assert sticky_key(metadata) == b"o"
    assert sticky_key(wire_pb2.MessageMetadata()) == b"NONE_KEY"


def test_a_sticky_key_that_only_claims_to_be_base64_is_used_as_it_is() -> None:
    metadata = wire_pb2.MessageMetadata(partition_key="é!", partition_key_b64_encoded=True)
    assert sticky_key(metadata) == "é!".encode()
