"""What an entry holds, as `consume` shows it."""

from __future__ import annotations

from anabranch.cli.consume import Incoming, messages_of
from anabranch.protocol import wire_pb2
from anabranch.protocol.compression import compress
from anabranch.protocol.entries import build_entry, parse_entry


def shown(payload: bytes, **fields: object) -> list[Incoming]:
    metadata = wire_pb2.MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        **fields,  # type: ignore[arg-type]
    )
    return list(messages_of(parse_entry(build_entry(metadata, payload))))


def batch(*payloads: bytes) -> bytes:
    out = b""
    for payload in payloads:
        single = wire_pb2.SingleMessageMetadata(payload_size=len(payload), partition_key="k")
        encoded = single.SerializeToString()
        out += len(encoded).to_bytes(4, "big") + encoded + payload
    return out


def test_a_single_message_is_shown_with_its_key_and_properties() -> None:
    pair = wire_pb2.KeyValue(key="a", value="1")
    assert shown(b"x", partition_key="k", properties=[pair]) == [Incoming(b"x", "k", {"a": "1"})]


def test_a_batch_is_shown_one_by_one() -> None:
    assert shown(batch(b"a", b"b"), num_messages_in_batch=2) == [
        Incoming(b"a", "k", {}, 0),
        Incoming(b"b", "k", {}, 1),
    ]


def test_compression_is_undone() -> None:
    for kind in wire_pb2.CompressionType.values():
        if kind == wire_pb2.CompressionType.NONE:
            continue
        plain = b"hello " * 100
        found = shown(
            compress(kind, plain),
            compression=wire_pb2.CompressionType.Name(kind),
            uncompressed_size=len(plain),
        )
        assert [each.payload for each in found] == [plain]


def test_a_piece_of_a_larger_message_is_shown_as_it_came() -> None:
    found = shown(b"x", num_chunks_from_msg=3, chunk_id=1, compression="ZSTD", uncompressed_size=9)
    assert found == [Incoming(b"x", None, {})]


def test_what_is_encrypted_is_shown_as_it_came() -> None:
    key = wire_pb2.EncryptionKeys(key="k", value=b"v")
    assert shown(b"x", encryption_keys=[key], num_messages_in_batch=5) == [Incoming(b"x", None, {})]
