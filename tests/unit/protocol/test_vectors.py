"""Known frames, built elsewhere with a standard encoder: we read them, and write the same content.

Encoders differ in the order of fields, so content is compared, not bytes.
"""

from __future__ import annotations

import pytest
from crc32c import crc32c

from anabranch.protocol import wire_pb2
from anabranch.protocol.batch_codec import decode_batch
from anabranch.protocol.commands import encode_command_frame, parse_command
from anabranch.protocol.entries import broker_block, build_entry, locate, parse_entry
from anabranch.protocol.frames import split_frame
from anabranch.protocol.wire_codec import Send, scan_sends

CONNECT = "000000220000001e0802121a0a0864656d6f2d312e3020152a046e6f6e655206080110014001"
CONNECTED = (
    "000000310000002d08031a290a1250756c73617220536572766572352e302e301015188080c002220c"
    "200128013001380140014801"
)
PING = "00000009000000050812920100"
PONG = "000000090000000508139a0100"
SEND = (
    "0000002d0000000808063204080110000e0119e95554000000120a017010001880d095ffbc3132046b657931"
    "68656c6c6f"
)
SEND_BATCH = (
    "000000520000000c0806320808011005180230060e012991ff7a0000001b0a017010051880d095ffbc315802"
    "c001068802aac0019002c8ff01"
    "0000000812026b311802400576310000000812026b3218034006763232"
)
BROKER_BLOCK = "0e02000000090881d095ffbc311007"
LOOKUP = "00000027000000230846b2041e08011218746f7069633a2f2f7075626c69632f64656661756c742f741801"
UPDATE = (
    "000000800000007c0847ba0477080112590800121f0800100018ffff03200038004880d095ffbc31608080016080"
    "800260808003"
    "1a1b0800121770756c7361723a2f2f6c6f63616c686f73743a36363530221770756c7361723a2f2f6c6f63616c"
    "686f73743a"
    "363635302a18746f7069633a2f2f7075626c69632f64656661756c742f74"
)
EVERY_FRAME = [CONNECT, CONNECTED, PING, PONG, SEND, SEND_BATCH, LOOKUP, UPDATE]


def command_of(frame: str) -> object:
    return parse_command(split_frame(bytes.fromhex(frame))[0]).message


@pytest.mark.parametrize("frame", EVERY_FRAME)
def test_what_we_write_for_a_known_frame_has_its_content(frame: str) -> None:
    data = bytes.fromhex(frame)
    command, entry = split_frame(data)
    message = parse_command(command).message
    again = encode_command_frame(message, entry)
    assert len(again) == len(data)
    assert parse_command(split_frame(again)[0]).message == message
    assert split_frame(again)[1] == entry


def test_connect() -> None:
    assert command_of(CONNECT) == wire_pb2.CommandConnect(
        client_version="demo-1.0",
        auth_method_name="none",
        protocol_version=21,
        feature_flags=wire_pb2.FeatureFlags(
            supports_auth_refresh=True,
            supports_broker_entry_metadata=True,
            supports_scalable_topics=True,
        ),
    )


def test_connected() -> None:
    assert command_of(CONNECTED) == wire_pb2.CommandConnected(
        server_version="Pulsar Server5.0.0",
        protocol_version=21,
        max_message_size=5242880,
        feature_flags=wire_pb2.FeatureFlags(
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
            supports_repl_dedup_by_lid_and_eid=True,
            supports_topic_watcher_reconcile=True,
            supports_scalable_topics=True,
            supports_tc_metadata_discovery=True,
        ),
    )


def test_ping_and_pong() -> None:
    assert encode_command_frame(wire_pb2.CommandPing()).hex() == PING
    assert encode_command_frame(wire_pb2.CommandPong()).hex() == PONG


def test_send() -> None:
    command, entry_bytes = split_frame(bytes.fromhex(SEND))
    assert parse_command(command).message == wire_pb2.CommandSend(producer_id=1, sequence_id=0)
    entry = parse_entry(entry_bytes)
    assert entry.metadata == wire_pb2.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1700000000000, partition_key="key1"
    )
    assert bytes(entry.payload) == b"hello"
    assert entry.is_intact
    assert locate(entry_bytes).claimed == 0x19E95554
    assert build_entry(entry.metadata, b"hello") == entry_bytes


def test_send_by_the_fast_path() -> None:
    sends: list[Send] = []
    window = bytes.fromhex(SEND + SEND_BATCH)
    assert scan_sends(window, 0, 1 << 20, sends) == len(window)
    single, batch = sends
    assert (single.checksum, single.is_intact, single.batch_size) == (0x19E95554, True, -1)
    assert single.publish_time_ms == 1700000000000
    assert (batch.checksum, batch.is_intact, batch.batch_size) == (0x2991FF7A, True, 2)
    assert (batch.sequence_id, batch.highest_sequence_id, batch.num_messages) == (5, 6, 2)


def test_send_of_a_batch() -> None:
    command, entry_bytes = split_frame(bytes.fromhex(SEND_BATCH))
    assert parse_command(command).message == wire_pb2.CommandSend(
        producer_id=1, sequence_id=5, num_messages=2, highest_sequence_id=6
    )
    entry = parse_entry(entry_bytes)
    assert entry.is_intact
    assert (entry.metadata.entry_hash_min, entry.metadata.entry_hash_max) == (0x602A, 0x7FC8)
    messages = decode_batch(bytes(entry.payload), entry.metadata.num_messages_in_batch)
    assert [(m.key, m.payload, m.sequence_id) for m in messages] == [
        ("k1", b"v1", 5),
        ("k2", b"v22", 6),
    ]


def test_broker_entry_block() -> None:
    block = broker_block(1700000000001, 7)
    assert block.hex() == BROKER_BLOCK
    entry = parse_entry(block + bytes.fromhex(SEND)[16:])
    assert entry.broker_metadata == wire_pb2.BrokerEntryMetadata(
        broker_timestamp=1700000000001, index=7
    )
    assert entry.is_intact
    assert bytes(entry.payload) == b"hello"


def test_scalable_topic_lookup() -> None:
    assert command_of(LOOKUP) == wire_pb2.CommandScalableTopicLookup(
        session_id=1, topic="topic://public/default/t", create_if_missing=True
    )


def test_scalable_topic_update() -> None:
    url = "pulsar://localhost:6650"
    segment = wire_pb2.SegmentInfoProto(
        segment_id=0,
        hash_start=0,
        hash_end=0xFFFF,
        state=wire_pb2.ACTIVE,
        created_at_epoch=0,
        created_at_ms=1700000000000,
        entry_bucket_splits=[0x4000, 0x8000, 0xC000],
    )
    assert command_of(UPDATE) == wire_pb2.CommandScalableTopicUpdate(
        session_id=1,
        dag=wire_pb2.ScalableTopicDAG(
            epoch=0,
            segments=[segment],
            segment_brokers=[wire_pb2.SegmentBrokerAddress(segment_id=0, broker_url=url)],
            controller_broker_url=url,
        ),
        resolved_topic_name="topic://public/default/t",
    )


def test_checksum_is_the_castagnoli_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
