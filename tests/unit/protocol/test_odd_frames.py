from __future__ import annotations

import pytest
from crc32c import crc32c

from anabranch.errors import RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import broker_block, build_entry
from anabranch.protocol.odd_frames import ack_of, id_of, send_of, signed

METADATA = wire_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=11)


@pytest.mark.parametrize(
    ("wire", "ours"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)]
)
def test_numbers_are_signed_as_in_java(wire: int, ours: int) -> None:
    assert signed(wire) == ours


def test_a_replicated_send_keeps_where_it_came_from() -> None:
    command = wire_pb2.CommandSend(producer_id=1, sequence_id=2**64 - 1)
    command.message_id.ledgerId, command.message_id.entryId = 5, 6
    send = send_of(command, memoryview(build_entry(METADATA, b"x")))
    assert send.source is not None
    assert (send.source.ledger, send.source.entry, send.sequence_id) == (5, 6, -1)
    assert (send.publish_time_ms, send.batch_size) == (11, -1)


def test_an_entry_without_a_checksum_is_given_one_over_all_of_it() -> None:
    command = wire_pb2.CommandSend(producer_id=1, sequence_id=2)
    bare = broker_block(1, 2) + build_entry(METADATA, b"x", with_checksum=False)
    send = send_of(command, memoryview(bare))
    assert (send.prefix, send.checksum, send.is_intact) == (0, crc32c(bare), True)


def test_an_entry_that_is_no_entry_is_the_peers_fault() -> None:
    command = wire_pb2.CommandSend(producer_id=1, sequence_id=2)
    with pytest.raises(RemoteProtocolError, match="metadata of"):
        send_of(command, memoryview(b"\x00\x00\x00\xff"))


def test_the_first_chunk_of_an_id_is_kept() -> None:
    data = wire_pb2.MessageIdData(ledgerId=1, entryId=2)
    data.first_chunk_message_id.ledgerId, data.first_chunk_message_id.entryId = 1, 1
    found = id_of(data)
    assert found.first_chunk is not None
    assert found.first_chunk.entry == 1


def test_half_a_transaction_id_is_a_transaction() -> None:
    ack = ack_of(wire_pb2.CommandAck(consumer_id=1, ack_type="Individual", txnid_most_bits=3))
    assert (ack.has_txn, ack.txn_most, ack.txn_least) == (True, 3, 0)
