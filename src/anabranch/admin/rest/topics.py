"""Persistent topics: making and ending them, what goes on in them, and their properties."""

from __future__ import annotations

import asyncio

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import (
    AUTHORITATIVE,
    FLAG,
    FORCE,
    NAMES,
    OBJECT,
    STRINGS,
    TEXT,
    Endpoint,
    Query,
    Schema,
    get,
)
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.broker import topic_lifecycle
from anabranch.broker.topic_lifecycle import open_one
from anabranch.broker.topic_stats import (
    earliest_time_ms,
    internal_stats,
    message_id_json,
    topic_stats,
)
from anabranch.errors import NotFound

SPACE = "/admin/v2/persistent/{tenant}/{namespace}"
PATH = f"{SPACE}/{{topic}}"
STATS_QUERY = (
    Query("getPreciseBacklog", FLAG, "accepted; a backlog is always precise"),
    Query("subscriptionBacklogSize", FLAG, "accepted; it is always there"),
    Query("getEarliestTimeInBacklog", FLAG),
    Query("excludePublishers", FLAG),
    Query("excludeConsumers", FLAG),
    AUTHORITATIVE,
)


async def list_topics(admin: Admin, request: Request) -> Reply:
    await admin.catalogue.namespaces.require(request.namespace)
    found = await admin.catalogue.topics.of_namespace(request.namespace)
    return Reply([str(each) for each in found])


async def create_topic(admin: Admin, request: Request) -> Reply:
    await topic_lifecycle.create_topic(admin.broker, request.topic, request.properties())
    return NO_CONTENT


async def delete_topic(admin: Admin, request: Request) -> Reply:
    check = None if request.flag("force") else topic_lifecycle.check_unused
    await topic_lifecycle.delete_topic(admin.broker, request.topic, check)
    return NO_CONTENT


async def unload_topic(admin: Admin, request: Request) -> Reply:
    for name in await topic_lifecycle.topics_under(admin.broker, request.topic):
        try:
            await admin.catalogue.topics.unload(name)
        except NotFound:
            continue  # it was not loaded, and that is what was wanted
    return NO_CONTENT


async def get_stats(admin: Admin, request: Request) -> Reply:
    topic = await open_one(admin.broker, request.topic)
    stats = topic_stats(
        topic, owner=admin.broker_id, with_publishers=not request.flag("excludePublishers")
    )
    if request.flag("getEarliestTimeInBacklog"):
        for subscription in list(topic.subscriptions.values()):
            earliest = await earliest_time_ms(subscription)
            stats["subscriptions"][subscription.name]["earliestMsgPublishTimeInBacklog"] = earliest
    if request.flag("excludeConsumers"):
        for each in stats["subscriptions"].values():
            each["consumers"] = []
    return Reply(stats)


async def get_internal_stats(admin: Admin, request: Request) -> Reply:
    return Reply(internal_stats(await open_one(admin.broker, request.topic)))


async def get_last_message_id(admin: Admin, request: Request) -> Reply:
    topic = await open_one(admin.broker, request.topic)
    return Reply(message_id_json(topic.ledger.last_confirmed, topic.partition))


async def terminate(admin: Admin, request: Request) -> Reply:
    topic = await open_one(admin.broker, request.topic)
    return Reply(message_id_json(await topic.seal(), topic.partition))


async def get_properties(admin: Admin, request: Request) -> Reply:
    return Reply({**await topic_lifecycle.load_properties(admin.broker, request.topic)})


async def set_properties(admin: Admin, request: Request) -> Reply:
    added = request.properties()
    await topic_lifecycle.change_properties(admin.broker, request.topic, add=added)
    return NO_CONTENT


async def delete_property(admin: Admin, request: Request) -> Reply:
    removed = [request.text("key")]
    await topic_lifecycle.change_properties(admin.broker, request.topic, add={}, remove=removed)
    return NO_CONTENT


# Compaction


async def compact(admin: Admin, request: Request) -> Reply:
    """It goes on after the answer; the status says how it went."""
    for topic in await topic_lifecycle.open_all(admin.broker, request.topic):
        admin.start(topic.compacted.compact())
    # So that whoever asks next sees it running.
    await asyncio.sleep(0)
    return NO_CONTENT


async def get_compaction(admin: Admin, request: Request) -> Reply:
    topic = await open_one(admin.broker, request.topic)
    return Reply({"status": topic.compacted.state.value, "lastError": topic.compacted.error})


MESSAGE_ID: Schema = {"type": "object", "required": ["ledgerId", "entryId", "partitionIndex"]}
ENDPOINTS: tuple[Endpoint, ...] = (
    get(SPACE, list_topics, "The topics of a namespace", NAMES,
        query=(Query("bundle", TEXT), Query("includeSystemTopic", FLAG))),
    Endpoint("PUT", PATH, create_topic, "Make a topic without partitions", (AUTHORITATIVE,),
             STRINGS, refusals=(404, 409)),
    Endpoint("DELETE", PATH, delete_topic, "Remove a topic", (FORCE, AUTHORITATIVE),
             refusals=(404, 409)),
    Endpoint("PUT", f"{PATH}/unload", unload_topic, "Unload a topic", (AUTHORITATIVE,)),
    get(f"{PATH}/stats", get_stats, "What goes on in a topic", OBJECT, query=STATS_QUERY),
    get(f"{PATH}/internalStats", get_internal_stats, "Its ledgers and cursors", OBJECT,
        query=(AUTHORITATIVE, Query("metadata", FLAG))),
    get(f"{PATH}/lastMessageId", get_last_message_id, "Its last message", MESSAGE_ID,
        query=(AUTHORITATIVE,)),
    Endpoint("POST", f"{PATH}/terminate", terminate, "Take no more messages, for ever",
             (AUTHORITATIVE,), success=200, answer=MESSAGE_ID, refusals=(404, 405)),
    get(f"{PATH}/properties", get_properties, "Its properties", STRINGS, query=(AUTHORITATIVE,)),
    Endpoint("PUT", f"{PATH}/properties", set_properties, "Add properties", (AUTHORITATIVE,),
             STRINGS),
    Endpoint("DELETE", f"{PATH}/properties", delete_property, "Remove a property",
             (Query("key", TEXT), AUTHORITATIVE)),
    Endpoint("PUT", f"{PATH}/compaction", compact, "Compact a topic now", (AUTHORITATIVE,),
             refusals=(404, 409)),
    get(f"{PATH}/compaction", get_compaction, "How its last compaction went", OBJECT,
        query=(AUTHORITATIVE,)),
)  # fmt: skip
