"""The hand-written codec against the protobuf runtime.

What a scanner takes must mean what protobuf says it means. What it does not take must be something
protobuf reads in its place, or rejects. What a writer writes must be what protobuf would read.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from anabranch.errors import RemoteProtocolError
from anabranch.protocol import odd_frames, varints, wire_codec, wire_pb2, wire_writer
from anabranch.protocol.commands import Kind, kind_of, parse_command
from anabranch.protocol.entries import build_entry
from anabranch.protocol.frames import encode_frame, split_frame
from anabranch.protocol.wire_codec import Ack, Delivery, Flow, Receipt, Send, WireId
from tests.protocol_facts import facts, id_facts
from tests.protocol_messages import messages, unknown_fields, varint

LIMIT = 1 << 20
MANY = settings(max_examples=80, deadline=None)

metadatas = messages(wire_pb2.MessageMetadata)
commands: dict[int, st.SearchStrategy[Message]] = {
    Kind.SEND: messages(wire_pb2.CommandSend),
    Kind.SEND_RECEIPT: messages(wire_pb2.CommandSendReceipt),
    Kind.MESSAGE: messages(wire_pb2.CommandMessage),
    Kind.ACK: messages(wire_pb2.CommandAck),
    Kind.FLOW: messages(wire_pb2.CommandFlow),
}


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    metadata = draw(metadatas)
    with_checksum = draw(st.booleans())
    entry = build_entry(metadata, draw(st.binary(max_size=60)), with_checksum=with_checksum)
    if with_checksum and draw(st.integers(0, 9)) == 0:  # damaged on the way
        cut = draw(st.integers(0, len(entry) - 1))
        entry = entry[:cut] + bytes([entry[cut] ^ 1]) + entry[cut + 1 :]
    return entry


@st.composite
def frames(draw: st.DrawFn, kind: int) -> bytes:
    """A frame as another client might write it: unknown fields behind the ones we know."""
    fields = draw(commands[kind]).SerializeToString() + draw(unknown_fields())
    command = b"\x08" + varint(kind) + varint(kind << 3 | 2) + varint(len(fields)) + fields
    return encode_frame(command, draw(entries()) if kind in (Kind.SEND, Kind.MESSAGE) else b"")


def read_fast(kind: int, frame: bytes) -> Any:
    """What the hand-written reader makes of one frame; None: nothing."""
    if kind == Kind.ACK:
        return wire_codec.parse_ack(frame, 0, len(frame))
    if kind == Kind.FLOW:
        return wire_codec.parse_flow(frame, 0, len(frame))
    found: list[Any] = []
    if kind == Kind.SEND:
        end = wire_codec.scan_sends(frame, 0, LIMIT, found)
    elif kind == Kind.SEND_RECEIPT:
        end = wire_codec.scan_receipts(frame, 0, LIMIT, found)
    else:
        end = wire_codec.scan_deliveries(frame, 0, LIMIT, found)
    assert end == (len(frame) if found else 0)
    return found[0] if found else None


def read_slow(frame: bytes) -> Any:
    command, entry = split_frame(frame)
    message = parse_command(command).message
    match message:
        case wire_pb2.CommandSend():
            return odd_frames.send_of(message, entry)
        case wire_pb2.CommandMessage():
            return odd_frames.delivery_of(message, entry)
        case wire_pb2.CommandSendReceipt():
            return odd_frames.receipt_of(message)
        case wire_pb2.CommandAck():
            return odd_frames.ack_of(message)
        case _:
            return odd_frames.flow_of(message)


def check_equal(kind: int, frame: bytes) -> Any:
    fast = read_fast(kind, frame)
    if fast is not None:
        assert facts(fast) == facts(read_slow(frame))
    return fast


@given(frames(Kind.SEND))
@MANY
def test_a_send_read_by_hand_means_what_protobuf_says(frame: bytes) -> None:
    try:
        slow = read_slow(frame)
    except RemoteProtocolError:
        return  # its metadata was damaged
    fast = read_fast(Kind.SEND, frame)
    if slow.is_intact:  # a damaged entry may well be odd
        # A replicator's position is the one field that is left to protobuf.
        assert (fast is None) == (slow.source is not None)
    assert fast is None or facts(fast) == facts(slow)


@given(frames(Kind.MESSAGE))
@MANY
def test_a_delivery_read_by_hand_means_what_protobuf_says(frame: bytes) -> None:
    try:
        slow = read_slow(frame)
    except RemoteProtocolError:
        return
    fast = read_fast(Kind.MESSAGE, frame)
    if slow.is_intact:
        assert (fast is None) == (slow.id.first_chunk is not None)
    assert fast is None or facts(fast) == facts(slow)


@given(frames(Kind.SEND_RECEIPT))
@MANY
def test_a_receipt_read_by_hand_means_what_protobuf_says(frame: bytes) -> None:
    slow = read_slow(frame)
    fast = read_fast(Kind.SEND_RECEIPT, frame)
    assert (fast is None) == (slow.id is not None and slow.id.first_chunk is not None)
    assert fast is None or facts(fast) == facts(slow)


@given(frames(Kind.ACK))
@MANY
def test_an_ack_read_by_hand_means_what_protobuf_says(frame: bytes) -> None:
    slow = parse_command(split_frame(frame)[0]).message
    is_odd = bool(slow.properties) or any(
        acked.HasField("first_chunk_message_id") for acked in slow.message_id
    )
    assert (check_equal(Kind.ACK, frame) is None) == is_odd


@given(frames(Kind.FLOW))
@MANY
def test_a_flow_read_by_hand_means_what_protobuf_says(frame: bytes) -> None:
    assert check_equal(Kind.FLOW, frame) is not None


kinds = st.sampled_from(sorted(commands))


@given(st.data(), kinds)
@MANY
def test_a_frame_that_is_cut_off_is_left_alone(data: st.DataObject, kind: int) -> None:
    frame = data.draw(frames(kind))
    cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
    if kind in (Kind.ACK, Kind.FLOW):
        return  # these two are given whole frames only
    assert read_fast(kind, cut) is None


@given(st.data(), kinds)
@settings(max_examples=150, deadline=None)
def test_damage_is_never_read_differently(data: st.DataObject, kind: int) -> None:
    """Flip a byte anywhere: what is still taken means what protobuf says."""
    frame = bytearray(data.draw(frames(kind)))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(frame)
    fast = read_fast(kind, damaged)
    if fast is None:
        return
    command, _ = split_frame(damaged)
    envelope = parse_command(command)
    assert envelope.kind == kind
    try:
        slow = read_slow(damaged)
    except RemoteProtocolError as error:
        # Of the metadata only what storage needs is read; the rest may be anything.
        assert "MessageMetadata" in str(error)  # noqa: PT017
        return
    assert facts(fast) == facts(slow)


@given(st.binary(max_size=200), kinds)
@MANY
def test_garbage_is_never_taken_for_more_than_protobuf_would(data: bytes, kind: int) -> None:
    check_equal(kind, data) if len(data) >= 12 else None


# ---- writing -----------------------------------------------------------------------------------

i64s = st.one_of(
    st.sampled_from([0, 1, 127, 128, 16383, 16384, 2**31, 2**63 - 1, -1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
ids = st.builds(lambda ledger, entry, words: _wire_id(ledger, entry, words), i64s, i64s,
                st.none() | st.lists(i64s, min_size=1, max_size=4))  # fmt: skip


def _wire_id(ledger: int, entry: int, words: list[int] | None) -> WireId:
    made = WireId()
    made.ledger, made.entry, made.ack_set = ledger, entry, words
    return made


def read_back(out: BytesWriter, entry_size: int = 0) -> Any:
    frame = out.getvalue() + bytes(entry_size)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    command, entry = split_frame(frame)
    assert len(entry) == entry_size
    return parse_command(command).message


@given(i64s, i64s, i64s, i64s, i64s)
@MANY
def test_protobuf_reads_the_receipts_we_write(
    producer: int, sequence: int, highest: int, ledger: int, entry: int
) -> None:
    out = BytesWriter()
    wire_writer.write_receipt(out, producer, sequence, highest, ledger, entry)
    receipt = odd_frames.receipt_of(read_back(out))
    assert facts(receipt) == (
        (producer, sequence, highest),
        (ledger, entry, -1, -1, 0, None, None),
    )


@given(st.lists(st.tuples(i64s, i64s, i64s), max_size=4), i64s, st.integers(0, 2**62))
@MANY
def test_receipts_of_a_run_are_the_receipts_of_each(
    facts_of_sends: list[tuple[int, int, int]], ledger: int, first_entry: int
) -> None:
    sends = []
    expected = BytesWriter()
    for index, (producer, sequence, highest) in enumerate(facts_of_sends):
        send = Send()
        send.producer_id, send.sequence_id, send.highest_sequence_id = producer, sequence, highest
        sends.append(send)
        wire_writer.write_receipt(
            expected, producer, sequence, highest, ledger, first_entry + index
        )
    out = BytesWriter()
    wire_writer.write_receipts(out, sends, ledger, first_entry)
    assert out.getvalue() == expected.getvalue()


@given(i64s, i64s, st.integers(0, 2**62), st.lists(st.binary(max_size=50), max_size=4))
@MANY
def test_deliveries_of_a_run_are_the_deliveries_of_each(
    consumer: int, ledger: int, first_entry: int, bodies: list[bytes]
) -> None:
    out, expected = BytesWriter(), BytesWriter()
    wire_writer.write_deliveries(out, consumer, ledger, first_entry, 3, bodies)
    for index, body in enumerate(bodies):
        wire_writer.write_delivery_header(
            expected, consumer, ledger, first_entry + index, 3, 0, None, -1, len(body)
        )
        expected.write(body)
    assert out.getvalue() == expected.getvalue()


@given(i64s, i64s, i64s, st.integers(-1, 2**31 - 1), st.integers(0, 2**32 - 1),
       st.none() | st.lists(i64s, max_size=4), st.integers(-1, 2**63 - 1))  # fmt: skip
@MANY
def test_protobuf_reads_the_deliveries_we_write(
    consumer: int,
    ledger: int,
    entry: int,
    partition: int,
    redeliveries: int,
    words: list[int] | None,
    epoch: int,
) -> None:
    out = BytesWriter()
    wire_writer.write_delivery_header(
        out, consumer, ledger, entry, partition, redeliveries, words, epoch, 30
    )
    command = read_back(out, 30)
    assert odd_frames.signed(command.consumer_id) == consumer
    assert id_facts(odd_frames.id_of(command.message_id))[:3] == (ledger, entry, partition)  # type: ignore[index]
    assert command.redelivery_count == redeliveries
    assert list(command.ack_set) == (words or [])
    assert (command.consumer_epoch if command.HasField("consumer_epoch") else -1) == epoch


@given(i64s, i64s, i64s, st.integers(-(2**31), 2**31 - 1), st.booleans(), st.booleans(),
       st.none() | st.tuples(i64s, i64s))  # fmt: skip
@MANY
def test_protobuf_reads_the_sends_we_write(
    producer: int,
    sequence: int,
    highest: int,
    count: int,
    is_chunk: bool,
    is_marker: bool,
    txn: tuple[int, int] | None,
) -> None:
    send = Send()
    send.producer_id, send.sequence_id, send.highest_sequence_id = producer, sequence, highest
    send.num_messages, send.is_chunk, send.is_marker = count, is_chunk, is_marker
    if txn is not None:
        send.has_txn, send.txn_least, send.txn_most = True, txn[0], txn[1]
    entry = build_entry(
        wire_pb2.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2), b"x"
    )
    out = BytesWriter()
    wire_writer.write_send_header(out, send, len(entry))
    read = read_slow(out.getvalue() + entry)
    assert facts(read)[8:] == facts(send)[8:]


@given(i64s, st.integers(0, 2**32 - 1))
@MANY
def test_protobuf_reads_the_flows_we_write(consumer: int, permits: int) -> None:
    out = BytesWriter()
    wire_writer.write_flow(out, consumer, permits)
    assert facts(odd_frames.flow_of(read_back(out))) == (consumer, permits)


@given(i64s, st.booleans(), st.lists(ids, max_size=4), st.integers(-1, 4),
       st.none() | st.tuples(i64s, i64s), st.none() | i64s)  # fmt: skip
@MANY
def test_protobuf_reads_the_acks_we_write(
    consumer: int,
    is_cumulative: bool,
    acked: list[WireId],
    validation_error: int,
    txn: tuple[int, int] | None,
    request_id: int | None,
) -> None:
    ack = Ack()
    ack.consumer_id, ack.is_cumulative, ack.ids = consumer, is_cumulative, acked
    ack.validation_error = validation_error
    if txn is not None:
        ack.has_txn, ack.txn_least, ack.txn_most = True, txn[0], txn[1]
    if request_id is not None:
        ack.has_request_id, ack.request_id = True, request_id
    out = BytesWriter()
    wire_writer.write_ack(out, ack)
    assert facts(odd_frames.ack_of(read_back(out))) == facts(ack)
    assert kind_of(read_back(out)) == Kind.ACK


@given(i64s)
@MANY
def test_a_number_survives_the_way_out_and_in(value: int) -> None:
    out = BytesWriter()
    varints.write_varint(out, value)
    encoded = out.getvalue()
    assert len(encoded) == varints.varint_size(value)
    assert encoded == varint(value)
    assert varints.read_varint(encoded, 0, len(encoded)) == (value, len(encoded))


def test_values_say_who_they_are() -> None:
    delivery = Delivery()
    delivery.id = WireId()
    shown = [repr(value) for value in (Send(), delivery, Receipt(), Ack(), Flow())]
    assert shown == [
        "Send(producer=0, sequence=0)",
        "Delivery(consumer=0, WireId(0:0, batch_index=-1))",
        "Receipt(producer=0, sequence=0, None)",
        "Ack(consumer=0, 0 ids)",
        "Flow(consumer=0, permits=0)",
    ]
