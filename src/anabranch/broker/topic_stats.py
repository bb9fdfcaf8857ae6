"""What is going on in a topic, as the JSON of the admin API: pure functions of the live objects.

Rates are per second over the last minute; counters begin when the topic was loaded. Backlogs count
entries, as upstream's do: a batch is one. Null fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from anabranch.broker.consumer import Consumer
from anabranch.broker.key_shared import StickyRanges
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.rates import RateMeter
from anabranch.broker.shared_pump import SharedPump
from anabranch.broker.single_delivery import SingleDelivery
from anabranch.broker.subscription import Subscription, SubType
from anabranch.broker.topic import Topic
from anabranch.storage.trimming import backlog_bytes
from anabranch.topics.positions import Position

Stats = dict[str, Any]
ACCESS_MODES = ("Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing")


def topic_stats(topic: Topic, *, owner: str = "", with_publishers: bool = True) -> Stats:
    now = topic.clock.monotonic()
    subscriptions = {
        each.name: subscription_stats(each, now) for each in topic.subscriptions.values()
    }
    rate_out = [each.meter.rate(now) for each in topic.subscriptions.values()]
    waiting = [each for each in topic.producers.values() if topic.is_waiting(each)]
    publishers = [each for each in topic.producers.values() if each not in waiting]
    stats = {
        **_rates_in(topic.meter, now),
        "msgRateOut": sum(each.messages for each in rate_out),
        "msgThroughputOut": sum(each.bytes for each in rate_out),
        "bytesInCounter": topic.meter.total_bytes,
        "msgInCounter": topic.meter.total_messages,
        "bytesOutCounter": sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "msgOutCounter": sum(each["msgOutCounter"] for each in subscriptions.values()),
        "storageSize": storage_size(topic),
        "offloadedStorageSize": 0,
        "backlogSize": topic_backlog_bytes(topic),
        "publishers": [publisher_stats(each, now) for each in publishers]
        if with_publishers
        else [],
        "waitingPublishers": len(waiting),
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Disabled" if topic.deduplication is None else "Enabled",
        "nonContiguousDeletedMessagesRanges": 0,
        "ownerBroker": owner,
        "topicCreationTimeStamp": topic.created_at_ms,
        "lastPublishTimeStamp": topic.last_published_ms,
        "isTerminated": topic.is_sealed,
        "compaction": _compaction_stats(topic),
    }
    if topic.topic_epoch is not None:
        stats["topicEpoch"] = topic.topic_epoch
    return stats


def _compaction_stats(topic: Topic) -> Stats:
    current = topic.compacted.current
    return {
        "status": topic.compacted.state.value,
        "horizon": "" if current is None else str(current.horizon),
    }


def publisher_stats(handle: ProducerHandle, now_seconds: float) -> Stats:
    session = handle.session
    return {
        "accessMode": ACCESS_MODES[handle.producer.mode],
        **_rates_in(handle.meter, now_seconds),
        "producerId": handle.id,
        "producerName": handle.name,
        "address": session.peer,
        "connectedSince": shown_time(handle.connected_at_ms),
        "clientVersion": session.client_version,
        "metadata": dict(handle.metadata),
    }


def subscription_stats(subscription: Subscription, now_seconds: float) -> Stats:
    cursor, delivery = subscription.cursor, subscription.delivery
    rate = subscription.meter.rate(now_seconds)
    expired = subscription.expired
    backlog = cursor.backlog
    stats: Stats = {
        "msgRateOut": rate.messages,
        "msgThroughputOut": rate.bytes,
        "bytesOutCounter": subscription.meter.total_bytes,
        "msgOutCounter": subscription.meter.total_messages,
        "msgRateRedeliver": subscription.redelivered.rate(now_seconds).messages,
        "msgBacklog": backlog,
        "backlogSize": subscription_backlog_bytes(subscription),
        "msgBacklogNoDelayed": max(0, backlog - delayed_entries(subscription)),
        "msgDelayed": delayed_entries(subscription),
        "unackedMessages": unacked_messages(subscription),
        "blockedSubscriptionOnUnackedMsgs": is_blocked(subscription),
        "msgRateExpired": expired.rate(now_seconds).messages,
        "totalMsgExpired": expired.total_messages,
        "consumers": _consumers(subscription, now_seconds),
        "isDurable": cursor.is_durable,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
        "subscriptionProperties": dict(cursor.properties),
        "nonContiguousDeletedMessagesRanges": 0,
    }
    if subscription.kind is not None:
        stats["type"] = SubType.Name(subscription.kind)
    if isinstance(delivery, SingleDelivery) and delivery.active is not None:
        stats["activeConsumerName"] = delivery.active.name
    if subscription.kind == SubType.Key_Shared and isinstance(delivery, SharedPump):
        is_sticky = isinstance(delivery.delivery.owners, StickyRanges)
        stats["keySharedMode"] = "STICKY" if is_sticky else "AUTO_SPLIT"
    return stats


def _consumers(subscription: Subscription, now_seconds: float) -> list[Stats]:
    ranges = _hash_ranges(subscription)
    return [
        consumer_stats(subscription.consumers[key], now_seconds, ranges.get(key, []))
        for key in sorted(subscription.consumers)
    ]


def _hash_ranges(subscription: Subscription) -> dict[int, list[str]]:
    """Of a Key_Shared subscription, by consumer, as upstream writes them."""
    delivery = subscription.delivery
    owners = delivery.delivery.owners if isinstance(delivery, SharedPump) else None
    found: dict[int, list[str]] = {}
    for start, end, consumer in owners.owned() if owners is not None else ():
        found.setdefault(consumer, []).append(f"[{start}, {end}]")
    return found


def consumer_stats(consumer: Consumer, now_seconds: float, hash_ranges: list[str]) -> Stats:
    receiver, session = consumer.receiver, consumer.session
    rate = consumer.meter.rate(now_seconds)
    return {
        "consumerName": consumer.name,
        "availablePermits": receiver.permits,
        "unackedMessages": receiver.unacked,
        "blockedConsumerOnUnackedMsgs": receiver.is_blocked,
        "msgRateOut": rate.messages,
        "msgThroughputOut": rate.bytes,
        "bytesOutCounter": consumer.meter.total_bytes,
        "msgOutCounter": consumer.meter.total_messages,
        "messageAckRate": consumer.acked.rate(now_seconds).messages,
        "address": session.peer,
        "connectedSince": shown_time(consumer.connected_at_ms),
        "clientVersion": session.client_version,
        "keyHashRanges": hash_ranges,
        "metadata": dict(consumer.metadata),
    }


def delayed_entries(subscription: Subscription) -> int:
    delivery = subscription.delivery
    return len(delivery.delayed) if isinstance(delivery, SharedPump) else 0


def unacked_messages(subscription: Subscription) -> int:
    return sum(each.receiver.unacked for each in subscription.consumers.values())


def is_blocked(subscription: Subscription) -> bool:
    delivery = subscription.delivery
    return isinstance(delivery, SharedPump) and delivery.delivery.unacked.is_blocked


def storage_size(topic: Topic) -> int:
    return sum(each.size_bytes for each in topic.ledger.ledgers())


def subscription_backlog_bytes(subscription: Subscription) -> int:
    return backlog_bytes(subscription.ledger.ledgers(), subscription.cursor.mark_delete)


def topic_backlog_bytes(topic: Topic) -> int:
    """Of the subscription that is furthest behind."""
    durable = [each for each in topic.subscriptions.values() if each.cursor.is_durable]
    return max((subscription_backlog_bytes(each) for each in durable), default=0)


async def earliest_time_ms(subscription: Subscription) -> int:
    """When the oldest unacknowledged message was published; 0 without any."""
    cursor = subscription.cursor
    position = cursor.next_unacked(cursor.mark_delete.next())
    if position is None:
        return 0
    entries = await subscription.ledger.read(position, max_entries=1, max_bytes=1)
    return entries[0].time_ms if entries else 0


def internal_stats(topic: Topic) -> Stats:
    """How it is stored: ledgers and cursors."""
    ledger = topic.ledger
    ledgers = ledger.ledgers()
    spans = ledger.spans()
    current = topic.compacted.current
    return {
        "entriesAddedCounter": topic.meter.total_messages,
        "numberOfEntries": spans.total,
        "totalSize": storage_size(topic),
        "currentLedgerEntries": ledgers[-1].entries if ledgers else 0,
        "currentLedgerSize": ledgers[-1].size_bytes if ledgers else 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": str(ledger.last_confirmed),
        "state": "Terminated" if topic.is_sealed else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": each.ledger,
                "entries": each.entries,
                "size": each.size_bytes,
                "offloaded": False,
                "underReplicated": False,
            }
            for each in ledgers
        ],
        "cursors": {each.name: _cursor_stats(topic, each.name) for each in ledger.cursors.all()},
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1 if current is None else current.ledger,
            "entries": -1,
            "size": -1,
            "offloaded": False,
            "underReplicated": False,
        },
    }


def _cursor_stats(topic: Topic, name: str) -> Stats:
    cursor = topic.ledger.cursors.get(name)
    assert cursor is not None, name
    first = cursor.next_unacked(cursor.mark_delete.next())
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "persistedMarkDeletePosition": str(cursor.persisted_mark_delete),
        "readPosition": str(cursor.mark_delete.next() if first is None else first),
        "numberOfEntriesSinceFirstNotAckedMessage": cursor.backlog,
        "state": "Open",
        "active": name in topic.subscriptions and bool(topic.subscriptions[name].consumers),
        "properties": {},
        "cursorProperties": dict(cursor.properties),
    }


def message_id_json(position: Position, partition: int) -> Stats:
    return {"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": partition}


# Partitioned topics

_SUMMED = (
    "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "bytesInCounter",
    "msgInCounter", "bytesOutCounter", "msgOutCounter", "storageSize", "offloadedStorageSize",
    "backlogSize", "waitingPublishers",
)  # fmt: skip
_SUMMED_OF_SUBSCRIPTIONS = (
    "msgRateOut", "msgThroughputOut", "bytesOutCounter", "msgOutCounter", "msgRateRedeliver",
    "msgBacklog", "backlogSize", "msgBacklogNoDelayed", "msgDelayed", "unackedMessages",
    "msgRateExpired", "totalMsgExpired",
)  # fmt: skip


def sum_stats(parts: Iterable[Stats]) -> Stats:
    """Of all partitions together; a subscription is the same one in each of them."""
    found = list(parts)
    total: Stats = {name: sum(each[name] for each in found) for name in _SUMMED}
    seconds = total["msgRateIn"]
    total["averageMsgSize"] = total["msgThroughputIn"] / seconds if seconds else 0.0
    total["publishers"] = [each for part in found for each in part["publishers"]]
    total["subscriptions"] = _sum_subscriptions(found)
    total["replication"] = {}
    enabled = any(each["deduplicationStatus"] == "Enabled" for each in found)
    total["deduplicationStatus"] = "Enabled" if enabled else "Disabled"
    return total


def _sum_subscriptions(parts: list[Stats]) -> Stats:
    total: Stats = {}
    for part in parts:
        for name, stats in part["subscriptions"].items():
            if name not in total:
                total[name] = {**stats, "consumers": list(stats["consumers"])}
                continue
            there = total[name]
            for field in _SUMMED_OF_SUBSCRIPTIONS:
                there[field] += stats[field]
            there["consumers"] += stats["consumers"]
            if "type" in stats:
                there.setdefault("type", stats["type"])
    return total


def _rates_in(meter: RateMeter, now_seconds: float) -> Stats:
    rate = meter.rate(now_seconds)
    return {
        "msgRateIn": rate.messages,
        "msgThroughputIn": rate.bytes,
        "averageMsgSize": rate.bytes / rate.messages if rate.messages else 0.0,
    }


def shown_time(wall_ms: int) -> str:
    moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")
