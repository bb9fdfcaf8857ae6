from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from anabranch.errors import RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.batch_codec import decode_batch, write_message


def framed(metadata: bytes, payload: bytes = b"") -> bytes:
    return len(metadata).to_bytes(4, "big") + metadata + payload


def test_a_batch_comes_apart_as_it_was_put_together() -> None:
    out = BytesWriter()
    write_message(out, b"one", 5)
    write_message(out, b"", 6, "key", {"a": "1", "b": "ü"}, 1700000000000, b"\xff", True, True)
    first, second = decode_batch(out.getvalue(), 2)
    assert (first.payload, first.key, first.properties, first.ordering_key) == (
        b"one",
        None,
        {},
        None,
    )
    assert (first.sequence_id, first.event_time_ms, first.is_null_value) == (5, 0, False)
    assert (second.payload, second.key, second.properties, second.ordering_key) == (
        b"",
        "key",
        {"a": "1", "b": "ü"},
        b"\xff",
    )
    assert (second.event_time_ms, second.is_key_base64, second.is_null_value) == (
        1700000000000,
        True,
        True,
    )
    assert repr(first) == "BatchMessage(sequence=5, 3 bytes)"


def test_a_key_may_be_empty_and_is_not_absent_then() -> None:
    out = BytesWriter()
    write_message(out, b"x", 1, "")
    assert decode_batch(out.getvalue(), 1)[0].key == ""


def test_bytes_behind_the_last_message_are_ignored() -> None:
    data = framed(b"\x18\x01", b"x")
    assert [message.payload for message in decode_batch(data + b"rest", 1)] == [b"x"]


def test_a_key_that_is_not_utf8_is_replaced() -> None:
    [message] = decode_batch(framed(b"\x12\x02k\xff\x18\x00"), 1)
    assert message.key == "k\ufffd"


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_batch_of_nothing_is_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"batch of {count} messages"):
        decode_batch(framed(b"\x18\x00"), count)


def test_a_count_beyond_the_bytes_is_found_out() -> None:
    with pytest.raises(RemoteProtocolError, match="message 1 does not fit"):
        decode_batch(framed(b"\x18\x00"), 2**31 - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00",
        b"\x80\x00\x00\x00",  # a negative size
        b"\xff\xff\xff\xff" + bytes(20),
        b"\x7f\xff\xff\xff" + bytes(20),
        b"\x00\x00\x00\x05\x18\x00",
        framed(b""),  # no payload_size
        framed(b"\x18\x05", b"four"),
        framed(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  # -1
        framed(b"\x18\x80\x80\x80\x80\x08"),  # 2^31, which is negative as an int32
        framed(b"\x18"),
        framed(b"\x18\x80"),
        framed(b"\x18" + b"\x80" * 10 + b"\x01"),  # eleven bytes
        framed(b"\x18" + b"\xff" * 9 + b"\x02"),  # the tenth says too much
        framed(b"\x18\x00\x12\x7f"),  # a key beyond its metadata
        framed(b"\x18\x00\x12\xff\xff\xff\xff\x0f"),
        framed(b"\x18\x00\x00\x00"),  # field 0
        framed(b"\x18\x00\x0b"),  # a group
        framed(b"\x18\x00\x0e"),  # no such wire type
        framed(b"\x18\x00\x39\x00"),  # eight bytes announced, one there
        framed(b"\x18\x00\x3d\x00"),
        framed(b"\x18\x00" + b"\x80" * 5 + b"\x01\x00"),  # a tag of six bytes
    ],
)
def test_adversarial_batches_are_the_peers_fault(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_batch(data, 1)


@pytest.mark.parametrize(
    "pair",
    [
        b"",
        b"\x0a\x01k",
        b"\x12\x01v",
        b"\x0a\x05k",
        b"\x0a\x01k\x12\x01v\x39",
        b"\x0a\x01k\x12\x01v\x0b",
    ],
)
def test_adversarial_properties_are_found_when_they_are_read(pair: bytes) -> None:
    [message] = decode_batch(framed(b"\x18\x00\x0a" + bytes([len(pair)]) + pair), 1)
    with pytest.raises(RemoteProtocolError):
        _ = message.properties


def test_of_a_field_given_twice_the_last_counts() -> None:
    [message] = decode_batch(framed(b"\x18\x09\x40\x01\x18\x01\x40\x02", b"x"), 1)
    assert (message.payload, message.sequence_id) == (b"x", 2)


def test_unknown_fields_between_properties_are_skipped() -> None:
    metadata = wire_pb2.SingleMessageMetadata(
        payload_size=0, properties=[wire_pb2.KeyValue(key="k", value="v")]
    ).SerializeToString()
    unknown = b"\xf8\x07\x05" + b"\xf9\x07" + bytes(8) + b"\xfd\x07" + bytes(4)
    [message] = decode_batch(framed(unknown + metadata + unknown), 1)
    assert message.properties == {"k": "v"}
