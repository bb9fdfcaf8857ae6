"""A connection reads the same events from the same bytes, however they arrive, and survives any."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.protocol import wire_pb2
from anabranch.protocol.commands import CLASS_OF_KIND, encode_command_frame
from anabranch.protocol.connection import (
    Broken,
    Connection,
    Deliveries,
    Event,
    Receipts,
    Sends,
)
from anabranch.protocol.entries import build_entry
from anabranch.protocol.handshake import MAY_SAY, Role, State
from anabranch.protocol.message_ids import (
    Checkpoint,
    CheckpointKind,
    PlainId,
    SegmentedId,
    parse_checkpoint,
    parse_segmented_id,
)
from anabranch.protocol.topic_list_hash import topic_list_hash
from anabranch.protocol.wire_codec import Ack, Flow
from tests.protocol_facts import facts
from tests.protocol_messages import messages

MANY = settings(max_examples=60, deadline=None)


def flat(events: list[Event]) -> list[object]:
    out: list[object] = []
    for event in events:
        match event:
            case Sends(sends):
                out += [facts(send) for send in sends]
            case Receipts(receipts):
                out += [facts(receipt) for receipt in receipts]
            case Deliveries(deliveries):
                out += [facts(delivery) for delivery in deliveries]
            case Ack() | Flow():
                out.append(facts(event))
            case Broken(error):
                out.append(str(error))
            case _:
                out.append(event)
    return out


def opened(role: Role) -> Connection:
    connection = Connection(role, max_message_size=100_000)
    connection.state = State.OPEN
    return connection


@st.composite
def conversations(draw: st.DrawFn, speaker: Role) -> bytes:
    out = b""
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(MAY_SAY[speaker])))
        message = draw(messages(CLASS_OF_KIND[kind], depth=1))
        entry = b""
        if isinstance(message, wire_pb2.CommandSend | wire_pb2.CommandMessage):
            metadata = wire_pb2.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
            entry = build_entry(metadata, bytes(draw(st.sampled_from([0, 5, 40_000]))))
        out += encode_command_frame(message, entry)
    return out


@given(st.data(), st.sampled_from([Role.CLIENT, Role.SERVER]))
@MANY
def test_every_command_arrives_the_same_in_any_pieces(data: st.DataObject, role: Role) -> None:
    sent = data.draw(conversations(role.peer))
    whole = flat(opened(role).receive(sent))
    assert whole
    assert not any(isinstance(event, str) for event in whole), whole
    connection = opened(role)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    events: list[Event] = []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        events += connection.receive(sent[start:end])
    assert flat(events) == whole


@given(st.data(), st.sampled_from([Role.CLIENT, Role.SERVER]))
@MANY
def test_damage_ends_in_the_same_reason_in_any_pieces(data: st.DataObject, role: Role) -> None:
    sent = bytearray(data.draw(conversations(role.peer)))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, min(len(sent) - 1, 300)))] = data.draw(st.integers(0, 255))
    whole = flat(opened(role).receive(bytes(sent)))
    assert sum(isinstance(event, str) for event in whole) <= 1
    connection = opened(role)
    step = data.draw(st.sampled_from([1, 3, 17, 1000]))
    events: list[Event] = []
    for start in range(0, len(sent), step):
        events += connection.receive(sent[start : start + step])
    assert flat(events) == whole


@given(st.binary(max_size=300), st.sampled_from([Role.CLIENT, Role.SERVER]), st.booleans())
@MANY
def test_garbage_never_does_more_than_end_the_connection(
    data: bytes, role: Role, is_open: bool
) -> None:
    connection = opened(role) if is_open else Connection(role)
    events = connection.receive(data)
    broken = [event for event in events if isinstance(event, Broken)]
    assert len(broken) <= 1
    assert not broken or (connection.state is State.CLOSED and events[-1] is broken[0])


ids = st.builds(
    PlainId,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    partition=st.integers(-(2**31), 2**31 - 1),
    batch_index=st.integers(-(2**31), 2**31 - 1),
    batch_size=st.integers(-(2**31), 2**31 - 1),
)
segments = st.integers(-(2**63), 2**63 - 1)
positions = st.dictionaries(segments, ids, max_size=4)


@given(
    st.builds(
        SegmentedId,
        segments,
        ids,
        positions,
        st.none() | st.text(max_size=20),
        st.none() | st.dictionaries(st.text(max_size=10), positions, max_size=3),
    )
)
@MANY
def test_ids_survive_the_way_to_bytes_and_back(made: SegmentedId) -> None:
    again = parse_segmented_id(made.encode())
    assert again == made
    assert (again.positions, again.parent_topic, again.topics) == (
        made.positions,
        made.parent_topic,
        made.topics,
    )
    assert again.encode() == made.encode()


@given(positions, segments)
@MANY
def test_checkpoints_survive_the_way_to_bytes_and_back(
    where: dict[int, PlainId], time_ms: int
) -> None:
    for made in (
        Checkpoint(CheckpointKind.REGULAR, where),
        Checkpoint(CheckpointKind.TIME, time_ms=time_ms),
    ):
        assert parse_checkpoint(made.encode()) == made


@given(st.binary(max_size=120))
@MANY
def test_bytes_that_are_no_id_are_a_value_error(data: bytes) -> None:
    for parse in (parse_segmented_id, parse_checkpoint):
        try:
            parse(data)
        except ValueError as error:
            assert str(error)  # noqa: PT017


@given(st.lists(st.text(max_size=8), unique=True), st.randoms(use_true_random=False))
@MANY
def test_the_topic_list_hash_does_not_depend_on_order(names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert topic_list_hash(shuffled) == topic_list_hash(names)
    assert len(topic_list_hash(names)) == 8
