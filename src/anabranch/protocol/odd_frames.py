"""The data commands again, read by the protobuf runtime, into the same values as wire_codec's.

Here arrive frames too large to be copied into `bytes`, and whatever the hand-written scanners call
odd. Broker and client therefore see one kind of `Send`, however it was read.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import locate, parse_metadata
from anabranch.protocol.wire_codec import Ack, Delivery, EntryView, Flow, Receipt, Send, WireId

_SIGN = 1 << 63


def signed(value: int) -> int:
    """A uint64 as Java would see it, and as wire_codec promises."""
    return value - (1 << 64) if value >= _SIGN else value


def send_of(command: wire_pb2.CommandSend, entry: memoryview) -> Send:
    send = Send()
    send.producer_id = signed(command.producer_id)
    send.sequence_id = signed(command.sequence_id)
    send.highest_sequence_id = signed(command.highest_sequence_id)
    send.num_messages = command.num_messages
    send.is_chunk = command.is_chunk
    send.is_marker = command.marker
    send.has_txn = command.HasField("txnid_least_bits") or command.HasField("txnid_most_bits")
    send.txn_least = signed(command.txnid_least_bits)
    send.txn_most = signed(command.txnid_most_bits)
    if command.HasField("message_id"):
        send.source = id_of(command.message_id)
    fill_view(send, entry)
    return send


def delivery_of(command: wire_pb2.CommandMessage, entry: memoryview) -> Delivery:
    delivery = Delivery()
    delivery.consumer_id = signed(command.consumer_id)
    delivery.id = id_of(command.message_id)
    delivery.redelivery_count = command.redelivery_count
    delivery.ack_set = _words(command.ack_set)
    if command.HasField("consumer_epoch"):
        delivery.consumer_epoch = signed(command.consumer_epoch)
    fill_view(delivery, entry)
    return delivery


def receipt_of(command: wire_pb2.CommandSendReceipt) -> Receipt:
    receipt = Receipt()
    receipt.producer_id = signed(command.producer_id)
    receipt.sequence_id = signed(command.sequence_id)
    receipt.highest_sequence_id = signed(command.highest_sequence_id)
    if command.HasField("message_id"):
        receipt.id = id_of(command.message_id)
    return receipt


def ack_of(command: wire_pb2.CommandAck) -> Ack:
    ack = Ack()
    ack.consumer_id = signed(command.consumer_id)
    ack.is_cumulative = command.ack_type == wire_pb2.CommandAck.Cumulative
    ack.ids = [id_of(acked) for acked in command.message_id]
    if command.HasField("validation_error"):
        ack.validation_error = command.validation_error
    ack.has_txn = command.HasField("txnid_least_bits") or command.HasField("txnid_most_bits")
    ack.txn_least = signed(command.txnid_least_bits)
    ack.txn_most = signed(command.txnid_most_bits)
    ack.has_request_id = command.HasField("request_id")
    ack.request_id = signed(command.request_id)
    return ack


def flow_of(command: wire_pb2.CommandFlow) -> Flow:
    flow = Flow()
    flow.consumer_id = signed(command.consumer_id)
    flow.permits = command.messagePermits
    return flow


def id_of(data: wire_pb2.MessageIdData) -> WireId:
    found = WireId()
    found.ledger = signed(data.ledgerId)
    found.entry = signed(data.entryId)
    found.partition = data.partition
    found.batch_index = data.batch_index
    found.batch_size = data.batch_size
    found.ack_set = _words(data.ack_set)
    if data.HasField("first_chunk_message_id"):
        found.first_chunk = id_of(data.first_chunk_message_id)
    return found


def _words(ack_set: Iterable[int]) -> list[int] | None:
    return list(ack_set) or None


def fill_view(view: EntryView, entry: memoryview) -> None:
    bounds = locate(entry)
    metadata = parse_metadata(entry[bounds.metadata_start : bounds.payload_start])
    view.body = entry
    # An entry without a checksum gets one over all of it, a broker block included.
    view.prefix = 0 if bounds.claimed is None else bounds.covered_start
    view.checksum = crc32c(entry[view.prefix :])
    view.is_intact = bounds.claimed is None or bounds.claimed == view.checksum
    view.metadata_start = bounds.metadata_start
    view.payload_start = bounds.payload_start
    view.publish_time_ms = signed(metadata.publish_time)
    if metadata.HasField("num_messages_in_batch"):
        view.batch_size = metadata.num_messages_in_batch
