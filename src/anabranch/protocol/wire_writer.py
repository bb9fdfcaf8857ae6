"""The five commands that carry the data, written by hand; wire_codec reads them.

A hot module. A frame is written in one go, its sizes counted beforehand: what is appended to a
writer cannot be changed later. wire_codec draws the format.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from anabranch.protocol.varints import varint_size, write_field, write_u32, write_varint
from anabranch.protocol.wire_codec import ACK, FLOW, MESSAGE, SEND, SEND_RECEIPT, Ack, Send, WireId


def _write_command(out: BytesWriter, kind: i64, size: i64, entry_size: i64) -> None:
    """Everything before the fields of a command whose fields take `size` bytes."""
    command_size: i64 = 3 + varint_size(size) + size
    write_u32(out, 4 + command_size + entry_size)
    write_u32(out, command_size)
    out.append(8)
    low: int = kind
    byte: u8 = low
    out.append(byte)
    low = kind << 3 | 2
    byte = low
    out.append(byte)
    write_varint(out, size)


def write_receipt(
    out: BytesWriter,
    producer_id: i64,
    sequence_id: i64,
    highest_sequence_id: i64,
    ledger: i64,
    entry: i64,
) -> None:
    """A whole SEND_RECEIPT frame. `highest_sequence_id` 0 is left out, as it was in the SEND."""
    id_size: i64 = 2 + varint_size(ledger) + varint_size(entry)
    size: i64 = 4 + varint_size(producer_id) + varint_size(sequence_id) + id_size
    if highest_sequence_id != 0:
        size += 1 + varint_size(highest_sequence_id)
    _write_command(out, SEND_RECEIPT, size, 0)
    write_field(out, 0x08, producer_id)
    write_field(out, 0x10, sequence_id)
    write_field(out, 0x1A, id_size)
    write_field(out, 0x08, ledger)
    write_field(out, 0x10, entry)
    if highest_sequence_id != 0:
        write_field(out, 0x20, highest_sequence_id)


def write_receipts(out: BytesWriter, sends: list[Send], ledger: i64, first_entry: i64) -> None:
    """The receipts of sends that were stored one behind the other, from `first_entry` on."""
    entry: i64 = first_entry
    for send in sends:
        write_receipt(
            out, send.producer_id, send.sequence_id, send.highest_sequence_id, ledger, entry
        )
        entry += 1


def write_delivery_header(
    out: BytesWriter,
    consumer_id: i64,
    ledger: i64,
    entry: i64,
    partition: i64,
    redelivery_count: i64,
    ack_set: list[int] | None,
    consumer_epoch: i64,
    entry_size: i64,
) -> None:
    """A MESSAGE frame up to its entry, which the caller sends next, `entry_size` bytes of it.

    `partition` is always written, since every broker does; `consumer_epoch` -1 is left out.
    """
    id_size: i64 = 3 + varint_size(ledger) + varint_size(entry) + varint_size(partition)
    size: i64 = 2 + varint_size(consumer_id) + varint_size(id_size) + id_size
    if redelivery_count > 0:
        size += 1 + varint_size(redelivery_count)
    if ack_set is not None:
        size += _words_size(ack_set)
    if consumer_epoch >= 0:
        size += 1 + varint_size(consumer_epoch)
    _write_command(out, MESSAGE, size, entry_size)
    write_field(out, 0x08, consumer_id)
    write_field(out, 0x12, id_size)
    write_field(out, 0x08, ledger)
    write_field(out, 0x10, entry)
    write_field(out, 0x18, partition)
    if redelivery_count > 0:
        write_field(out, 0x18, redelivery_count)
    if ack_set is not None:
        for word in ack_set:
            write_field(out, 0x20, word)
    if consumer_epoch >= 0:
        write_field(out, 0x28, consumer_epoch)


def write_deliveries(
    out: BytesWriter,
    consumer_id: i64,
    ledger: i64,
    first_entry: i64,
    partition: i64,
    bodies: list[bytes],
    consumer_epoch: i64 = -1,
) -> None:
    """Whole MESSAGE frames for entries that lie one behind the other, delivered the first time."""
    entry: i64 = first_entry
    for body in bodies:
        write_delivery_header(
            out, consumer_id, ledger, entry, partition, 0, None, consumer_epoch, len(body)
        )
        out.write(body)
        entry += 1


def _words_size(ack_set: list[int]) -> i64:
    size: i64 = 0
    for word in ack_set:
        size += 1 + varint_size(word)
    return size


def write_send_header(out: BytesWriter, send: Send, entry_size: i64) -> None:
    """A SEND frame up to its entry. What has its default value is left out; `source` always is."""
    size: i64 = 2 + varint_size(send.producer_id) + varint_size(send.sequence_id)
    if send.num_messages != 1:
        size += 1 + varint_size(send.num_messages)
    if send.has_txn:
        size += 2 + varint_size(send.txn_least) + varint_size(send.txn_most)
    if send.highest_sequence_id != 0:
        size += 1 + varint_size(send.highest_sequence_id)
    size += (2 if send.is_chunk else 0) + (2 if send.is_marker else 0)
    _write_command(out, SEND, size, entry_size)
    write_field(out, 0x08, send.producer_id)
    write_field(out, 0x10, send.sequence_id)
    if send.num_messages != 1:
        write_field(out, 0x18, send.num_messages)
    if send.has_txn:
        write_field(out, 0x20, send.txn_least)
        write_field(out, 0x28, send.txn_most)
    if send.highest_sequence_id != 0:
        write_field(out, 0x30, send.highest_sequence_id)
    _write_flags(out, send.is_chunk, send.is_marker)


def _write_flags(out: BytesWriter, is_chunk: bool, is_marker: bool) -> None:
    if is_chunk:
        out.write(b"\x38\x01")
    if is_marker:
        out.write(b"\x40\x01")


def write_flow(out: BytesWriter, consumer_id: i64, permits: i64) -> None:
    """A whole FLOW frame."""
    _write_command(out, FLOW, 2 + varint_size(consumer_id) + varint_size(permits), 0)
    write_field(out, 0x08, consumer_id)
    write_field(out, 0x10, permits)


def write_ack(out: BytesWriter, ack: Ack) -> None:
    """A whole ACK frame. Of each id, ledger, entry and ack_set are written: all an ack needs."""
    size: i64 = 3 + varint_size(ack.consumer_id)
    for acked in ack.ids:
        id_size: i64 = _ack_id_size(acked)
        size += 1 + varint_size(id_size) + id_size
    size += _ack_options_size(ack)
    _write_command(out, ACK, size, 0)
    write_field(out, 0x08, ack.consumer_id)
    write_field(out, 0x10, 1 if ack.is_cumulative else 0)
    for acked in ack.ids:
        write_field(out, 0x1A, _ack_id_size(acked))
        write_field(out, 0x08, acked.ledger)
        write_field(out, 0x10, acked.entry)
        if acked.ack_set is not None:
            for word in acked.ack_set:
                write_field(out, 0x28, word)
    _write_ack_options(out, ack)


def _ack_id_size(acked: WireId) -> i64:
    size: i64 = 2 + varint_size(acked.ledger) + varint_size(acked.entry)
    if acked.ack_set is not None:
        size += _words_size(acked.ack_set)
    return size


def _ack_options_size(ack: Ack) -> i64:
    size: i64 = 0
    if ack.validation_error >= 0:
        size += 2
    if ack.has_txn:
        size += 2 + varint_size(ack.txn_least) + varint_size(ack.txn_most)
    if ack.has_request_id:
        size += 1 + varint_size(ack.request_id)
    return size


def _write_ack_options(out: BytesWriter, ack: Ack) -> None:
    if ack.validation_error >= 0:
        write_field(out, 0x20, ack.validation_error)
    if ack.has_txn:
        write_field(out, 0x30, ack.txn_least)
        write_field(out, 0x38, ack.txn_most)
    if ack.has_request_id:
        write_field(out, 0x40, ack.request_id)
