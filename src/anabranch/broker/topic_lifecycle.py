"""Making and ending topics, partitioned or not, on an administrator's word.

A partitioned topic is a record and its partitions. The record comes first when it is made, and
goes last when it is deleted, so that whatever a crash leaves can be finished by asking again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from anabranch.broker.server import Broker
from anabranch.broker.topic import Topic
from anabranch.errors import (
    AlreadyExists,
    ConsumerBusy,
    NotAllowed,
    NotFound,
    NotSupported,
    ProducerBusy,
    TopicNotFound,
    Unprocessable,
)
from anabranch.topics.names import NamespaceName, TopicName

log = logging.getLogger(__name__)

# Properties that are the broker's own begin like this, and are nobody else's business.
OWN_PREFIX: Final = "anabranch."
# Topics worked on at the same time: enough for the store to write in groups.
AT_ONCE: Final = 32
T = TypeVar("T")
R = TypeVar("R")


async def create_topic(broker: Broker, name: TopicName, properties: Mapping[str, str]) -> None:
    catalogue = broker.catalogue
    await catalogue.namespaces.require(name.namespace)
    if await catalogue.partitioned.get(name.base) is not None and name.partition is None:
        raise AlreadyExists(f"{name} exists already, with partitions")
    await broker.catalogue.check_room(name, 1)
    await catalogue.topics.create(name, properties)
    log.info("topic created topic=%s", name)


async def create_partitions(
    broker: Broker, name: TopicName, count: int, properties: Mapping[str, str]
) -> None:
    catalogue = broker.catalogue
    await catalogue.namespaces.require(name.namespace)
    if await catalogue.topics.exists(name):
        raise AlreadyExists(f"{name} exists already, without partitions")
    await broker.catalogue.check_room(name, count)
    await catalogue.partitioned.create(name, count, properties)
    await _make_missing(broker, name, range(count))
    log.info("partitioned topic created topic=%s partitions=%d", name, count)


async def grow_partitions(broker: Broker, name: TopicName, count: int) -> None:
    catalogue = broker.catalogue
    found = await catalogue.partitioned.get(name)
    if found is None:
        if await catalogue.topics.exists(name):
            raise NotAllowed(f"{name} is not partitioned")
        raise TopicNotFound(f"topic {name} does not exist")
    if count < found.partitions:
        raise Unprocessable(
            f"{name} has {found.partitions} partitions and cannot have {count}: "
            f"partitions can only be added"
        )
    await broker.catalogue.check_room(name, count - found.partitions)
    await catalogue.partitioned.grow(name, count)
    # From the first: a growth that was interrupted is finished by asking again.
    await _make_missing(broker, name, range(count))
    log.info("partitions added topic=%s partitions=%d", name, count)


async def _make_missing(broker: Broker, name: TopicName, indexes: range) -> None:
    subscriptions = await _subscriptions_of_first(broker, name)
    partitions = [name.of_partition(each) for each in indexes]
    await for_each(partitions, lambda each: _make(broker, each))

    # A new partition must not lose, for a subscription that exists, what is sent to it at once.
    async def subscribe(partition: TopicName) -> None:
        topic = await broker.catalogue.open_topic(partition)
        for subscription in subscriptions:
            await topic.open_subscription(subscription)

    if subscriptions:
        await for_each(partitions, subscribe)


async def for_each(items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """A group at a time; the first failure ends it, after the rest of its group."""
    found: list[R] = []
    for start in range(0, len(items), AT_ONCE):
        group = [work(each) for each in items[start : start + AT_ONCE]]
        results = await asyncio.gather(*group, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            found.append(result)
    return found


async def _subscriptions_of_first(broker: Broker, name: TopicName) -> list[str]:
    first = name.of_partition(0)
    if not await broker.catalogue.topics.exists(first):
        return []
    topic = await broker.catalogue.topics.get(first)
    return [each.name for each in topic.subscriptions.values() if each.cursor.is_durable]


async def _make(broker: Broker, name: TopicName) -> None:
    try:
        await broker.catalogue.topics.create(name)
    except AlreadyExists:
        return


async def delete_topic(
    broker: Broker, name: TopicName, check: Callable[[Topic], None] | None = None
) -> None:
    """`check` may raise to refuse, such as `check_unused`."""
    catalogue = broker.catalogue
    if name.partition is None and await catalogue.partitioned.get(name) is not None:
        raise NotAllowed(f"{name} is partitioned; delete its partitions with it")
    await catalogue.topics.delete(name, check)
    if name.partition is None:
        await forget(broker, name)
    log.info("topic deleted topic=%s", name)


async def delete_partitions(broker: Broker, name: TopicName, *, force: bool) -> None:
    catalogue = broker.catalogue
    found = await catalogue.partitioned.get(name)
    if found is None:
        if await catalogue.topics.exists(name):
            raise NotAllowed(f"{name} is not partitioned")
        raise TopicNotFound(f"topic {name} does not exist")
    partitions = [name.of_partition(each) for each in range(found.partitions)]
    existing = [each for each in partitions if await catalogue.topics.exists(each)]
    if not force:
        for topic in await for_each(existing, catalogue.topics.get):
            check_unused(topic)
    await catalogue.partitioned.mark_deleted(name)
    await for_each(existing, lambda each: _delete_if_there(broker, each))
    await forget(broker, name)
    await catalogue.partitioned.delete(name)
    log.info("partitioned topic deleted topic=%s partitions=%d", name, found.partitions)


async def _delete_if_there(broker: Broker, name: TopicName) -> None:
    try:
        await broker.catalogue.topics.delete(name)
    except NotFound:
        return  # somebody else deletes it too


def check_unused(topic: Topic) -> None:
    """ProducerBusy or ConsumerBusy while it is in use, or has subscriptions."""
    if topic.producers:
        raise ProducerBusy(f"{topic.name} has {len(topic.producers)} producers")
    used = [each for each in topic.subscriptions.values() if each.consumers]
    if used:
        count = sum(len(each.consumers) for each in used)
        raise ConsumerBusy(f"{topic.name} has {count} consumers")
    durable = [each.name for each in topic.subscriptions.values() if each.cursor.is_durable]
    if durable:
        shown = ", ".join(sorted(durable)[:3])
        raise ConsumerBusy(f"{topic.name} has {len(durable)} subscriptions: {shown}")


async def forget(broker: Broker, name: TopicName) -> None:
    """What is kept of a topic beside itself: its policies and its schemas."""
    await broker.catalogue.topic_policies.delete(name)
    await broker.schemas.forget(name)


async def delete_namespace(broker: Broker, name: NamespaceName, *, force: bool) -> None:
    namespaces = broker.catalogue.namespaces
    if force:
        # Marked first, so that no topic is made behind our back.
        await namespaces.mark_deleted(name)
        await _delete_topics(broker, name)
    await namespaces.delete(name)
    log.info("namespace deleted namespace=%s", name)


async def _delete_topics(broker: Broker, name: NamespaceName) -> None:
    catalogue = broker.catalogue
    for topic in await catalogue.partitioned.of_namespace(name):
        await delete_partitions(broker, topic, force=True)
    for topic in await catalogue.topics.of_namespace(name):
        try:
            await delete_topic(broker, topic)
        except NotFound:
            continue


async def topics_under(broker: Broker, name: TopicName) -> list[TopicName]:
    """The topics that a name stands for: its partitions, or itself. TopicNotFound."""
    partitions = await partition_count(broker, name)
    if partitions:
        return [name.of_partition(each) for each in range(partitions)]
    return [name]


async def partition_count(broker: Broker, name: TopicName) -> int:
    """0 for a topic without partitions, which may be one itself. TopicNotFound."""
    catalogue = broker.catalogue
    if name.partition is None:
        found = await catalogue.partitioned.get(name)
        if found is not None:
            return found.partitions
    if not await catalogue.topics.exists(name) and not await _is_owed(broker, name):
        raise TopicNotFound(f"topic {name} does not exist")
    return 0


async def _is_owed(broker: Broker, name: TopicName) -> bool:
    """A partition that its record names, though nobody has used it yet."""
    if name.partition is None:
        return False
    found = await broker.catalogue.partitioned.get(name.base)
    return found is not None and name.partition < found.partitions


async def open_all(broker: Broker, name: TopicName) -> list[Topic]:
    return await for_each(
        await topics_under(broker, name),
        lambda each: broker.catalogue.open_topic(each, may_create=False),
    )


async def open_one(broker: Broker, name: TopicName) -> Topic:
    """NotSupported for a topic that has partitions: ask each of them."""
    found = await partition_count(broker, name)
    if found:
        raise NotSupported(f"{name} has {found} partitions; ask for {name}-partition-0 and so on")
    return await broker.catalogue.open_topic(name, may_create=False)


def public_properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if not key.startswith(OWN_PREFIX)}


async def load_properties(broker: Broker, name: TopicName) -> dict[str, str]:
    found = await broker.catalogue.partitioned.get(name) if name.partition is None else None
    if found is not None:
        return dict(found.properties)
    topic = await open_one(broker, name)
    return public_properties(topic.ledger.record.properties)


async def change_properties(
    broker: Broker, name: TopicName, *, add: Mapping[str, str], remove: Sequence[str] = ()
) -> None:
    """Merged into what is there; the broker's own stay as they are."""

    def changed(old: Mapping[str, str]) -> dict[str, str]:
        gone = {each for each in remove if not each.startswith(OWN_PREFIX)}
        kept = {key: text for key, text in old.items() if key not in gone}
        return kept | public_properties(add)

    if name.partition is None and await broker.catalogue.partitioned.get(name) is not None:
        await broker.catalogue.partitioned.update_properties(name, changed)
        return
    topic = await open_one(broker, name)
    await topic.ledger.update_properties(changed)
