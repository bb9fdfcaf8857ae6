"""Subscriptions: opening, closing, moving and asking about them."""

from __future__ import annotations

from collections.abc import Awaitable

from google.protobuf.message import Message

from anabranch.broker.commands.produce import rules_of
from anabranch.broker.consumer import NO_EPOCH, Consumer
from anabranch.broker.openings import Opening
from anabranch.broker.receivers import Receiver
from anabranch.broker.schemas.wire_form import schema_from_wire
from anabranch.broker.session import Handler, Session
from anabranch.broker.subscription import SHARED_TYPES, Subscription, SubType
from anabranch.broker.topic import Topic
from anabranch.errors import (
    ConsumerBusy,
    ConsumerNotFound,
    InvalidInput,
    NotAllowed,
    NotFound,
    SubscriptionNotFound,
)
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import locate, parse_metadata
from anabranch.storage.spans import LATEST
from anabranch.topics.names import parse_topic_name
from anabranch.topics.positions import EARLIEST, Position

_U64 = 2**64


def position_of(data: wire_pb2.MessageIdData) -> Position:
    """The wire's ids are unsigned; -1 is the earliest, the largest signed number the latest."""
    return Position(_signed(data.ledgerId), _signed(data.entryId))


def _signed(number: int) -> int:
    return number - _U64 if number >= _U64 // 2 else number


def subscribe(session: Session, command: wire_pb2.CommandSubscribe) -> Awaitable[None] | None:
    if command.consumer_id in session.consumers:
        session.succeed(command.request_id)
        return None
    _check(command)
    return _open(session, command, session.openings.begin("consumer", command.consumer_id))


def _check(command: wire_pb2.CommandSubscribe) -> None:
    if not command.subscription.strip():
        raise InvalidInput("a subscription needs a name")
    if command.replicate_subscription_state:
        raise NotAllowed("replicated subscriptions need several clusters, and there is one here")
    if command.read_compacted and command.subType in SHARED_TYPES:
        raise NotAllowed("compacted reads are for Exclusive and Failover subscriptions only")


async def _open(session: Session, command: wire_pb2.CommandSubscribe, opening: Opening) -> None:
    with opening:
        session.consumers[command.consumer_id] = await _attach(session, command)
    session.succeed(command.request_id)


async def _attach(session: Session, command: wire_pb2.CommandSubscribe) -> Consumer:
    topic = await session.broker.catalogue.open_topic(
        parse_topic_name(command.topic), may_create=command.force_topic_creation
    )
    kind = SubType.Name(command.subType)
    if kind not in topic.policies.subscription_types:
        raise NotAllowed(f"{topic.name} has no {kind} subscriptions, by policy")
    schema = schema_from_wire(command.schema) if command.HasField("schema") else None
    await session.broker.schemas.admit_consumer(
        topic.name,
        schema,
        rules_of(topic),
        topic_in_use=bool(topic.producers) or topic.ledger.first_position is not None,
    )
    subscription = await _subscription(session, topic, command)
    try:
        await _make_way(subscription, command)
        topic.require_serving(subscription)
        consumer = _new_consumer(session, topic, command)
        subscription.attach(consumer, command)
    except BaseException:
        topic.drop_if_not_durable(subscription)
        raise
    return consumer


async def _subscription(
    session: Session, topic: Topic, command: wire_pb2.CommandSubscribe
) -> Subscription:
    limit = topic.policies.max_subscriptions_per_topic
    if command.subscription not in topic.subscriptions and command.durable:
        if not topic.policies.auto_subscription_creation.is_allowed:
            raise SubscriptionNotFound(
                f"no subscription {command.subscription!r} on {topic.name}, "
                "and it is not made on demand"
            )
        if 0 < limit <= len(topic.subscriptions):
            raise NotAllowed(f"{topic.name} has {limit} subscriptions, its limit")
    return await topic.open_subscription(
        command.subscription,
        await _start_of(session, topic, command),
        is_durable=command.durable,
        properties={each.key: each.value for each in command.subscription_properties},
    )


async def _start_of(session: Session, topic: Topic, command: wire_pb2.CommandSubscribe) -> Position:
    if command.start_message_rollback_duration_sec > 0:
        seconds = command.start_message_rollback_duration_sec
        time_ms = session.broker.world.clock.wall_ms() - seconds * 1000
        return await topic.ledger.find_by_time(time_ms) or LATEST
    if command.HasField("start_message_id"):
        return position_of(command.start_message_id)
    earliest = wire_pb2.CommandSubscribe.InitialPosition.Earliest
    return EARLIEST if command.initialPosition == earliest else LATEST


async def _make_way(subscription: Subscription, command: wire_pb2.CommandSubscribe) -> None:
    """A holder whose connection is dead must not keep an exclusive subscription."""
    try:
        subscription.check(command)
    except ConsumerBusy:
        for holder in list(subscription.consumers.values()):
            if not await holder.session.is_alive():
                holder.session.cut("its subscription was taken over")
                subscription.detach(holder)
        subscription.check(command)
    limit = subscription.topic.policies.max_consumers_per_subscription
    if 0 < limit <= len(subscription.consumers):
        raise ConsumerBusy(f"{subscription.title} has {limit} consumers, its limit")
    limit = subscription.topic.policies.max_consumers_per_topic
    attached = sum(len(each.consumers) for each in subscription.topic.subscriptions.values())
    if 0 < limit <= attached:
        raise ConsumerBusy(f"{subscription.topic.name} has {limit} consumers, its limit")


def _new_consumer(session: Session, topic: Topic, command: wire_pb2.CommandSubscribe) -> Consumer:
    is_shared = command.subType in SHARED_TYPES
    receiver = Receiver(
        topic.next_consumer_id(),
        command.consumer_name or f"{session.broker.world.random.getrandbits(40):010x}",
        priority=command.priority_level,
        unacked_limit=topic.policies.max_unacked_per_consumer if is_shared else 0,
    )
    receiver.is_paused = session.is_congested
    receiver.is_paused = session.is_congested
    epoch = command.consumer_epoch if command.HasField("consumer_epoch") else NO_EPOCH
    return Consumer(
        session,
        command.consumer_id,
        receiver,
        epoch=NO_EPOCH if is_shared else epoch,
        metadata={each.key: each.value for each in command.metadata},
    )


def _attached(session: Session, consumer_id: int) -> tuple[Consumer, Subscription]:
    consumer = session.consumers.get(consumer_id)
    if consumer is None or consumer.subscription is None:
        raise NotFound(f"no consumer {consumer_id} on this connection")
    return consumer, consumer.subscription


def close_consumer(session: Session, command: wire_pb2.CommandCloseConsumer) -> None:
    session.openings.give_up("consumer", command.consumer_id)
    consumer = session.consumers.pop(command.consumer_id, None)
    if consumer is not None:
        session.detach(consumer)
    session.succeed(command.request_id)


async def unsubscribe(session: Session, command: wire_pb2.CommandUnsubscribe) -> None:
    consumer, subscription = _attached(session, command.consumer_id)
    if len(subscription.consumers) > 1 and not command.force:
        raise NotAllowed(f"{subscription.title} has other consumers")
    session.consumers.pop(command.consumer_id, None)
    subscription.detach(consumer)
    if subscription.name in subscription.topic.subscriptions:
        await subscription.topic.delete_subscription(subscription.name)
    session.succeed(command.request_id)


async def seek(session: Session, command: wire_pb2.CommandSeek) -> None:
    _, subscription = _attached(session, command.consumer_id)
    if command.HasField("message_id"):
        position = position_of(command.message_id)
    elif command.HasField("message_publish_time"):
        ledger = subscription.topic.ledger
        position = await ledger.find_by_time(command.message_publish_time) or LATEST
    else:
        raise InvalidInput("SEEK needs a message id or a publish time")
    await subscription.seek(position)
    session.succeed(command.request_id)


def redeliver(session: Session, command: wire_pb2.CommandRedeliverUnacknowledgedMessages) -> None:
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None or consumer.subscription is None:
        return
    ids = [position_of(each) for each in command.message_ids]
    epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
    consumer.subscription.redeliver(consumer, ids or None, epoch)


async def last_message_id(session: Session, command: wire_pb2.CommandGetLastMessageId) -> None:
    _, subscription = _attached(session, command.consumer_id)
    topic = subscription.topic
    answer = wire_pb2.CommandGetLastMessageIdResponse(request_id=command.request_id)
    last = topic.ledger.last_confirmed
    entries = []
    if last.entry >= 0:
        entries = await topic.ledger.read(last, max_entries=1, max_bytes=1)
    if entries:
        bounds = locate(entries[0].body)
        view = memoryview(entries[0].body)[bounds.metadata_start : bounds.payload_start]
        metadata = parse_metadata(view)
        is_batch = metadata.HasField("num_messages_in_batch")
        batch_index = metadata.num_messages_in_batch - 1 if is_batch else -1
    else:
        last, batch_index = EARLIEST, -1
    _fill_id(answer.last_message_id, last, topic.partition, batch_index)
    # A client that started at the end compares this with the last id; a cursor that is older than
    # the topic's first ledger stands just before that.
    mark = max(subscription.cursor.mark_delete, topic.ledger.spans().start)
    if mark.ledger >= 0:
        _fill_id(answer.consumer_mark_delete_position, mark, topic.partition, -1)
    session.send(answer)


def _fill_id(
    data: wire_pb2.MessageIdData, position: Position, partition: int, batch_index: int
) -> None:
    data.ledgerId, data.entryId = position.ledger % _U64, position.entry % _U64
    data.partition, data.batch_index = partition, batch_index


def consumer_stats(session: Session, command: wire_pb2.CommandConsumerStats) -> None:
    answer = wire_pb2.CommandConsumerStatsResponse(request_id=command.request_id)
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None or consumer.subscription is None:
        error = ConsumerNotFound(f"no consumer {command.consumer_id} on this connection")
        answer.error_code = wire_pb2.ServerError.ConsumerNotFound
        answer.error_message = str(error)
    else:
        _fill_stats(answer, session, consumer, consumer.subscription)
    session.send(answer)


def _fill_stats(
    answer: wire_pb2.CommandConsumerStatsResponse,
    session: Session,
    consumer: Consumer,
    subscription: Subscription,
) -> None:
    rate = subscription.meter.rate(session.broker.world.clock.monotonic())
    receiver = consumer.receiver
    answer.msgRateOut, answer.msgThroughputOut = rate.messages, rate.bytes
    answer.consumerName = consumer.name
    answer.availablePermits = max(0, receiver.permits)
    answer.unackedMessages = receiver.unacked
    answer.blockedConsumerOnUnackedMsgs = receiver.is_blocked
    answer.address = session.peer
    answer.connectedSince = str(consumer.connected_at_ms)
    answer.type = SubType.Name(subscription.kind or SubType.Exclusive)
    answer.msgBacklog = subscription.cursor.backlog


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandSubscribe: subscribe,
    wire_pb2.CommandCloseConsumer: close_consumer,
    wire_pb2.CommandUnsubscribe: unsubscribe,
    wire_pb2.CommandSeek: seek,
    wire_pb2.CommandRedeliverUnacknowledgedMessages: redeliver,
    wire_pb2.CommandGetLastMessageId: last_message_id,
    wire_pb2.CommandConsumerStats: consumer_stats,
}
