"""The five commands that carry the data, read by hand: SEND, SEND_RECEIPT, MESSAGE, FLOW and ACK.

wire_writer writes them.

A hot module: mypyc compiles it, and the same source runs interpreted. It takes real `bytes` and
knows neither protobuf nor sockets. Reading and writing share one file because they share its
classes, which are fast only inside the module that defines them.

A frame, integers big-endian:

    u32 total_size | u32 cmd_size | BaseCommand | entry (SEND and MESSAGE only)

A BaseCommand as every known client writes it, `T` being the number of the command:

    08 T | (T << 3 | 2) length | the command's own fields

An entry, which a broker stores and delivers as it came:

    [0e 02 | u32 size | BrokerEntryMetadata]   put there by a broker
    [0e 01 | u32 crc32c of all that follows]
    u32 metadata_size | MessageMetadata | payload

Promises:

- A scanner takes whole frames of its one kind and stops at the first byte of anything else: another
  command, an unfinished frame, or one that is *odd* (fields in an order nobody uses, groups,
  overlong numbers, a nested message this module does not follow). The protobuf runtime reads what
  is odd, and decides whether it is wrong.
- What a scanner takes means what the protobuf runtime would have said. Unknown fields are skipped.
- 64-bit numbers are signed here: -1 stands for 2^64-1, as it does in Java and in `Position`.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c
from librt.strings import read_i32_be
from mypy_extensions import i64

from anabranch.protocol.varints import U32_MAX, read_u32, read_varint, skip_field

SEND: Final = 6
SEND_RECEIPT: Final = 7
MESSAGE: Final = 9
ACK: Final = 10
FLOW: Final = 11

I32_MIN: Final = -0x80000000
I32_MAX: Final = 0x7FFFFFFF

# Below this a slice costs less than a memoryview; the checksum needs one of the two.
_SMALL_BODY: Final = 4096


# Defaults stand in the class bodies: compiled they are part of the object's layout, interpreted
# they cost nothing until they are overwritten.


class WireId:
    """A MessageIdData."""

    ledger: i64 = 0
    entry: i64 = 0
    partition: i64 = -1
    batch_index: i64 = -1
    batch_size: i64 = 0
    ack_set: list[int] | None = None
    first_chunk: WireId | None = None

    def __repr__(self) -> str:
        return f"WireId({self.ledger}:{self.entry}, batch_index={self.batch_index})"


class EntryView:
    """An entry, and the few facts about it that storage and dispatch ask for.

    `checksum` is the CRC32C of `body[prefix:]`, and `body[metadata_start:payload_start]` is the
    MessageMetadata. An entry that came without a checksum was given one here, with prefix 0.
    """

    body: bytes | memoryview = b""
    prefix: i64 = 0
    checksum: i64 = 0
    is_intact: bool = True  # False: the peer's checksum says otherwise
    metadata_start: i64 = 0
    payload_start: i64 = 0
    publish_time_ms: i64 = 0
    batch_size: i64 = -1  # num_messages_in_batch; -1: absent, so not a batch


class Send(EntryView):
    """A CommandSend and its entry."""

    producer_id: i64 = 0
    sequence_id: i64 = 0
    highest_sequence_id: i64 = 0
    num_messages: i64 = 1
    is_chunk: bool = False
    is_marker: bool = False
    has_txn: bool = False
    txn_least: i64 = 0
    txn_most: i64 = 0
    source: WireId | None = None  # where a replicator read it

    def __repr__(self) -> str:
        return f"Send(producer={self.producer_id}, sequence={self.sequence_id})"


class Delivery(EntryView):
    """A CommandMessage and its entry."""

    consumer_id: i64 = 0
    id: WireId
    redelivery_count: i64 = 0
    ack_set: list[int] | None = None
    consumer_epoch: i64 = -1  # -1: none

    def __repr__(self) -> str:
        return f"Delivery(consumer={self.consumer_id}, {self.id!r})"


class Receipt:
    """A CommandSendReceipt."""

    producer_id: i64 = 0
    sequence_id: i64 = 0
    highest_sequence_id: i64 = 0
    id: WireId | None = None

    def __repr__(self) -> str:
        return f"Receipt(producer={self.producer_id}, sequence={self.sequence_id}, {self.id!r})"


class Ack:
    """A CommandAck."""

    consumer_id: i64 = 0
    is_cumulative: bool = False
    ids: list[WireId]
    validation_error: i64 = -1  # -1: none
    has_txn: bool = False
    txn_least: i64 = 0
    txn_most: i64 = 0
    has_request_id: bool = False
    request_id: i64 = 0

    def __init__(self) -> None:
        self.ids = []

    def __repr__(self) -> str:
        return f"Ack(consumer={self.consumer_id}, {len(self.ids)} ids)"


class Flow:
    """A CommandFlow."""

    consumer_id: i64 = 0
    permits: i64 = 0

    def __repr__(self) -> str:
        return f"Flow(consumer={self.consumer_id}, permits={self.permits})"


# ---- reading: fields ---------------------------------------------------------------------------


def _skip_unknown(data: bytes, pos: i64, end: i64, last_known: i64) -> i64:
    """Skip the field whose tag is at `pos`, if its number is above `last_known`; else -1 (odd)."""
    tag: i64
    tag, pos = read_u32(data, pos, end)
    if pos < 0 or (tag >> 3) <= last_known:
        return -1
    return skip_field(data, pos, end, tag & 7)


def _command_of(data: bytes, pos: i64, frame_end: i64, kind: i64) -> tuple[i64, i64]:
    """Where the fields of a command of this kind begin and end; (-1, -1): it is something else.

    `pos` is behind total_size, and at least 8 bytes follow it in the frame.
    """
    word: int = read_i32_be(data, pos)
    size: i64 = word
    pos += 4
    if size < 4 or size > frame_end - pos:
        return -1, -1
    end: i64 = pos + size
    if data[pos] != 8 or data[pos + 1] != kind or data[pos + 2] != (kind << 3 | 2):
        return -1, -1
    length: i64
    length, pos = read_u32(data, pos + 3, end)
    if pos < 0 or length != end - pos:
        return -1, -1
    return pos, end


def _next_command(data: bytes, pos: i64, frame_limit: i64, kind: i64) -> tuple[i64, i64, i64]:
    """Where the fields of the command in the frame at `pos` begin and end, and the frame ends.

    The first is -1 if there is no whole frame, or one too large, or of another kind.
    """
    left: i64 = len(data) - pos
    if left < 12:
        return -1, -1, -1
    word: int = read_i32_be(data, pos)
    size: i64 = word
    if size < 8 or size > frame_limit or size > left - 4:
        return -1, -1, -1
    frame_end: i64 = pos + 4 + size
    fields: i64
    end: i64
    fields, end = _command_of(data, pos + 4, frame_end, kind)
    return fields, end, frame_end


# ---- reading: entries --------------------------------------------------------------------------


def _scan_metadata(data: bytes, pos: i64, end: i64, view: EntryView) -> bool:  # noqa: C901
    """Publish time and batch size, skipping the rest; False: odd, or lacking what is required.

    One loop for all of it, since this runs for every entry: interpreted, a call costs as much as
    three of its fields.
    """
    size: i64
    value: i64
    seen: i64 = 0
    while pos < end:
        tag: i64 = data[pos]
        if tag < 0x80 and tag & 7 == 2:
            pos += 1
            size = data[pos] if pos < end else 0x80
            if size < 0x80:
                pos += 1
            else:
                size, pos = read_u32(data, pos, end)
            if pos < 0 or size > end - pos or tag == 0x12 or tag == 0x1A or tag == 0x5A:
                return False
            pos += size
            if tag == 0x0A:
                seen |= 1
        elif tag == 0x10 or tag == 0x18 or tag == 0x58:
            value, pos = read_varint(data, pos + 1, end)
            if tag == 0x10:
                seen |= 2
            elif tag == 0x18:
                view.publish_time_ms = value
                seen |= 4
            else:
                view.batch_size = value
                seen |= 0 if value >= I32_MIN and value <= I32_MAX else 8
        else:
            pos = _skip_metadata_field(data, pos, end)
        if pos < 0:
            return False
    return seen == 7


def _skip_metadata_field(data: bytes, pos: i64, end: i64) -> i64:
    tag: i64
    tag, pos = read_u32(data, pos, end)
    number: i64 = tag >> 3
    # 1, 2, 3 and 11 are the ones we want: here they come under another wire type.
    if pos < 0 or number <= 3 or number == 11:
        return -1
    return skip_field(data, pos, end, tag & 7)


def _scan_entry(data: bytes, start: i64, end: i64, view: EntryView) -> bool:
    """Fill in what EntryView promises; False: odd."""
    covered: i64 = start
    claimed: i64 = -1
    if end - start >= 10 and data[start] == 0x0E and data[start + 1] == 0x01:
        word: int = read_i32_be(data, start + 2)
        claimed = word & U32_MAX
        covered = start + 6
    if end - covered < 4:
        return False
    word = read_i32_be(data, covered)
    metadata_size: i64 = word
    if metadata_size < 0 or metadata_size > end - covered - 4:
        return False
    payload_start: i64 = covered + 4 + metadata_size
    if not _scan_metadata(data, covered + 4, payload_start, view):
        return False
    view.prefix = covered - start
    view.metadata_start = covered + 4 - start
    view.payload_start = payload_start - start
    body = data[start:end]
    view.body = body
    view.checksum = _checksum_of(body, view.prefix)
    view.is_intact = claimed < 0 or claimed == view.checksum
    return True


def _checksum_of(body: bytes, prefix: i64) -> i64:
    if prefix == 0:
        return crc32c(body)
    if len(body) < _SMALL_BODY:
        return crc32c(body[prefix:])
    return crc32c(memoryview(body)[prefix:])


# ---- reading: message ids ----------------------------------------------------------------------


def _scan_id(data: bytes, pos: i64, end: i64) -> WireId | None:  # noqa: C901
    """One loop, for the same reason as in _scan_metadata."""
    found = WireId()
    seen: i64 = 0
    value: i64
    while pos < end:
        tag: i64 = data[pos]
        if tag > 0x30 or tag & 7:
            pos = _skip_unknown(data, pos, end, 7)
            if pos < 0:
                return None
            continue
        pos += 1
        value = data[pos] if pos < end else 0x80
        if value < 0x80:
            pos += 1
        else:
            value, pos = read_varint(data, pos, end)
            if pos < 0:
                return None
        if tag == 0x08:
            found.ledger = value
            seen |= 1
        elif tag == 0x10:
            found.entry = value
            seen |= 2
        elif not _set_id_field(found, tag, value):
            return None
    return found if seen == 3 else None


def _set_id_field(found: WireId, tag: i64, value: i64) -> bool:
    if tag == 0x28:
        if found.ack_set is None:
            found.ack_set = []
        found.ack_set.append(value)
        return True
    if value < I32_MIN or value > I32_MAX:
        return False
    if tag == 0x18:
        found.partition = value
    elif tag == 0x20:
        found.batch_index = value
    elif tag == 0x30:
        found.batch_size = value
    else:
        return False
    return True


def _nested_end(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Where a nested message whose length is at `pos` begins and ends; (-1, -1) if not inside."""
    length: i64
    length, pos = read_u32(data, pos, end)
    if pos < 0 or length > end - pos:
        return -1, -1
    return pos, pos + length


# ---- reading: SEND -----------------------------------------------------------------------------


def scan_sends(window: bytes, start: i64, frame_limit: i64, sends: list[Send]) -> i64:
    """Append the SEND frames at `start` to `sends`; the position of the first other frame."""
    pos: i64 = start
    fields: i64
    end: i64
    frame_end: i64
    while True:
        fields, end, frame_end = _next_command(window, pos, frame_limit, SEND)
        if fields < 0:
            return pos
        send = Send()
        if not _scan_send(window, fields, end, send) or not _scan_entry(
            window, end, frame_end, send
        ):
            return pos
        sends.append(send)
        pos = frame_end


def _scan_send(data: bytes, pos: i64, end: i64, send: Send) -> bool:  # noqa: C901
    """One loop, for the same reason as in _scan_metadata."""
    value: i64
    seen: i64 = 0
    while pos < end:
        tag: i64 = data[pos]
        if tag > 0x40 or tag & 7:
            pos = _skip_unknown(data, pos, end, 9)
            if pos < 0:
                return False
            continue
        pos += 1
        value = data[pos] if pos < end else 0x80
        if value < 0x80:
            pos += 1
        else:
            value, pos = read_varint(data, pos, end)
            if pos < 0:
                return False
        if tag == 0x08:
            send.producer_id = value
            seen |= 1
        elif tag == 0x10:
            send.sequence_id = value
            seen |= 2
        elif not _set_send_field(send, tag, value):
            return False
    return seen == 3


def _set_send_field(send: Send, tag: i64, value: i64) -> bool:
    if tag == 0x30:
        send.highest_sequence_id = value
    elif tag == 0x18:
        send.num_messages = value
        return value >= I32_MIN and value <= I32_MAX
    elif tag == 0x20:
        send.txn_least = value
        send.has_txn = True
    elif tag == 0x28:
        send.txn_most = value
        send.has_txn = True
    elif tag == 0x38:
        send.is_chunk = value != 0
    elif tag == 0x40:
        send.is_marker = value != 0
    else:
        return False
    return True


# ---- reading: SEND_RECEIPT ---------------------------------------------------------------------


def scan_receipts(window: bytes, start: i64, frame_limit: i64, receipts: list[Receipt]) -> i64:
    """Append the SEND_RECEIPT frames at `start`; the position of the first other frame."""
    pos: i64 = start
    fields: i64
    end: i64
    frame_end: i64
    while True:
        fields, end, frame_end = _next_command(window, pos, frame_limit, SEND_RECEIPT)
        if fields < 0:
            return pos
        receipt = Receipt()
        if not _scan_receipt(window, fields, end, receipt):
            return pos
        receipts.append(receipt)
        pos = frame_end


def _scan_receipt(data: bytes, pos: i64, end: i64, receipt: Receipt) -> bool:
    value: i64
    nested: i64
    seen: i64 = 0
    while pos < end:
        tag: i64 = data[pos]
        if tag == 0x1A:
            nested, pos = _nested_end(data, pos + 1, end)
            # A second id would have to be merged with the first: nobody writes that.
            if nested < 0 or receipt.id is not None:
                return False
            receipt.id = _scan_id(data, nested, pos)
            if receipt.id is None:
                return False
        elif tag == 0x08 or tag == 0x10 or tag == 0x20:
            value, pos = read_varint(data, pos + 1, end)
            seen |= _set_receipt_field(receipt, tag, value)
        else:
            pos = _skip_unknown(data, pos, end, 4)
        if pos < 0:
            return False
    return seen == 3


def _set_receipt_field(receipt: Receipt, tag: i64, value: i64) -> i64:
    if tag == 0x08:
        receipt.producer_id = value
        return 1
    if tag == 0x10:
        receipt.sequence_id = value
        return 2
    receipt.highest_sequence_id = value
    return 0


# ---- reading: MESSAGE --------------------------------------------------------------------------


def scan_deliveries(window: bytes, start: i64, frame_limit: i64, found: list[Delivery]) -> i64:
    """Append the MESSAGE frames at `start` to `found`; the position of the first other frame."""
    pos: i64 = start
    fields: i64
    end: i64
    frame_end: i64
    while True:
        fields, end, frame_end = _next_command(window, pos, frame_limit, MESSAGE)
        if fields < 0:
            return pos
        delivery = Delivery()
        if not _scan_delivery(window, fields, end, delivery) or not _scan_entry(
            window, end, frame_end, delivery
        ):
            return pos
        found.append(delivery)
        pos = frame_end


def _scan_delivery(data: bytes, pos: i64, end: i64, delivery: Delivery) -> bool:
    value: i64
    nested: i64
    seen: i64 = 0
    while pos < end:
        tag: i64 = data[pos]
        if tag == 0x12:
            nested, pos = _nested_end(data, pos + 1, end)
            found = _scan_id(data, nested, pos) if nested >= 0 else None
            if found is None or seen & 2:
                return False
            delivery.id = found
            seen |= 2
        elif tag == 0x08 or tag == 0x18 or tag == 0x20 or tag == 0x28:
            value, pos = read_varint(data, pos + 1, end)
            seen |= _set_delivery_field(delivery, tag, value)
        else:
            pos = _skip_unknown(data, pos, end, 5)
        if pos < 0:
            return False
    return seen == 3


def _set_delivery_field(delivery: Delivery, tag: i64, value: i64) -> i64:
    """Which required field this was, as a bit; 4: odd."""
    if tag == 0x08:
        delivery.consumer_id = value
        return 1
    if tag == 0x18:
        delivery.redelivery_count = value
        return 0 if value >= 0 and value <= U32_MAX else 4
    if tag == 0x20:
        if delivery.ack_set is None:
            delivery.ack_set = []
        delivery.ack_set.append(value)
    else:
        delivery.consumer_epoch = value
    return 0


# ---- reading: FLOW and ACK ---------------------------------------------------------------------


def parse_flow(window: bytes, start: i64, frame_end: i64) -> Flow | None:
    """The FLOW in the frame at `start`, or None if it is odd."""
    fields: i64
    end: i64
    value: i64
    if frame_end - start < 12:
        return None
    fields, end = _command_of(window, start + 4, frame_end, FLOW)
    flow = Flow()
    seen: i64 = 0 if fields >= 0 else 8
    while fields < end:
        tag: i64 = window[fields]
        if tag == 0x08:
            value, fields = read_varint(window, fields + 1, end)
            flow.consumer_id = value
            seen |= 1
        elif tag == 0x10:
            value, fields = read_varint(window, fields + 1, end)
            flow.permits = value
            seen |= 2 if value >= 0 and value <= U32_MAX else 8
        else:
            fields = _skip_unknown(window, fields, end, 2)
        if fields < 0:
            return None
    return flow if seen == 3 else None


def parse_ack(window: bytes, start: i64, frame_end: i64) -> Ack | None:
    """The ACK in the frame at `start`, or None if it is odd."""
    fields: i64
    end: i64
    if frame_end - start < 12:
        return None
    fields, end = _command_of(window, start + 4, frame_end, ACK)
    if fields < 0:
        return None
    ack = Ack()
    return ack if _scan_ack(window, fields, end, ack) else None


def _scan_ack(data: bytes, pos: i64, end: i64, ack: Ack) -> bool:
    value: i64
    nested: i64
    seen: i64 = 0
    while pos < end:
        tag: i64 = data[pos]
        if tag == 0x1A:
            nested, pos = _nested_end(data, pos + 1, end)
            if nested < 0:
                return False
            found = _scan_id(data, nested, pos)
            if found is None:
                return False
            ack.ids.append(found)
            continue
        if tag > 0x40 or tag & 7:
            pos = _skip_unknown(data, pos, end, 8)
        else:
            value, pos = read_varint(data, pos + 1, end)
            seen |= _set_ack_field(ack, tag, value)
        if pos < 0:
            return False
    return seen == 3


def _set_ack_field(ack: Ack, tag: i64, value: i64) -> i64:
    """Which required field this was, as a bit; 4: odd."""
    if tag == 0x08:
        ack.consumer_id = value
        return 1
    if tag == 0x10:
        ack.is_cumulative = value == 1
        return 2 if value == 0 or value == 1 else 4
    if tag == 0x40:
        ack.request_id = value
        ack.has_request_id = True
    elif tag == 0x30:
        ack.txn_least = value
        ack.has_txn = True
    elif tag == 0x38:
        ack.txn_most = value
        ack.has_txn = True
    elif tag == 0x20 and value >= 0 and value <= 4:
        ack.validation_error = value
    else:
        return 4
    return 0
