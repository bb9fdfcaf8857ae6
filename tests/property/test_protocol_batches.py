"""Batches, compression and chunks: laws of what carries the payload."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from anabranch.errors import RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.batch_codec import BatchMessage, decode_batch, write_message
from anabranch.protocol.chunks import ChunkAssembler, split_message
from anabranch.protocol.compression import compress, decompress
from anabranch.protocol.odd_frames import signed
from tests.protocol_messages import messages, unknown_fields

MANY = settings(max_examples=100, deadline=None)

singles = messages(wire_pb2.SingleMessageMetadata)


def framed(metadata: bytes, payload: bytes) -> bytes:
    return len(metadata).to_bytes(4, "big") + metadata + payload


def facts_of_protobuf(metadata: wire_pb2.SingleMessageMetadata, payload: bytes) -> object:
    return (
        payload,
        metadata.partition_key if metadata.HasField("partition_key") else None,
        {pair.key: pair.value for pair in metadata.properties},
        metadata.ordering_key if metadata.HasField("ordering_key") else None,
        signed(metadata.sequence_id) if metadata.HasField("sequence_id") else None,
        signed(metadata.event_time),
        (metadata.compacted_out, metadata.partition_key_b64_encoded),
        (metadata.null_value, metadata.null_partition_key),
    )


def facts_of_ours(message: BatchMessage) -> object:
    return (
        message.payload,
        message.key,
        message.properties,
        message.ordering_key,
        message.sequence_id if message.has_sequence_id else None,
        message.event_time_ms,
        (message.is_compacted_out, message.is_key_base64),
        (message.is_null_value, message.is_null_key),
    )


@given(
    st.lists(st.tuples(singles, st.binary(max_size=50), unknown_fields()), min_size=1, max_size=4)
)
@MANY
def test_messages_of_a_batch_mean_what_protobuf_says(
    parts: list[tuple[wire_pb2.SingleMessageMetadata, bytes, bytes]],
) -> None:
    data = b""
    for metadata, payload, unknown in parts:
        metadata.payload_size = len(payload)
        data += framed(metadata.SerializeToString() + unknown, payload)
    found = [facts_of_ours(message) for message in decode_batch(data, len(parts))]
    assert found == [facts_of_protobuf(metadata, payload) for metadata, payload, _ in parts]


texts = st.text(max_size=20)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=300),
            st.integers(-(2**63), 2**63 - 1),
            st.none() | texts,
            st.none() | st.dictionaries(texts, texts, max_size=3),
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.binary(max_size=30),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)
@MANY
def test_protobuf_reads_the_batches_we_write(
    parts: list[
        tuple[bytes, int, str | None, dict[str, str] | None, int, bytes | None, bool, bool]
    ],
) -> None:
    out = BytesWriter()
    for part in parts:
        write_message(out, *part)
    data = out.getvalue()
    for payload, sequence, key, properties, event_time, ordering_key, is_base64, is_null in parts:
        size = int.from_bytes(data[:4], "big")
        metadata = wire_pb2.SingleMessageMetadata()
        metadata.ParseFromString(data[4 : 4 + size])
        assert metadata.payload_size == len(payload)
        assert facts_of_protobuf(metadata, data[4 + size : 4 + size + len(payload)]) == (
            payload,
            key,
            properties or {},
            ordering_key,
            sequence,
            event_time,
            (False, is_base64),
            (is_null, False),
        )
        data = data[4 + size + len(payload) :]
    assert data == b""


@given(st.data())
@MANY
def test_a_damaged_batch_is_refused_or_read_as_protobuf_reads_it(data: st.DataObject) -> None:
    metadata = data.draw(singles)
    payload = data.draw(st.binary(max_size=20))
    metadata.payload_size = len(payload)
    batch = bytearray(framed(metadata.SerializeToString(), payload))
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        [message] = decode_batch(bytes(batch), 1)
        properties = message.properties  # read when asked for, so refused when asked for
        size = int.from_bytes(batch[:4], "big")
        again = wire_pb2.SingleMessageMetadata()
        again.ParseFromString(bytes(batch[4 : 4 + size]))
        assert message.payload == bytes(batch[4 + size : 4 + size + again.payload_size])
        assert signed(again.sequence_id) == message.sequence_id
        assert len(properties) <= len(again.properties)


@given(st.binary(max_size=200), st.integers(-5, 2**31))
@MANY
def test_garbage_is_refused_as_the_peers_fault_and_nothing_else(data: bytes, count: int) -> None:
    with contextlib.suppress(RemoteProtocolError):
        for message in decode_batch(data, count):
            _ = (message.payload, message.key, message.ordering_key, message.properties)


@given(st.sampled_from([0, 1, 2, 3, 4]), st.binary(max_size=3000), st.integers(1, 30))
@MANY
def test_compression_loses_nothing(codec: int, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data), len(data), 1 << 20) == data


@given(st.sampled_from([1, 2, 3, 4]), st.binary(max_size=200), st.integers(0, 1000))
@MANY
def test_decompression_never_gives_more_or_less_than_was_announced(
    codec: int, data: bytes, size: int
) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert len(decompress(codec, data, size, 1 << 20)) == size


@given(
    st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=600)), min_size=1, max_size=4),
    st.integers(150, 400),
    st.randoms(use_true_random=False),
)
@MANY
def test_chunked_messages_survive_any_interleaving(
    sent: list[tuple[int, bytes]], max_message_size: int, random: object
) -> None:
    streams = []
    for index, (_, payload) in enumerate(sent):
        metadata = wire_pb2.MessageMetadata(producer_name="p", sequence_id=index, publish_time=1)
        streams.append(list(split_message(metadata, payload, max_message_size)))
    box: ChunkAssembler[int] = ChunkAssembler(
        max_pending=10, max_message_size=1000, max_pending_bytes=10_000
    )
    whole: dict[int, bytes] = {}
    entry = 0
    while any(streams):
        stream = random.choice([stream for stream in streams if stream])  # type: ignore[attr-defined]
        metadata, part = stream.pop(0)
        if not metadata.HasField("chunk_id"):
            whole[metadata.sequence_id] = bytes(part)
            continue
        progress = box.add(metadata, part, entry, 0)
        entry += 1
        assert progress.given_up == ()
        if progress.message is not None:
            whole[metadata.sequence_id] = progress.message.payload
    assert whole == {index: payload for index, (_, payload) in enumerate(sent)}
    assert (len(box), box.pending_bytes) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.integers(-1, 4),
            st.integers(-1, 4),
            st.integers(-1, 60),
            st.binary(max_size=40),
        ),
        max_size=40,
    )
)
@MANY
def test_assembly_stays_within_its_bounds_whatever_arrives(
    chunks: list[tuple[str, int, int, int, bytes]],
) -> None:
    box: ChunkAssembler[int] = ChunkAssembler(
        max_pending=3, max_message_size=50, max_pending_bytes=100
    )
    held: set[int] = set()
    for entry, (uuid, index, count, total, payload) in enumerate(chunks):
        metadata = wire_pb2.MessageMetadata(
            uuid=uuid, chunk_id=index, num_chunks_from_msg=count, total_chunk_msg_size=total
        )
        progress = box.add(metadata, payload, entry, 0)
        held.add(entry)
        for lost in progress.given_up:
            held -= set(lost.entries)
        if progress.message is not None:
            held -= set(progress.message.entries)
            assert len(progress.message.payload) == total
        assert len(box) <= 3
        assert box.pending_bytes <= 100
    # Every entry is accounted for: it became a message, was given up, or is still waited for.
    assert held == {entry for lost in box.expire(since_before_ms=1) for entry in lost.entries}
