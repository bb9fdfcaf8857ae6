from __future__ import annotations

import pytest

from anabranch.errors import LocalProtocolError, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import (
    FIELD_OF_KIND,
    Kind,
    bad_texts,
    encode_command,
    kind_name,
    kind_of,
    parse_command,
)


def test_every_kind_has_a_field_and_a_name() -> None:
    assert set(FIELD_OF_KIND) == set(Kind.values())
    assert kind_name(Kind.SEND) == "SEND"
    assert kind_name(99) == "command 99"


def test_the_envelope_is_the_one_protobuf_would_write() -> None:
    message = wire_pb2.CommandScalableTopicLookup(session_id=3, topic="topic://a/b/c")
    envelope = wire_pb2.BaseCommand(
        type=Kind.SCALABLE_TOPIC_LOOKUP, scalableTopicLookup=message
    ).SerializeToString()
    assert encode_command(message) == envelope
    assert parse_command(envelope) == (Kind.SCALABLE_TOPIC_LOOKUP, message)
    assert kind_of(message) == Kind.SCALABLE_TOPIC_LOOKUP


def test_a_command_that_lacks_a_required_field_is_our_fault() -> None:
    with pytest.raises(LocalProtocolError, match="incomplete command"):
        encode_command(wire_pb2.CommandFlow(consumer_id=1))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "malformed BaseCommand"),
        (b"", "BaseCommand without type"),
        (b"\x08\x00", "BaseCommand without type"),  # no such type
        (b"\x08\x63", "BaseCommand without type"),  # nor this one
        (b"\x08\x12", "PING without its field 'ping'"),
        (b"\x08\x12\x9a\x01\x00", "PING without its field 'ping'"),
        (b"\x08\x0b\x5a\x02\x08\x01", "BaseCommand without flow.messagePermits"),
        (b"\xff" * 20, "malformed BaseCommand"),
    ],
)
def test_what_is_not_a_command_is_the_peers_fault(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        parse_command(data)


def test_a_command_from_a_newer_peer_may_have_more_fields() -> None:
    data = encode_command(wire_pb2.CommandPing()) + b"\xa0\x3f\x07"
    assert parse_command(data).kind == Kind.PING


def test_text_that_is_not_utf8_is_the_peers_fault() -> None:
    data = encode_command(wire_pb2.CommandConnect(client_version="??")).replace(b"??", b"\xff\xfe")
    with pytest.raises(RemoteProtocolError, match=r"CommandConnect.client_version is not UTF-8"):
        parse_command(data)


def test_bad_text_is_found_however_deep_it_is() -> None:
    producer = wire_pb2.CommandProducer(topic="t", producer_id=1, request_id=2)
    producer.schema.CopyFrom(
        wire_pb2.Schema(
            name="s",
            schema_data=b"",
            type=wire_pb2.Schema.Json,
            properties=[wire_pb2.KeyValue(key="k", value="??")],
        )
    )
    raw = producer.SerializeToString().replace(b"??", b"\xff\xfe")
    producer.ParseFromString(raw)
    assert [(holder.DESCRIPTOR.name, name) for holder, name in bad_texts(producer)] == [
        ("KeyValue", "value")
    ]
    added = wire_pb2.CommandAddPartitionToTxn(request_id=1, partitions=["ok", "??"])
    added.ParseFromString(added.SerializeToString().replace(b"??", b"\xff\xfe"))
    assert [name for _, name in bad_texts(added)] == ["partitions"]


def test_deep_nesting_is_refused_and_not_followed() -> None:
    nested = b""
    for _ in range(2000):
        nested = b"\x08\x01\x10\x01" + b"\x3a" + _varint(len(nested)) + nested
    seek = b"\x08\x01\x10\x01\x1a" + _varint(len(nested)) + nested
    data = b"\x08\x1c\xe2\x01" + _varint(len(seek)) + seek
    with pytest.raises(RemoteProtocolError, match="malformed"):
        parse_command(data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
