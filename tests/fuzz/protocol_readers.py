"""Everything in protocol/ that reads bytes from outside, as one function of bytes.

fuzz_protocol.py drives it with a fuzzer; test_corpus.py replays the kept corpus in every test run.
The first byte of an input says which reader gets the rest. A reader may refuse with the error it
promises, and must do nothing else: no other exception, no reading of the same bytes in two ways, no
output beyond its limit. An input that fails goes into the corpus in the commit that fixes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from anabranch.errors import InvalidInput, RemoteProtocolError
from anabranch.protocol import odd_frames, wire_codec, wire_pb2
from anabranch.protocol.batch_codec import decode_batch
from anabranch.protocol.chunks import ChunkAssembler
from anabranch.protocol.commands import parse_command
from anabranch.protocol.compression import decompress
from anabranch.protocol.connection import (
    Broken,
    Connection,
    Deliveries,
    Event,
    Receipts,
    Sends,
)
from anabranch.protocol.entries import parse_entry, parse_metadata, sticky_key
from anabranch.protocol.frames import split_frame
from anabranch.protocol.handshake import Role, State
from anabranch.protocol.message_ids import parse_checkpoint, parse_id, parse_segmented_id
from anabranch.protocol.wire_codec import Ack, Delivery, Flow, Receipt, Send
from tests.protocol_facts import facts

LIMIT = 1 << 16


def one_input(data: bytes) -> None:
    if data:
        READERS[data[0] % len(READERS)](data[1:])


def flat(events: list[Event]) -> list[object]:
    out: list[object] = []
    for event in events:
        match event:
            case Sends(values) | Receipts(values) | Deliveries(values):
                out += [facts(value) for value in values]
            case Ack() | Flow():
                out.append(facts(event))
            case Broken(error):
                out.append(str(error))
            case _:
                out.append((event.kind, event.message.SerializeToString(deterministic=True)))
    return out


def _conversation(role: Role, state: State, data: bytes) -> None:
    """Whole and in pieces, a connection tells the same story, and it ends at most once."""
    whole = Connection(role, max_message_size=LIMIT)
    pieces = Connection(role, max_message_size=LIMIT)
    whole.state = pieces.state = state
    events = whole.receive(data)
    assert sum(isinstance(event, Broken) for event in events[:-1]) == 0
    step = max(1 + len(data) % 7, len(data) // 16)
    cut: list[Event] = []
    for start in range(0, len(data), step):
        cut += pieces.receive(data[start : start + step])
    assert flat(cut) == flat(events)
    assert pieces.state is whole.state


def server_stream(data: bytes) -> None:
    _conversation(Role.SERVER, State.OPEN, data)


def client_stream(data: bytes) -> None:
    _conversation(Role.CLIENT, State.OPEN, data)


def handshake_stream(data: bytes) -> None:
    _conversation(Role.SERVER, State.START, data)
    _conversation(Role.CLIENT, State.CONNECTING, data)


def _slow(frame: bytes) -> Send | Delivery | Receipt | Ack | Flow:
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
            assert isinstance(message, wire_pb2.CommandFlow)
            return odd_frames.flow_of(message)


def fast_paths(data: bytes) -> None:
    """The hand-written readers, against protobuf."""
    frame = len(data).to_bytes(4, "big") + data
    found: list[Send | Delivery | Receipt | Ack | Flow] = []
    sends: list[Send] = []
    receipts: list[Receipt] = []
    deliveries: list[Delivery] = []
    wire_codec.scan_sends(frame, 0, LIMIT, sends)
    wire_codec.scan_receipts(frame, 0, LIMIT, receipts)
    wire_codec.scan_deliveries(frame, 0, LIMIT, deliveries)
    found += [*sends, *receipts, *deliveries]
    ack = wire_codec.parse_ack(frame, 0, len(frame))
    flow = wire_codec.parse_flow(frame, 0, len(frame))
    found += [value for value in (ack, flow) if value is not None]
    assert len(found) <= 1
    for value in found:
        parse_command(split_frame(frame)[0])
        # Of the metadata only what storage needs is read by hand, so protobuf may refuse the rest.
        with contextlib.suppress(RemoteProtocolError):
            assert facts(value) == facts(_slow(frame))


def entry(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        parsed = parse_entry(data)
        sticky_key(parsed.metadata)


def batch(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        for message in decode_batch(data[1:], data[0] if data else 0):
            assert len(message.payload) <= len(data)
            _ = (message.key, message.ordering_key, message.properties)


def compressed(data: bytes) -> None:
    size = int.from_bytes(data[1:3], "big")
    with contextlib.suppress(RemoteProtocolError):
        found = decompress(data[0] % 6 if data else 0, data[3:], size, LIMIT)
        assert len(found) == size or data[0] % 6 == 0


def ids(data: bytes) -> None:
    for parse in (parse_id, parse_segmented_id, parse_checkpoint):
        with contextlib.suppress(InvalidInput):
            made = parse(data)
            assert parse(made.encode()) == made


def chunks(data: bytes) -> None:
    """A stream of chunks: two bytes of length, then a MessageMetadata, then as much payload."""
    box: ChunkAssembler[int] = ChunkAssembler(
        max_pending=3, max_message_size=200, max_pending_bytes=400
    )
    pos = 0
    while pos + 2 <= len(data):
        size, payload = data[pos], data[pos + 1]
        pos += 2
        with contextlib.suppress(RemoteProtocolError):
            metadata = parse_metadata(data[pos : pos + size])
            progress = box.add(metadata, data[pos + size : pos + size + payload], pos, 0)
            assert progress.message is None or len(progress.message.payload) <= 200
        assert len(box) <= 3
        assert box.pending_bytes <= 400
        pos += size + payload


READERS: list[Callable[[bytes], None]] = [
    server_stream,
    client_stream,
    handshake_stream,
    fast_paths,
    entry,
    batch,
    compressed,
    ids,
    chunks,
]
