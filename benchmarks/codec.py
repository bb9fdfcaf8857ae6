"""How many frames a second does the codec read and write, against the protobuf runtime alone?

    python benchmarks/codec.py [--rounds N] [--json FILE]

Every operation runs in three variants, each round one process per variant, one after the other:
`protobuf` is the best use of the runtime we know (one reused object, joined output), `interpreted`
is our codec as plain Python, `compiled` is the same source through mypyc. Reading includes the
checksum and a copy of each entry, in all variants. Without compiled modules the third is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from crc32c import crc32c
from librt.strings import BytesWriter

from anabranch.protocol import batch_codec, wire_codec, wire_pb2, wire_writer
from anabranch.protocol.commands import encode_command_frame
from anabranch.protocol.entries import build_entry
from anabranch.runtime import build_mode
from benchmarks.report import Row, report

QUESTION = __doc__.splitlines()[0] if __doc__ else ""
FRAMES = 60  # as many as one read of 64 KB brings with entries of 1 KB
BATCH = 1000
SECONDS = 0.25  # of each operation in each round
LIMIT = 1 << 23

METADATA = wire_pb2.MessageMetadata(
    producer_name="producer-1", sequence_id=1, publish_time=1700000000000, partition_key="key-1"
)
ENTRY = build_entry(METADATA, bytes(1024))
SENDS = b"".join(
    encode_command_frame(wire_pb2.CommandSend(producer_id=1, sequence_id=5000 + index), ENTRY)
    for index in range(FRAMES)
)
ACK = encode_command_frame(
    wire_pb2.CommandAck(
        consumer_id=7,
        ack_type=wire_pb2.CommandAck.Individual,
        message_id=[
            wire_pb2.MessageIdData(ledgerId=12345, entryId=20_000 + index) for index in range(100)
        ],
    )
)
RECEIPTS = b"".join(
    encode_command_frame(
        wire_pb2.CommandSendReceipt(
            producer_id=1,
            sequence_id=5000 + index,
            message_id=wire_pb2.MessageIdData(ledgerId=12345, entryId=20_000 + index),
        )
    )
    for index in range(FRAMES)
)
DELIVERIES = b"".join(
    encode_command_frame(
        wire_pb2.CommandMessage(
            consumer_id=7,
            message_id=wire_pb2.MessageIdData(ledgerId=12345, entryId=index, partition=-1),
        ),
        ENTRY,
    )
    for index in range(FRAMES)
)
PAYLOAD = bytes(100)


# ---- ours --------------------------------------------------------------------------------------


def scan_sends() -> int:
    sends: list[wire_codec.Send] = []
    assert wire_codec.scan_sends(SENDS, 0, LIMIT, sends) == len(SENDS)
    return len(sends)


def scan_deliveries() -> int:
    found: list[wire_codec.Delivery] = []
    assert wire_codec.scan_deliveries(DELIVERIES, 0, LIMIT, found) == len(DELIVERIES)
    return len(found)


def scan_receipts() -> int:
    found: list[wire_codec.Receipt] = []
    assert wire_codec.scan_receipts(RECEIPTS, 0, LIMIT, found) == len(RECEIPTS)
    return len(found)


def write_receipts() -> int:
    out = BytesWriter()
    wire_writer.write_receipts(out, STORED, 12345, 20_000)
    out.getvalue()
    return len(STORED)


def write_deliveries() -> int:
    out = BytesWriter()
    wire_writer.write_deliveries(out, 7, 12345, 20_000, -1, BODIES)
    out.getvalue()
    return len(BODIES)


def parse_ack() -> int:
    ack = wire_codec.parse_ack(ACK, 0, len(ACK))
    assert ack is not None
    return len(ack.ids)


def encode_batch() -> int:
    out = BytesWriter()
    for index in range(BATCH):
        batch_codec.write_message(out, PAYLOAD, index, "key-1")
    out.getvalue()
    return BATCH


def decode_batch() -> int:
    size = 0
    for message in batch_codec.decode_batch(ENCODED_BATCH, BATCH):
        size += len(message.payload)
    assert size == BATCH * len(PAYLOAD)
    return BATCH


STORED: list[wire_codec.Send] = []
wire_codec.scan_sends(SENDS, 0, LIMIT, STORED)
BODIES = [ENTRY] * FRAMES
_batch = BytesWriter()
for _index in range(BATCH):
    batch_codec.write_message(_batch, PAYLOAD, _index, "key-1")
ENCODED_BATCH = _batch.getvalue()


# ---- protobuf alone ----------------------------------------------------------------------------


def _frames(window: bytes) -> list[tuple[bytes, int, int]]:
    """Command, entry start and frame end of every frame."""
    out = []
    pos = 0
    while pos < len(window):
        end = pos + 4 + int.from_bytes(window[pos : pos + 4], "big")
        entry = pos + 8 + int.from_bytes(window[pos + 4 : pos + 8], "big")
        out.append((window[pos + 8 : entry], entry, end))
        pos = end
    return out


def _protobuf_entry(window: bytes, start: int, end: int, metadata: wire_pb2.MessageMetadata) -> int:
    body = window[start:end]
    size = int.from_bytes(body[6:10], "big")
    metadata.ParseFromString(body[10 : 10 + size])
    assert crc32c(body[6:]) == int.from_bytes(body[2:6], "big")
    return metadata.publish_time + metadata.num_messages_in_batch


def protobuf_scan_sends() -> int:
    command, metadata = wire_pb2.BaseCommand(), wire_pb2.MessageMetadata()
    found = []
    for data, entry, end in _frames(SENDS):
        command.ParseFromString(data)
        send = command.send
        _protobuf_entry(SENDS, entry, end, metadata)
        found.append(
            (send.producer_id, send.sequence_id, send.highest_sequence_id, send.num_messages)
        )
    return len(found)


def protobuf_scan_deliveries() -> int:
    command, metadata = wire_pb2.BaseCommand(), wire_pb2.MessageMetadata()
    found = []
    for data, entry, end in _frames(DELIVERIES):
        command.ParseFromString(data)
        message = command.message
        _protobuf_entry(DELIVERIES, entry, end, metadata)
        found.append((message.consumer_id, message.message_id.ledgerId, message.message_id.entryId))
    return len(found)


def protobuf_scan_receipts() -> int:
    command = wire_pb2.BaseCommand()
    found = []
    for data, _, _ in _frames(RECEIPTS):
        command.ParseFromString(data)
        receipt = command.send_receipt
        found.append((receipt.producer_id, receipt.sequence_id, receipt.message_id.entryId))
    return len(found)


def protobuf_write_receipts() -> int:
    command = wire_pb2.BaseCommand(type=wire_pb2.BaseCommand.SEND_RECEIPT)
    receipt = command.send_receipt
    out = []
    for index, send in enumerate(STORED):
        receipt.producer_id = send.producer_id
        receipt.sequence_id = send.sequence_id
        receipt.message_id.ledgerId = 12345
        receipt.message_id.entryId = 20_000 + index
        data = command.SerializeToString()
        out.append((len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
    b"".join(out)
    return len(out)


def protobuf_write_deliveries() -> int:
    command = wire_pb2.BaseCommand(type=wire_pb2.BaseCommand.MESSAGE)
    message = command.message
    out = []
    for index, body in enumerate(BODIES):
        message.consumer_id = 7
        message.message_id.ledgerId = 12345
        message.message_id.entryId = 20_000 + index
        message.message_id.partition = -1
        data = command.SerializeToString()
        size = len(data)
        out.append((size + 4 + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + data)
        out.append(body)
    b"".join(out)
    return len(BODIES)


def protobuf_parse_ack() -> int:
    command = wire_pb2.BaseCommand()
    command.ParseFromString(ACK[8:])
    return len([(acked.ledgerId, acked.entryId) for acked in command.ack.message_id])


def protobuf_encode_batch() -> int:
    metadata = wire_pb2.SingleMessageMetadata()
    out = []
    for index in range(BATCH):
        metadata.partition_key = "key-1"
        metadata.payload_size = len(PAYLOAD)
        metadata.sequence_id = index
        data = metadata.SerializeToString()
        out += [len(data).to_bytes(4, "big"), data, PAYLOAD]
    b"".join(out)
    return BATCH


def protobuf_decode_batch() -> int:
    metadata = wire_pb2.SingleMessageMetadata()
    pos = size = 0
    for _ in range(BATCH):
        start = pos + 4
        pos = start + int.from_bytes(ENCODED_BATCH[pos:start], "big")
        metadata.ParseFromString(ENCODED_BATCH[start:pos])
        payload = ENCODED_BATCH[pos : pos + metadata.payload_size]
        size += len(payload)
        pos += len(payload)
    assert size == BATCH * len(PAYLOAD)
    return BATCH


Operation = Callable[[], int]
OPERATIONS: dict[str, tuple[Operation, Operation]] = {
    "scan SEND, 1 KB": (scan_sends, protobuf_scan_sends),
    "scan MESSAGE, 1 KB": (scan_deliveries, protobuf_scan_deliveries),
    "scan SEND_RECEIPT": (scan_receipts, protobuf_scan_receipts),
    "encode SEND_RECEIPT": (write_receipts, protobuf_write_receipts),
    "encode MESSAGE, 1 KB": (write_deliveries, protobuf_write_deliveries),
    "parse ACK, per id": (parse_ack, protobuf_parse_ack),
    "encode batch, per message": (encode_batch, protobuf_encode_batch),
    "decode batch, per message": (decode_batch, protobuf_decode_batch),
}


def rate(operation: Operation) -> float:
    """Items per second of CPU time, so that neighbours on the machine count for less."""
    operation()
    count, start = 0, time.process_time()
    while True:
        count += operation()
        elapsed = time.process_time() - start
        if elapsed >= SECONDS:
            return count / elapsed


def measure(is_ours: bool) -> dict[str, float]:
    return {name: rate(pair[0 if is_ours else 1]) for name, pair in OPERATIONS.items()}


def in_a_process(variant: str) -> dict[str, float]:
    environment = {**os.environ, "ANABRANCH_PURE": "0" if variant == "compiled" else "1"}
    command = [sys.executable, "-m", "benchmarks.codec", "--variant", variant]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def is_compiled() -> bool:
    environment = {**os.environ, "ANABRANCH_PURE": "0"}
    command = "from anabranch.protocol import wire_codec; print(wire_codec.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, check=True, capture_output=True, text=True
    )
    return not done.stdout.strip().endswith(".py")


def main() -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the JSON here instead of printing it")
    parser.add_argument("--variant", choices=["protobuf", "interpreted", "compiled"])
    options = parser.parse_args()
    if options.variant:
        if options.variant == "compiled":
            assert build_mode.loaded_mode() == "compiled"
        print(json.dumps(measure(is_ours=options.variant != "protobuf")))
        return
    variants = ["protobuf", "interpreted", *(["compiled"] if is_compiled() else [])]
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in variants}
    for _ in range(options.rounds):
        for variant in variants:
            found[variant].append(in_a_process(variant))
    rows = [
        Row(name, variant, "items/s of CPU", tuple(run[name] for run in found[variant]))
        for name in OPERATIONS
        for variant in variants
    ]
    report(QUESTION, rows, json_file=options.json, baseline="protobuf")


if __name__ == "__main__":
    main()
