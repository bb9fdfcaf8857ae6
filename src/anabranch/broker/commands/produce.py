"""Opening and closing producers."""

from __future__ import annotations

from collections.abc import Awaitable

from google.protobuf.message import Message

from anabranch.broker.openings import Opening
from anabranch.broker.producers import AccessMode, Producer
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.schemas.registry import SchemaRules
from anabranch.broker.schemas.schema_info import encode_version
from anabranch.broker.schemas.wire_form import schema_from_wire
from anabranch.broker.session import Handler, Session
from anabranch.broker.topic import Topic
from anabranch.errors import EncryptionRequired, NotAllowed
from anabranch.protocol import wire_pb2
from anabranch.topics.names import parse_topic_name
from anabranch.topics.positions import EARLIEST

NOTHING_SENT = -1


def producer(session: Session, command: wire_pb2.CommandProducer) -> Awaitable[None] | None:
    existing = session.producers.get(command.producer_id)
    is_open = existing is not None and not existing.is_finishing
    if existing is not None and is_open and existing.producer.epoch >= command.epoch:
        _succeed(session, command, existing, None)
        return None
    return _open(session, command, session.openings.begin("producer", command.producer_id))


async def _open(session: Session, command: wire_pb2.CommandProducer, opening: Opening) -> None:
    with opening:
        handle, version = await _let_in(session, command)
        session.producers[command.producer_id] = handle
    session.remember_open(command.producer_id)
    _succeed(session, command, handle, version)


async def _let_in(
    session: Session, command: wire_pb2.CommandProducer
) -> tuple[ProducerHandle, int | None]:
    topic = await session.broker.catalogue.open_topic(parse_topic_name(command.topic))
    if topic.policies.is_encryption_required and not command.encrypted:
        raise EncryptionRequired(f"{topic.name} takes encrypted messages only")
    version = await _admit_schema(session, topic, command)
    await _open_initial_subscription(topic, command)
    handle = _new_handle(session, topic, command)
    try:
        waiting = await topic.add_producer(handle)
        if waiting is not None:
            _succeed(session, command, handle, version, is_ready=False)
            await topic.promoted(waiting)
        topic.require_serving()
    except BaseException:
        # Also if the client went away meanwhile: what nobody uses must not keep others out.
        topic.remove_producer(handle)
        raise
    return handle, version


def _new_handle(
    session: Session, topic: Topic, command: wire_pb2.CommandProducer
) -> ProducerHandle:
    return ProducerHandle(
        session,
        topic,
        Producer(
            connection=session.number,
            id=command.producer_id,
            name=command.producer_name or _new_name(session),
            mode=AccessMode(command.producer_access_mode),
            epoch=command.epoch,
            topic_epoch=command.topic_epoch if command.HasField("topic_epoch") else None,
        ),
        {each.key: each.value for each in command.metadata},
        is_encrypted=command.encrypted,
    )


async def _admit_schema(
    session: Session, topic: Topic, command: wire_pb2.CommandProducer
) -> int | None:
    schema = schema_from_wire(command.schema) if command.HasField("schema") else None
    return await session.broker.schemas.admit_producer(topic.name, schema, rules_of(topic))


def rules_of(topic: Topic) -> SchemaRules:
    policies = topic.policies
    return SchemaRules(
        policies.schema_strategy, policies.is_schema_update_allowed, policies.is_schema_enforced
    )


async def _open_initial_subscription(topic: Topic, command: wire_pb2.CommandProducer) -> None:
    name = command.initial_subscription_name
    if not name or name in topic.subscriptions:
        return
    if not topic.policies.auto_subscription_creation.is_allowed:
        raise NotAllowed(f"subscription {name!r} of {topic.name} is not made on demand")
    await topic.open_subscription(name, EARLIEST)


def _new_name(session: Session) -> str:
    broker = session.broker
    return f"{broker.catalogue.cluster}-{broker.world.random.getrandbits(48):012x}"


def _succeed(
    session: Session,
    command: wire_pb2.CommandProducer,
    handle: ProducerHandle,
    version: int | None,
    *,
    is_ready: bool = True,
) -> None:
    known = handle.topic.deduplication
    answer = wire_pb2.CommandProducerSuccess(
        request_id=command.request_id,
        producer_name=handle.name,
        last_sequence_id=NOTHING_SENT if known is None else known.last_sequence_id(handle.name),
        schema_version=b"" if version is None else encode_version(version),
        producer_ready=is_ready,
    )
    if handle.producer.topic_epoch is not None:
        answer.topic_epoch = handle.producer.topic_epoch
    session.send(answer)


async def close_producer(session: Session, command: wire_pb2.CommandCloseProducer) -> None:
    session.openings.give_up("producer", command.producer_id)
    handle = session.producers.get(command.producer_id)
    if handle is not None:
        await handle.drain()
        if session.producers.get(command.producer_id) is handle:
            del session.producers[command.producer_id]
        handle.topic.remove_producer(handle)
    session.succeed(command.request_id)


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandProducer: producer,
    wire_pb2.CommandCloseProducer: close_producer,
}
