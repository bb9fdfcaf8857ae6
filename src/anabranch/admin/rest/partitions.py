"""Partitioned topics."""

from __future__ import annotations

from typing import Any

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import (
    AUTHORITATIVE,
    FLAG,
    FORCE,
    NAMES,
    OBJECT,
    Endpoint,
    Query,
    get,
)
from anabranch.admin.messages import NO_CONTENT, Reply, Request, read_properties
from anabranch.broker import topic_lifecycle
from anabranch.broker.topic_lifecycle import for_each, open_all, partition_count
from anabranch.broker.topic_stats import message_id_json, sum_stats, topic_stats
from anabranch.errors import Malformed, NotSupported, TopicNotFound
from anabranch.topics.json_fields import Json, shown

SPACE = "/admin/v2/persistent/{tenant}/{namespace}"
PATH = f"{SPACE}/{{topic}}"
COUNT: dict[str, Json] = {
    "anyOf": [
        {"type": "integer"},
        {
            "type": "object",
            "required": ["partitions"],
            "properties": {
                "partitions": {"type": "integer"},
                "properties": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    ]
}


async def list_partitioned(admin: Admin, request: Request) -> Reply:
    await admin.catalogue.namespaces.require(request.namespace)
    found = await admin.catalogue.partitioned.of_namespace(request.namespace)
    return Reply([str(each) for each in sorted(found, key=str)])


async def create(admin: Admin, request: Request) -> Reply:
    count, properties = _read_count(request)
    await topic_lifecycle.create_partitions(admin.broker, request.topic, count, properties)
    return NO_CONTENT


async def grow(admin: Admin, request: Request) -> Reply:
    count, _ = _read_count(request)
    await topic_lifecycle.grow_partitions(admin.broker, request.topic, count)
    return NO_CONTENT


def _read_count(request: Request) -> tuple[int, dict[str, str]]:
    found = request.required_json()
    properties: dict[str, str] = {}
    if isinstance(found, dict):
        properties = read_properties(found.get("properties") or {})
        found = found.get("partitions")
    if not isinstance(found, int) or isinstance(found, bool):
        raise Malformed(f"expected a number of partitions, got {shown(found)}")
    return found, properties


async def get_metadata(admin: Admin, request: Request) -> Reply:
    name = request.topic
    found = await admin.catalogue.partitioned.get(name) if name.partition is None else None
    if found is not None:
        reply: dict[str, Json] = {"partitions": found.partitions}
        if found.properties:
            reply["properties"] = {**found.properties}
        return Reply(reply)
    may_create = request.flag("checkAllowAutoCreation")
    await admin.catalogue.namespaces.require(request.namespace)
    return Reply({"partitions": await admin.catalogue.partitions_of(name, may_create=may_create)})


async def delete(admin: Admin, request: Request) -> Reply:
    force = request.flag("force")
    await topic_lifecycle.delete_partitions(admin.broker, request.topic, force=force)
    return NO_CONTENT


async def get_stats(admin: Admin, request: Request) -> Reply:
    name = request.topic
    count = await partition_count(admin.broker, name)
    if not count:
        raise TopicNotFound(f"{name} is not partitioned")
    parts: dict[str, Any] = {
        str(topic.name): topic_stats(topic, owner=admin.broker_id)
        for topic in await open_all(admin.broker, name)
    }
    total = sum_stats(parts.values())
    total["metadata"] = {"partitions": count, "deleted": False}
    total["partitions"] = parts if request.flag("perPartition", default=True) else {}
    return Reply(total)


async def terminate(admin: Admin, request: Request) -> Reply:
    name = request.topic
    if not await partition_count(admin.broker, name):
        raise NotSupported(f"{name} is not partitioned")
    topics = await open_all(admin.broker, name)
    ends = await for_each(topics, lambda topic: topic.seal())
    pairs = zip(topics, ends, strict=True)
    return Reply(
        {str(topic.partition): message_id_json(end, topic.partition) for topic, end in pairs}
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    get(f"{SPACE}/partitioned", list_partitioned, "The partitioned topics of a namespace", NAMES),
    Endpoint("PUT", f"{PATH}/partitions", create, "Make a topic with partitions",
             (Query("createLocalTopicOnly", FLAG),), COUNT, True, refusals=(404, 409)),
    Endpoint("POST", f"{PATH}/partitions", grow, "Add partitions",
             (Query("updateLocalTopicOnly", FLAG), FORCE, AUTHORITATIVE), COUNT, True,
             refusals=(404, 409, 422)),
    get(f"{PATH}/partitions", get_metadata, "How many partitions it has", OBJECT,
        query=(Query("checkAllowAutoCreation", FLAG), AUTHORITATIVE), refusals=(404, 409)),
    Endpoint("DELETE", f"{PATH}/partitions", delete, "Remove it with its partitions",
             (FORCE, AUTHORITATIVE), refusals=(404, 409)),
    get(f"{PATH}/partitioned-stats", get_stats, "What goes on in all of its partitions", OBJECT,
        query=(Query("perPartition", FLAG), Query("getPreciseBacklog", FLAG),
               Query("subscriptionBacklogSize", FLAG), AUTHORITATIVE)),
    Endpoint("POST", f"{PATH}/terminate/partitions", terminate,
             "Let its partitions take no more messages, for ever", (AUTHORITATIVE,), success=200,
             answer=OBJECT, refusals=(404, 405)),
)  # fmt: skip
