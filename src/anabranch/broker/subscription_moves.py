"""Moving subscriptions on an administrator's word: skip, expire, reset.

What only goes forward is acknowledged on behalf of the consumers, who may stay; a reset sends
them away first, as a seek of their own does. Each returns when it is durable.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.broker.subscription import Subscription
from anabranch.broker.topic import Topic
from anabranch.errors import AlreadyExists, InvalidInput, SubscriptionNotFound
from anabranch.storage.spans import LATEST
from anabranch.storage.trimming import decide_expiry
from anabranch.topics.positions import EARLIEST, Position

BEGINNING, END = EARLIEST, LATEST
MAX_NAME_BYTES = 1024


async def create_subscription(
    topic: Topic, name: str, start: Position, properties: Mapping[str, str]
) -> None:
    check_subscription_name(name)
    if name in topic.subscriptions:
        raise AlreadyExists(f"subscription {name!r} of {topic.name} exists already")
    await topic.open_subscription(name, start, properties=properties)


def check_subscription_name(name: str) -> None:
    if not name.strip():
        raise InvalidInput("a subscription needs a name")
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise InvalidInput(f"a subscription's name has at most {MAX_NAME_BYTES} bytes")
    if any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in name):
        raise InvalidInput(f"subscription {name!r} contains control characters")


def durable_subscription(topic: Topic, name: str) -> Subscription:
    found = topic.subscription(name)
    if not found.cursor.is_durable:
        raise SubscriptionNotFound(f"{name!r} on {topic.name} is a reader, not a subscription")
    return found


async def skip_all(subscription: Subscription) -> None:
    await _forward(subscription, subscription.ledger.last_confirmed)


async def skip(subscription: Subscription, entries: int) -> None:
    """The next so many that are not acknowledged; all of them, if there are fewer."""
    if entries < 0:
        raise InvalidInput(f"cannot skip {entries} messages")
    cursor = subscription.cursor
    if entries >= cursor.backlog:
        await skip_all(subscription)
        return
    position = cursor.mark_delete
    for _ in range(entries):
        found = cursor.next_unacked(position.next())
        if found is None:
            break
        position = found
    await _forward(subscription, position)


async def expire_older(subscription: Subscription, seconds: int, now_ms: int) -> bool:
    """Acknowledge what was published longer ago than that; whether there was anything."""
    if seconds < 0:
        raise InvalidInput(f"cannot expire messages of the last {seconds} seconds")
    ledger, cursor = subscription.ledger, subscription.cursor
    first_live = await ledger.find_by_time(now_ms - seconds * 1000, cursor.mark_delete)
    before = cursor.backlog
    mark = decide_expiry(cursor.mark_delete, first_live, ledger.spans())
    if not await _forward(subscription, mark):
        return False
    subscription.expired.record(subscription.now_seconds(), max(0, before - cursor.backlog), 0)
    return True


async def _forward(subscription: Subscription, through: Position) -> bool:
    if not subscription.cursor.acknowledge_cumulative(through):
        return False
    subscription.moved()
    await subscription.cursor.persist()
    return True


async def reset_to_time(subscription: Subscription, time_ms: int) -> None:
    """To the first message published then or later; to the end if there is none."""
    await subscription.seek(await subscription.ledger.find_by_time(time_ms) or LATEST)


async def reset_to_id(subscription: Subscription, position: Position, *, is_excluded: bool) -> None:
    spans = subscription.ledger.spans()
    if position not in (EARLIEST, LATEST):
        if not spans.start <= position <= spans.last.next():
            raise InvalidInput(
                f"{subscription.title}: {position} is not there; "
                f"entries go from {spans.first_from(EARLIEST)} to {spans.last}"
            )
        if is_excluded:
            position = position.next()
    await subscription.seek(position)
