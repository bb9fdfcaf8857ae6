"""Topics, partitions and subscriptions."""

from __future__ import annotations

import time
from typing import Any

import click

from anabranch.cli.asking import (
    Asking,
    asking,
    namespace_elements,
    read_properties,
    table,
    topic_elements,
)
from anabranch.cli.policies import OF_TOPICS, add_policies
from anabranch.cli.quantities import SECONDS

MAX_LONG = 2**63 - 1


def elements(name: str) -> tuple[str, ...]:
    return ("persistent", *topic_elements(name))


def subscription(name: str, sub: str) -> tuple[str, ...]:
    return (*elements(name), "subscription", sub)


@click.group()
def topics() -> None:
    """Topics, partitions and subscriptions."""


add_policies(topics, OF_TOPICS, elements)


@topics.command("list")
@click.argument("namespace")
@asking
def list_topics(asked: Asking, namespace: str) -> None:
    """The topics of a namespace, with their partitions."""
    asked.show(asked.get("persistent", *namespace_elements(namespace)))


@topics.command("list-partitioned-topics")
@click.argument("namespace")
@asking
def list_partitioned_topics(asked: Asking, namespace: str) -> None:
    """The partitioned topics of a namespace."""
    asked.show(asked.get("persistent", *namespace_elements(namespace), "partitioned"))


@topics.command()
@click.argument("topic")
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="A property.")
@asking
def create(asked: Asking, topic: str, metadata: tuple[str, ...]) -> None:
    """Make a topic without partitions."""
    body = read_properties(metadata) or None
    asked.done(f"created topic {topic}", "PUT", *elements(topic), body=body)


@topics.command()
@click.argument("topic")
@click.option("-f", "--force", is_flag=True, help="Even if it is in use.")
@asking
def delete(asked: Asking, topic: str, force: bool) -> None:
    """Remove a topic and its messages."""
    asked.done(f"deleted topic {topic}", "DELETE", *elements(topic), query={"force": force})


@topics.command("create-partitioned-topic")
@click.argument("topic")
@click.option("-p", "--partitions", type=int, required=True)
@click.option("-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="A property.")
@asking
def create_partitioned_topic(
    asked: Asking, topic: str, partitions: int, metadata: tuple[str, ...]
) -> None:
    """Make a topic with partitions."""
    properties = read_properties(metadata)
    body: Any = {"partitions": partitions, "properties": properties} if properties else partitions
    path = (*elements(topic), "partitions")
    asked.done(f"created {topic} with {partitions} partitions", "PUT", *path, body=body)


@topics.command("update-partitioned-topic")
@click.argument("topic")
@click.option("-p", "--partitions", type=int, required=True)
@asking
def update_partitioned_topic(asked: Asking, topic: str, partitions: int) -> None:
    """Add partitions."""
    path = (*elements(topic), "partitions")
    asked.done(f"{topic} has {partitions} partitions", "POST", *path, body=partitions)


@topics.command("get-partitioned-topic-metadata")
@click.argument("topic")
@asking
def get_partitioned_topic_metadata(asked: Asking, topic: str) -> None:
    """How many partitions it has; 0: it is not partitioned."""
    asked.show(asked.get(*elements(topic), "partitions"))


@topics.command("delete-partitioned-topic")
@click.argument("topic")
@click.option("-f", "--force", is_flag=True, help="Even if it is in use.")
@asking
def delete_partitioned_topic(asked: Asking, topic: str, force: bool) -> None:
    """Remove a topic with its partitions."""
    path = (*elements(topic), "partitions")
    asked.done(f"deleted topic {topic}", "DELETE", *path, query={"force": force})


@topics.command()
@click.argument("topic")
@asking
def lookup(asked: Asking, topic: str) -> None:
    """The broker that serves it."""
    path = ("topic", "persistent", *topic_elements(topic))
    asked.show(asked.ask("GET", *path, root="/lookup/v2"))


# What goes on


@topics.command()
@click.argument("topic")
@asking
def stats(asked: Asking, topic: str) -> None:
    """What goes on in a topic."""
    _show_stats(asked, asked.get(*elements(topic), "stats"))


@topics.command("partitioned-stats")
@click.argument("topic")
@click.option("--per-partition", is_flag=True, help="Each of them, too.")
@asking
def partitioned_stats(asked: Asking, topic: str, per_partition: bool) -> None:
    """What goes on in all of its partitions."""
    found = asked.get(*elements(topic), "partitioned-stats", perPartition=per_partition)
    _show_stats(asked, found)


def _show_stats(asked: Asking, found: dict[str, Any]) -> None:
    if asked.as_json:
        asked.show(found)
        return
    plain = {key: value for key, value in found.items() if not isinstance(value, dict | list)}
    click.echo(table((), [list(pair) for pair in plain.items()]))
    names = ("producerName", "msgRateIn", "msgThroughputIn", "address")
    _show_rows("producers", names, found["publishers"])
    subs = [{"name": name, **each} for name, each in found["subscriptions"].items()]
    _show_rows(
        "subscriptions",
        ("name", "type", "msgBacklog", "msgRateOut", "unackedMessages", "msgDelayed"),
        subs,
    )
    consumers = [{"subscription": sub["name"], **each} for sub in subs for each in sub["consumers"]]
    _show_rows(
        "consumers",
        ("subscription", "consumerName", "msgRateOut", "availablePermits", "unackedMessages"),
        consumers,
    )
    parts = [{"partition": name, **each} for name, each in found.get("partitions", {}).items()]
    _show_rows("partitions", ("partition", "msgRateIn", "msgRateOut", "storageSize"), parts)


def _show_rows(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(f"\n{title}")
        click.echo(table(columns, [[row.get(name, "") for name in columns] for row in rows]))


@topics.command("stats-internal")
@click.argument("topic")
@asking
def stats_internal(asked: Asking, topic: str) -> None:
    """Its ledgers and cursors."""
    asked.show(asked.get(*elements(topic), "internalStats"))


@topics.command("last-message-id")
@click.argument("topic")
@asking
def last_message_id(asked: Asking, topic: str) -> None:
    """Its last message."""
    asked.show(asked.get(*elements(topic), "lastMessageId"))


# Subscriptions


@topics.command()
@click.argument("topic")
@asking
def subscriptions(asked: Asking, topic: str) -> None:
    """Its subscriptions."""
    asked.show(asked.get(*elements(topic), "subscriptions"))


SUB = click.option("-s", "--subscription", "sub", required=True)


@topics.command("create-subscription")
@click.argument("topic")
@SUB
@click.option(
    "-m",
    "--messageId",
    "start",
    default="latest",
    show_default=True,
    help="latest, earliest or ledger:entry.",
)
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE")
@asking
def create_subscription(
    asked: Asking, topic: str, sub: str, start: str, properties: tuple[str, ...]
) -> None:
    """Make a subscription."""
    body = {**read_message_id(start), "properties": read_properties(properties)}
    asked.done(f"created subscription {sub} on {topic}", "PUT", *subscription(topic, sub),
               body=body)  # fmt: skip


def read_message_id(text: str) -> dict[str, int]:
    named = {"latest": MAX_LONG, "earliest": -1}
    if text in named:
        return {"ledgerId": named[text], "entryId": named[text]}
    ledger, colon, entry = text.partition(":")
    if not (colon and ledger.isdecimal() and entry.isdecimal()):
        raise click.UsageError(f"{text!r} must be latest, earliest or ledger:entry")
    return {"ledgerId": int(ledger), "entryId": int(entry)}


@topics.command()
@click.argument("topic")
@SUB
@click.option("-f", "--force", is_flag=True, help="Even if it has consumers.")
@asking
def unsubscribe(asked: Asking, topic: str, sub: str, force: bool) -> None:
    """End a subscription."""
    path = subscription(topic, sub)
    asked.done(f"ended subscription {sub} on {topic}", "DELETE", *path, query={"force": force})


@topics.command()
@click.argument("topic")
@SUB
@click.option("-n", "--count", type=int, required=True)
@asking
def skip(asked: Asking, topic: str, sub: str, count: int) -> None:
    """Skip so many messages."""
    path = (*subscription(topic, sub), "skip", str(count))
    asked.done(f"skipped {count} messages of {sub}", "POST", *path)


@topics.command("clear-backlog")
@click.argument("topic")
@SUB
@asking
def clear_backlog(asked: Asking, topic: str, sub: str) -> None:
    """Skip everything that is not acknowledged."""
    path = (*subscription(topic, sub), "skip_all")
    asked.done(f"cleared the backlog of {sub}", "POST", *path)


@topics.command("expire-messages")
@click.argument("topic")
@SUB
@click.option("-t", "--expireTime", "older", type=SECONDS, required=True, help="Such as 10m.")
@asking
def expire_messages(asked: Asking, topic: str, sub: str, older: int) -> None:
    """Skip what is older than that."""
    path = (*subscription(topic, sub), "expireMessages", str(older))
    asked.done(f"expired messages of {sub} older than {older} s", "POST", *path)


@topics.command("expire-messages-all-subscriptions")
@click.argument("topic")
@click.option("-t", "--expireTime", "older", type=SECONDS, required=True, help="Such as 10m.")
@asking
def expire_messages_all_subscriptions(asked: Asking, topic: str, older: int) -> None:
    """Skip what is older than that, for all subscriptions."""
    path = (*elements(topic), "all_subscription", "expireMessages", str(older))
    asked.done(f"expired messages of {topic} older than {older} s", "POST", *path)


@topics.command("reset-cursor")
@click.argument("topic")
@SUB
@click.option("-t", "--time", "ago", type=SECONDS, help="To so long ago, such as 1h.")
@click.option("-m", "--messageId", "start", help="To earliest, latest or ledger:entry.")
@click.option("-e", "--exclude-reset-position", "excluded", is_flag=True, help="Behind it.")
@asking
def reset_cursor(
    asked: Asking, topic: str, sub: str, ago: int | None, start: str | None, excluded: bool
) -> None:
    """Move a subscription, back or forth."""
    if (ago is None) == (start is None):
        raise click.UsageError("one of --time and --messageId says where to")
    path = (*subscription(topic, sub), "resetcursor")
    if ago is not None:
        at_ms = int(time.time() * 1000) - ago * 1000
        asked.done(f"reset {sub} to {ago} s ago", "POST", *path, str(at_ms))
        return
    assert start is not None
    body = {**read_message_id(start), "isExcluded": excluded}
    asked.done(f"reset {sub} to {start}", "POST", *path, body=body)


# The life of the whole


@topics.command()
@click.argument("topic")
@asking
def terminate(asked: Asking, topic: str) -> None:
    """Take no more messages, for ever; says the last one."""
    asked.show(asked.ask("POST", *elements(topic), "terminate"))


@topics.command("partitioned-terminate")
@click.argument("topic")
@asking
def partitioned_terminate(asked: Asking, topic: str) -> None:
    """Let its partitions take no more messages, for ever."""
    asked.show(asked.ask("POST", *elements(topic), "terminate", "partitions"))


@topics.command()
@click.argument("topic")
@asking
def unload(asked: Asking, topic: str) -> None:
    """Unload it; clients come back by themselves."""
    asked.done(f"unloaded {topic}", "PUT", *elements(topic), "unload")


@topics.command()
@click.argument("topic")
@asking
def compact(asked: Asking, topic: str) -> None:
    """Compact it now; see compaction-status."""
    asked.done(f"compacting {topic}", "PUT", *elements(topic), "compaction")


@topics.command("compaction-status")
@click.argument("topic")
@asking
def compaction_status(asked: Asking, topic: str) -> None:
    """How its last compaction went."""
    asked.show(asked.get(*elements(topic), "compaction"))


@topics.command("get-properties")
@click.argument("topic")
@asking
def get_properties(asked: Asking, topic: str) -> None:
    """Its properties."""
    asked.show(asked.get(*elements(topic), "properties"))


@topics.command("update-properties")
@click.argument("topic")
@click.option("-p", "--property", "properties", multiple=True, required=True, metavar="KEY=VALUE")
@asking
def update_properties(asked: Asking, topic: str, properties: tuple[str, ...]) -> None:
    """Add properties, or change them."""
    body = read_properties(properties)
    asked.done(f"updated properties of {topic}", "PUT", *elements(topic), "properties", body=body)


@topics.command("remove-properties")
@click.argument("topic")
@click.option("-k", "--key", required=True)
@asking
def remove_properties(asked: Asking, topic: str, key: str) -> None:
    """Remove a property."""
    path = (*elements(topic), "properties")
    asked.done(f"removed property {key} of {topic}", "DELETE", *path, query={"key": key})
