"""Where the hand-written scanners stop. That they read right is a property test's business."""

from __future__ import annotations

import pytest

from anabranch.protocol import wire_codec, wire_pb2
from anabranch.protocol.commands import encode_command_frame
from anabranch.protocol.entries import broker_block, build_entry
from anabranch.protocol.wire_codec import Delivery, Receipt, Send

LIMIT = 1 << 20
METADATA = wire_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=11)
ENTRY = build_entry(METADATA, b"payload")
PING = encode_command_frame(wire_pb2.CommandPing())


def a_send(sequence_id: int = 1, entry: bytes = ENTRY) -> bytes:
    return encode_command_frame(wire_pb2.CommandSend(producer_id=1, sequence_id=sequence_id), entry)


def scan(window: bytes, start: int = 0, limit: int = LIMIT) -> tuple[int, list[int]]:
    sends: list[Send] = []
    end = wire_codec.scan_sends(window, start, limit, sends)
    return end, [send.sequence_id for send in sends]


def test_a_run_ends_at_the_first_frame_that_is_anything_else() -> None:
    window = a_send(1) + a_send(2) + PING + a_send(3)
    assert scan(window) == (len(a_send(1)) * 2, [1, 2])
    assert scan(window, len(window) - len(a_send(3))) == (len(window), [3])


def test_a_run_ends_where_bytes_are_missing() -> None:
    window = a_send(1) + a_send(2)
    for cut in range(len(a_send(1)), len(window)):
        assert scan(window[:cut]) == (len(a_send(1)), [1])


def test_nothing_is_found_in_nothing() -> None:
    assert scan(b"") == (0, [])
    assert scan(a_send(1), len(a_send(1))) == (len(a_send(1)), [])


def test_a_frame_above_the_limit_is_left_to_whoever_refuses_it() -> None:
    frame = a_send(1)
    assert scan(frame, limit=len(frame) - 4) == (len(frame), [1])
    assert scan(frame, limit=len(frame) - 5) == (0, [])


@pytest.mark.parametrize("size", [0, 6, 2**31, 2**32 - 1])
def test_sizes_that_are_negative_or_tiny_are_not_followed(size: int) -> None:
    frame = a_send(1)
    assert scan(size.to_bytes(4, "big") + frame[4:]) == (0, [])
    assert scan(frame[:4] + size.to_bytes(4, "big") + frame[8:]) == (0, [])
    broken_metadata = frame[: -len(ENTRY)] + ENTRY[:6] + size.to_bytes(4, "big") + ENTRY[10:]
    assert scan(broken_metadata) == (0, [])


@pytest.mark.parametrize(
    "command",
    [
        b"\x32\x04\x08\x01\x10\x01\x08\x06",  # the type behind its command
        b"\x08\x06\x32\x04\x08\x01\x10\x01\x08\x06",  # something behind the command
        b"\x08\x06\x32\x02\x08\x01",  # no sequence id
        b"\x08\x06\x32\x05\x09\x01\x10\x01\x00",  # a known field of another wire type
        b"\x08\x06\x32\x06\x08\x01\x10\x01\x0b\x0c",  # a group
        b"\x08\x06\x32\x06\x08\x01\x10\x01\x00\x00",  # field number 0
        b"\x08\x06\x32\x84\x80\x80\x80\x80\x00\x08\x01\x10\x01",  # a length of six bytes
    ],
)
def test_odd_commands_are_left_to_protobuf(command: bytes) -> None:
    size = len(command)
    frame = (4 + size + len(ENTRY)).to_bytes(4, "big") + size.to_bytes(4, "big") + command + ENTRY
    assert scan(frame) == (0, [])


def test_a_producer_has_no_broker_block_to_send() -> None:
    assert scan(a_send(1, broker_block(1, 2) + ENTRY)) == (0, [])


def test_a_damaged_entry_is_taken_and_marked() -> None:
    sends: list[Send] = []
    wire_codec.scan_sends(a_send(1, ENTRY[:-1] + b"?"), 0, LIMIT, sends)
    assert [send.is_intact for send in sends] == [False]


@pytest.mark.parametrize("size", [10, 10_000])
def test_the_checksum_is_right_for_small_and_large_entries(size: int) -> None:
    entry = build_entry(METADATA, bytes(size))
    sends: list[Send] = []
    wire_codec.scan_sends(a_send(1, entry), 0, LIMIT, sends)
    [send] = sends
    assert send.is_intact
    assert send.checksum == int.from_bytes(entry[2:6], "big")
    assert send.prefix == 6
    assert send.body == entry


def test_clients_scan_receipts_and_deliveries_in_runs() -> None:
    message_id = wire_pb2.MessageIdData(ledgerId=1, entryId=2)
    receipt = encode_command_frame(
        wire_pb2.CommandSendReceipt(producer_id=1, sequence_id=2, message_id=message_id)
    )
    delivery = encode_command_frame(
        wire_pb2.CommandMessage(consumer_id=1, message_id=message_id), ENTRY
    )
    window = receipt * 3 + delivery * 2 + PING
    receipts: list[Receipt] = []
    deliveries: list[Delivery] = []
    pos = wire_codec.scan_receipts(window, 0, LIMIT, receipts)
    assert (pos, len(receipts)) == (len(receipt) * 3, 3)
    pos = wire_codec.scan_deliveries(window, pos, LIMIT, deliveries)
    assert (pos, len(deliveries)) == (len(window) - len(PING), 2)


@pytest.mark.parametrize("frame", [b"", b"\x00" * 11, PING])
def test_what_is_no_ack_or_flow_is_none(frame: bytes) -> None:
    assert wire_codec.parse_ack(frame, 0, len(frame)) is None
    assert wire_codec.parse_flow(frame, 0, len(frame)) is None


def test_an_id_given_twice_in_a_receipt_is_left_to_protobuf_to_merge() -> None:
    fields = b"\x08\x01\x10\x02" + b"\x1a\x04\x08\x01\x10\x02" * 2
    command = b"\x08\x07\x3a" + bytes([len(fields)]) + fields
    frame = (4 + len(command)).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
    receipts: list[Receipt] = []
    assert wire_codec.scan_receipts(frame, 0, LIMIT, receipts) == 0
