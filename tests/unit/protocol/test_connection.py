"""A client and a server object back to back, and what happens to bytes that are not as agreed."""

from __future__ import annotations

import tracemalloc

import pytest

from anabranch.errors import LocalProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import Command, Kind, encode_command_frame
from anabranch.protocol.connection import (
    HANDSHAKE_FRAME_LIMIT,
    LARGE_FRAME,
    Broken,
    Connection,
    Deliveries,
    Event,
    Receipts,
    Sends,
)
from anabranch.protocol.entries import broker_block, build_entry
from anabranch.protocol.frames import frame_limit
from anabranch.protocol.handshake import Role, State
from anabranch.protocol.wire_codec import Ack, Flow, Send, WireId
from tests.protocol_facts import facts

METADATA = wire_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
CONNECT = wire_pb2.CommandConnect(client_version="test", protocol_version=21)
CONNECTED = wire_pb2.CommandConnected(server_version="test", max_message_size=1 << 20)


def taken(connection: Connection) -> bytes:
    return b"".join(connection.data_to_send())


def open_pair() -> tuple[Connection, Connection]:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER, max_message_size=1 << 20)
    client.send(CONNECT)
    assert server.receive(taken(client)) == [Command(Kind.CONNECT, CONNECT)]
    server.send(CONNECTED)
    assert client.receive(taken(server)) == [Command(Kind.CONNECTED, CONNECTED)]
    assert client.state is server.state is State.OPEN
    return client, server


def reason(events: list[Event]) -> str:
    assert isinstance(events[-1], Broken), events
    return str(events[-1].error)


def a_send(sequence_id: int = 1) -> Send:
    send = Send()
    send.producer_id, send.sequence_id = 3, sequence_id
    return send


def test_a_client_learns_the_message_size_from_the_server() -> None:
    client, _ = open_pair()
    assert client.max_message_size == 1 << 20
    assert client.frame_limit == frame_limit(1 << 20)


@pytest.mark.parametrize("size", [0, -1, 2**31 - 1])
def test_a_message_size_that_makes_no_sense_is_not_believed(size: int) -> None:
    client = Connection(Role.CLIENT)
    client.send(CONNECT)
    connected = wire_pb2.CommandConnected(server_version="test", max_message_size=size)
    assert f"max_message_size {size}" in reason(client.receive(encode_command_frame(connected)))


def test_challenges_may_come_before_connected() -> None:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER)
    client.send(CONNECT)
    server.receive(taken(client))
    for _ in range(2):
        server.send(wire_pb2.CommandAuthChallenge())
        client.receive(taken(server))
        client.send(wire_pb2.CommandAuthResponse())
        server.receive(taken(client))
    server.send(CONNECTED)
    client.receive(taken(server))
    assert client.state is State.OPEN


def test_a_refused_client_hears_the_error_and_nothing_else() -> None:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER)
    client.send(CONNECT)
    server.receive(taken(client))
    refusal = wire_pb2.CommandError(
        request_id=2**64 - 1, error=wire_pb2.AuthenticationError, message="who are you?"
    )
    server.send(refusal)
    extra = encode_command_frame(wire_pb2.CommandPing())
    assert client.receive(taken(server) + extra) == [Command(Kind.ERROR, refusal)]
    assert client.state is State.CLOSED
    assert client.receive(extra) == []


def test_a_server_hangs_up_on_whoever_does_not_begin_with_connect() -> None:
    server = Connection(Role.SERVER)
    events = server.receive(encode_command_frame(wire_pb2.CommandPing()))
    assert reason(events) == "PING from the client while the connection is start"
    assert server.receive(encode_command_frame(CONNECT)) == []


def test_a_data_frame_before_the_handshake_is_not_data() -> None:
    client, _ = open_pair()
    client.send_entry(a_send(), build_entry(METADATA, b"x"))
    assert "SEND from the client" in reason(Connection(Role.SERVER).receive(taken(client)))


def test_a_role_says_only_what_its_role_says() -> None:
    client, server = open_pair()
    with pytest.raises(LocalProtocolError, match="SUCCESS from the client"):
        client.send(wire_pb2.CommandSuccess(request_id=1))
    with pytest.raises(LocalProtocolError, match="SEND_RECEIPT while"):
        client.send_receipt(1, 1, 0, 1, 1)
    with pytest.raises(LocalProtocolError, match="FLOW while"):
        server.send_flow(1, 1)
    assert client.pending_bytes == server.pending_bytes == 0
    success = encode_command_frame(wire_pb2.CommandSuccess(request_id=1))
    assert "SUCCESS from the client" in reason(server.receive(success))


def test_nothing_is_sent_before_the_handshake_is_over() -> None:
    client = Connection(Role.CLIENT)
    with pytest.raises(LocalProtocolError, match="while the connection is start"):
        client.send(wire_pb2.CommandPing())
    with pytest.raises(LocalProtocolError, match="FLOW while"):
        client.send_flow(1, 1)


def test_data_goes_both_ways() -> None:
    client, server = open_pair()
    ack, acked = Ack(), WireId()
    acked.ledger, acked.entry, acked.ack_set = 5, 6, [-1]
    ack.consumer_id, ack.ids = 9, [acked]
    body = build_entry(METADATA, b"hello")
    client.send_entry(a_send(1), body)
    client.send_entry(a_send(2), body)
    client.send_flow(9, 1000)
    client.send_ack(ack)
    client.send(wire_pb2.CommandPing())
    sends, flow, read_ack, ping = server.receive(taken(client))
    assert isinstance(sends, Sends)
    assert [send.sequence_id for send in sends.sends] == [1, 2]
    assert bytes(sends.sends[0].body) == body
    assert isinstance(flow, Flow)
    assert facts(flow) == (9, 1000)
    assert isinstance(read_ack, Ack)
    assert facts(read_ack) == facts(ack)
    assert ping == Command(Kind.PING, wire_pb2.CommandPing())

    server.send_receipt(3, 1, 0, 5, 0)
    server.send_receipt(3, 2, 0, -1, -1)
    server.send_delivery(9, 5, 0, body, redelivery_count=1, ack_set=[3], consumer_epoch=2)
    server.send_delivery(9, 5, 1, broker_block(1, 2) + body)
    receipts, deliveries = client.receive(taken(server))
    assert isinstance(receipts, Receipts)
    assert [facts(receipt)[0] for receipt in receipts.receipts] == [(3, 1, 0), (3, 2, 0)]
    assert isinstance(deliveries, Deliveries)
    first, second = deliveries.deliveries
    assert (first.redelivery_count, first.ack_set, first.consumer_epoch) == (1, [3], 2)
    assert (first.prefix, second.prefix) == (6, 6 + 6 + 4)
    assert first.is_intact
    assert second.is_intact


@pytest.mark.parametrize("size", [10, LARGE_FRAME])
def test_a_run_of_entries_is_delivered_as_if_one_by_one(size: int) -> None:
    bodies = [build_entry(METADATA, bytes(size)), build_entry(METADATA, b"x")]
    client, server = open_pair()
    server.send_deliveries(9, 5, 7, bodies, partition=2)
    together = taken(server)
    for index, body in enumerate(bodies):
        server.send_delivery(9, 5, 7 + index, body, partition=2)
    assert taken(server) == together
    [deliveries] = client.receive(together)
    assert isinstance(deliveries, Deliveries)
    assert [delivery.id.entry for delivery in deliveries.deliveries] == [7, 8]


def test_a_run_of_sends_is_confirmed_as_if_one_by_one() -> None:
    client, server = open_pair()
    server.send_receipts([a_send(1), a_send(2)], 5, 7)
    together = taken(server)
    server.send_receipt(3, 1, 0, 5, 7)
    server.send_receipt(3, 2, 0, 5, 8)
    assert taken(server) == together
    [receipts] = client.receive(together)
    assert isinstance(receipts, Receipts)
    assert [receipt.id.entry for receipt in receipts.receipts if receipt.id] == [7, 8]


def test_odd_frames_join_the_runs_of_ordinary_ones() -> None:
    """How a frame was read does not show: protobuf reads these, with a field nobody knows."""
    client, server = open_pair()
    id_data = wire_pb2.MessageIdData(ledgerId=1, entryId=2)
    id_data.first_chunk_message_id.CopyFrom(wire_pb2.MessageIdData(ledgerId=1, entryId=1))
    odd_receipt = wire_pb2.CommandSendReceipt(producer_id=3, sequence_id=2, message_id=id_data)
    odd_message = wire_pb2.CommandMessage(consumer_id=9, message_id=id_data)
    body = build_entry(METADATA, b"hello")
    server.send_receipt(3, 1, 0, 5, 0)
    server.send_encoded(encode_command_frame(odd_receipt))
    server.send_receipt(3, 3, 0, 5, 1)
    server.send_delivery(9, 5, 0, body)
    server.send_encoded(encode_command_frame(odd_message, body))
    receipts, deliveries = client.receive(taken(server))
    assert isinstance(receipts, Receipts)
    assert [receipt.sequence_id for receipt in receipts.receipts] == [1, 2, 3]
    assert isinstance(deliveries, Deliveries)
    assert [delivery.id.entry for delivery in deliveries.deliveries] == [0, 2]
    odd_ack = wire_pb2.CommandAck(consumer_id=9, ack_type="Individual", message_id=[id_data])
    odd_flow = encode_command_frame(wire_pb2.CommandFlow(consumer_id=9, messagePermits=5))
    swapped = odd_flow[:12] + odd_flow[14:] + odd_flow[12:14]  # fields in another order
    ack, flow = server.receive(encode_command_frame(odd_ack) + swapped)
    assert isinstance(ack, Ack)
    assert ack.ids[0].first_chunk is not None
    assert isinstance(flow, Flow)
    assert facts(flow) == (9, 5)


def test_a_large_frame_of_garbage_ends_the_connection_too() -> None:
    _, server = open_pair()
    size = 2 * LARGE_FRAME
    garbage = size.to_bytes(4, "big") + (100).to_bytes(4, "big") + b"\xff" * (size - 4)
    events: list[Event] = []
    for start in range(0, len(garbage), 1000):
        events += server.receive(garbage[start : start + 1000])
    assert "malformed BaseCommand" in reason(events)


def test_frames_encoded_beforehand_go_out_as_they_are() -> None:
    client, server = open_pair()
    server.send_receipt(3, 1, 0, 5, 0)
    waited = taken(server)
    server.send_encoded(waited)
    server.send_encoded(waited * 2000)
    server.send(wire_pb2.CommandPing())
    assert server.pending_bytes == len(waited) * 2001 + 13
    receipts, ping = client.receive(taken(server))
    assert isinstance(receipts, Receipts)
    assert len(receipts.receipts) == 2001
    assert isinstance(ping, Command)


def transcript() -> bytes:
    """What a busy client sends: small and large frames, fast and odd ones."""
    client, _ = open_pair()
    for size in (0, 10, LARGE_FRAME - 60, LARGE_FRAME, 3 * LARGE_FRAME, 5):
        client.send_entry(a_send(size), build_entry(METADATA, bytes(size)))
    odd = a_send(77)
    client.send_encoded(
        encode_command_frame(
            wire_pb2.CommandSend(
                producer_id=1,
                sequence_id=odd.sequence_id,
                message_id=wire_pb2.MessageIdData(ledgerId=1, entryId=2),
            ),
            build_entry(METADATA, b"odd", with_checksum=False),
        )
    )
    client.send_flow(1, 1)
    client.send(wire_pb2.CommandPing())
    return taken(client)


def flat(events: list[Event]) -> list[object]:
    """Events with their runs taken apart: how they were cut must not matter."""
    out: list[object] = []
    for event in events:
        match event:
            case Sends(sends):
                out += [facts(send) for send in sends]
            case Ack() | Flow():
                out.append(facts(event))
            case _:
                out.append(event)
    return out


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000, 65536, 10**6])
def test_how_bytes_were_cut_never_changes_the_events(step: int) -> None:
    data = transcript()
    _, whole = open_pair()
    expected = flat(whole.receive(data))
    assert len(expected) == 9
    _, server = open_pair()
    events: list[Event] = []
    for start in range(0, len(data), step):
        events += server.receive(data[start : start + step])
    assert flat(events) == expected


@pytest.mark.parametrize("step", [1, 13, 65536])
def test_a_transport_may_write_into_our_buffers(step: int) -> None:
    data = transcript()
    _, whole = open_pair()
    expected = flat(whole.receive(data))
    _, server = open_pair()
    events: list[Event] = []
    while data:
        buffer = server.get_buffer(-1)
        count = min(step, len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        events += server.buffer_updated(count)
    assert flat(events) == expected


def test_connections_can_share_their_scratch() -> None:
    scratch = bytearray(100)
    data = transcript()
    pair = [Connection(Role.SERVER, scratch=scratch) for _ in range(2)]
    events: list[list[Event]] = [[], []]
    for server in pair:
        server.receive(encode_command_frame(CONNECT))
        server.send(CONNECTED)
    position = [0, 0]
    while position[1] < len(data):
        for index, server in enumerate(pair):
            buffer = server.get_buffer(-1)
            count = min(len(buffer), len(data) - position[index])
            buffer[:count] = data[position[index] : position[index] + count]
            position[index] += count
            events[index] += server.buffer_updated(count)
    _, whole = open_pair()
    assert flat(events[0]) == flat(events[1]) == flat(whole.receive(data))


def test_a_large_entry_is_not_copied_again() -> None:
    client, server = open_pair()
    client.send_entry(a_send(), build_entry(METADATA, bytes(10 * LARGE_FRAME)))
    data = taken(client)
    server.receive(data[:100])
    buffer = server.get_buffer(-1)
    assert len(buffer) == len(data) - 100
    buffer[:] = data[100:]
    [sends] = server.buffer_updated(len(buffer))
    assert isinstance(sends, Sends)
    body = sends.sends[0].body
    assert isinstance(body, memoryview)
    assert body.obj is buffer.obj


def test_large_entries_go_out_by_reference() -> None:
    client, _ = open_pair()
    body = build_entry(METADATA, bytes(LARGE_FRAME))
    client.send_entry(a_send(), body)
    assert any(piece is body for piece in client.data_to_send())
    assert client.data_to_send() == []


def test_an_entry_the_peer_would_refuse_is_not_sent() -> None:
    client, _ = open_pair()
    with pytest.raises(LocalProtocolError, match="entry of"):
        client.send_entry(a_send(), bytes((1 << 20) + 10241))
    assert client.pending_bytes == 0


def test_what_came_before_the_mistake_is_still_delivered() -> None:
    client, server = open_pair()
    client.send_entry(a_send(5), build_entry(METADATA, b"x"))
    events = server.receive(taken(client) + b"\xff\xff\xff\xff" + bytes(100))
    assert isinstance(events[0], Sends)
    assert "4294967295 bytes announced" in reason(events)
    assert len(events) == 2
    assert server.state is State.CLOSED
    assert server.receive(b"more") == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(4), "frame of 0 bytes"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x00x", "command of 0 bytes"),
        (b"\x00\x00\x00\x05\xff\xff\xff\xffx", "command of 4294967295 bytes"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x06xxxxxx", "BaseCommand without type"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x06\xff\xff\xff\xff\xff\xff", "malformed BaseCommand"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame of 1195725856 bytes announced"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "bytes announced"),  # TLS on the wrong port
    ],
)
def test_garbage_ends_the_connection_with_a_reason(data: bytes, why: str) -> None:
    _, server = open_pair()
    assert why in reason(server.receive(data))
    _, slowly = open_pair()
    events: list[Event] = []
    for byte in data:
        events += slowly.receive(bytes([byte]))
    assert why in reason(events)


def test_bytes_behind_a_command_that_has_no_entry_are_refused() -> None:
    _, server = open_pair()
    ping = encode_command_frame(wire_pb2.CommandPing(), b"surprise")
    assert reason(server.receive(ping)) == "8 bytes behind a PING"


def test_a_send_without_an_entry_is_refused() -> None:
    _, server = open_pair()
    send = encode_command_frame(wire_pb2.CommandSend(producer_id=1, sequence_id=1))
    assert "entry of 0 bytes" in reason(server.receive(send))


def test_a_bad_checksum_is_reported_and_is_no_reason_to_hang_up() -> None:
    client, server = open_pair()
    client.send_entry(a_send(), build_entry(METADATA, b"hello")[:-1] + b"0")
    [sends] = server.receive(taken(client))
    assert isinstance(sends, Sends)
    assert not sends.sends[0].is_intact


def test_an_announced_size_sets_nothing_aside_beyond_the_limit() -> None:
    limit = 1 << 20
    tracemalloc.start()
    try:
        for size in (2**32 - 1, 2**31, frame_limit(limit) + 1):
            _, server = open_pair()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            assert "the limit is" in reason(server.receive(size.to_bytes(4, "big") + b"x"))
            assert tracemalloc.get_traced_memory()[1] - before < 100_000
        _, server = open_pair()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        server.receive(frame_limit(limit).to_bytes(4, "big"))
        for _ in range(100):
            server.receive(bytes(1000))
        assert tracemalloc.get_traced_memory()[1] - before < frame_limit(limit) + 100_000
    finally:
        tracemalloc.stop()


def test_a_stranger_may_announce_less_than_a_friend() -> None:
    server = Connection(Role.SERVER)
    assert server.frame_limit == HANDSHAKE_FRAME_LIMIT
    size = HANDSHAKE_FRAME_LIMIT + 1
    assert f"frame of {size} bytes" in reason(server.receive(size.to_bytes(4, "big")))


def test_an_operator_can_read_a_connection() -> None:
    _, server = open_pair()
    server.receive(bytes([0, 0]))
    assert repr(server) == "Connection(server, open, 2 bytes waiting)"
    assert repr(server.out) == "Outbox(0 bytes)"
