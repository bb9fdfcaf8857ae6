"""Subscriptions of topics: making and ending them, and moving their position.

On a partitioned topic each of these is done on every partition, except what names a position or a
number of messages, which mean something in one partition only.
"""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import (
    AUTHORITATIVE,
    FLAG,
    FORCE,
    NAMES,
    STRINGS,
    Endpoint,
    Handler,
    Query,
    Schema,
    get,
)
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.broker import subscription_moves as moves
from anabranch.broker.subscription import Subscription
from anabranch.broker.topic import Topic
from anabranch.broker.topic_lifecycle import for_each, open_all, open_one
from anabranch.errors import (
    AlreadyExists,
    ConsumerBusy,
    InvalidInput,
    Malformed,
    NotAllowed,
    SubscriptionNotFound,
)
from anabranch.topics.json_fields import Fields
from anabranch.topics.positions import Position

PATH = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
ONE = f"{PATH}/subscription/{{subscription}}"
ID: Schema = {
    "type": "object",
    "properties": {
        "ledgerId": {"type": "integer"},
        "entryId": {"type": "integer"},
        "partitionIndex": {"type": "integer"},
        "batchIndex": {"type": "integer"},
        "isExcluded": {"type": "boolean"},
        "properties": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


async def list_subscriptions(admin: Admin, request: Request) -> Reply:
    topics = await open_all(admin.broker, request.topic)
    return Reply([*sorted({name for topic in topics for name in topic.subscriptions})])


async def _subscriptions(admin: Admin, request: Request) -> list[Subscription]:
    """One of each partition that has it; SubscriptionNotFound if none does."""
    name = request["subscription"]
    topics = await open_all(admin.broker, request.topic)
    found = [
        moves.durable_subscription(topic, name) for topic in topics if name in topic.subscriptions
    ]
    if not found:
        raise SubscriptionNotFound(f"no subscription {name!r} on {request.topic}")
    return found


async def create(admin: Admin, request: Request) -> Reply:
    name = request["subscription"]
    moves.check_subscription_name(name)
    if request.flag("replicated"):
        raise NotAllowed("replicated subscriptions need several clusters, and there is one here")
    position, properties = _read_start(request)
    topics = await open_all(admin.broker, request.topic)
    if all(name in topic.subscriptions for topic in topics):
        raise AlreadyExists(f"subscription {name!r} of {request.topic} exists already")
    for topic in topics:
        _check_room(topic, name)
    missing = [topic for topic in topics if name not in topic.subscriptions]
    await for_each(
        missing, lambda topic: moves.create_subscription(topic, name, position, properties)
    )
    return NO_CONTENT


def _check_room(topic: Topic, name: str) -> None:
    limit = topic.policies.max_subscriptions_per_topic
    if name not in topic.subscriptions and 0 < limit <= len(topic.subscriptions):
        raise InvalidInput(f"{topic.name} has {limit} subscriptions, its limit")


def _read_start(request: Request) -> tuple[Position, dict[str, str]]:
    raw = request.json()
    if raw is None:
        return moves.END, {}
    if isinstance(raw, str):
        return _named_start(raw), {}
    source = Fields(raw, "messageId", Malformed)
    properties = source.texts("properties")
    if not source.has("ledgerId"):
        return moves.END, properties
    position = Position(source.integer("ledgerId"), source.integer("entryId", -1))
    return (position.next() if source.optional_flag("isExcluded") else position), properties


def _named_start(text: str) -> Position:
    named = {"earliest": moves.BEGINNING, "latest": moves.END}
    if text not in named:
        raise Malformed(f"{text[:60]!r} is no message id; there are earliest and latest")
    return named[text]


async def delete(admin: Admin, request: Request) -> Reply:
    found = await _subscriptions(admin, request)
    if not request.flag("force"):
        for subscription in found:
            if subscription.consumers:
                raise ConsumerBusy(
                    f"{subscription.title} has {len(subscription.consumers)} consumers"
                )
    await for_each(found, lambda each: each.topic.delete_subscription(each.name))
    return NO_CONTENT


async def skip_all(admin: Admin, request: Request) -> Reply:
    await for_each(await _subscriptions(admin, request), moves.skip_all)
    return NO_CONTENT


async def skip(admin: Admin, request: Request) -> Reply:
    count = request.integer("count")
    topic = await open_one(admin.broker, request.topic)
    await moves.skip(moves.durable_subscription(topic, request["subscription"]), count)
    return NO_CONTENT


async def expire(admin: Admin, request: Request) -> Reply:
    seconds = request.integer("seconds")
    now_ms = admin.broker.world.clock.wall_ms()
    await for_each(
        await _subscriptions(admin, request),
        lambda each: moves.expire_older(each, seconds, now_ms),
    )
    return NO_CONTENT


async def expire_all(admin: Admin, request: Request) -> Reply:
    seconds = request.integer("seconds")
    now_ms = admin.broker.world.clock.wall_ms()
    for topic in await open_all(admin.broker, request.topic):
        for subscription in list(topic.subscriptions.values()):
            await moves.expire_older(subscription, seconds, now_ms)
    return NO_CONTENT


async def reset_to_time(admin: Admin, request: Request) -> Reply:
    time_ms = request.integer("timestamp")
    await for_each(
        await _subscriptions(admin, request), lambda each: moves.reset_to_time(each, time_ms)
    )
    return NO_CONTENT


async def reset_to_id(admin: Admin, request: Request) -> Reply:
    source = Fields(request.required_json(), "messageId", Malformed)
    position = Position(source.integer("ledgerId"), source.integer("entryId"))
    is_excluded = source.optional_flag("isExcluded") or False
    topic = await open_one(admin.broker, request.topic)
    subscription = moves.durable_subscription(topic, request["subscription"])
    await moves.reset_to_id(subscription, position, is_excluded=is_excluded)
    return NO_CONTENT


async def get_properties(admin: Admin, request: Request) -> Reply:
    found = await _subscriptions(admin, request)
    return Reply({**found[0].cursor.properties})


async def set_properties(admin: Admin, request: Request) -> Reply:
    properties = request.properties()
    await for_each(
        await _subscriptions(admin, request), lambda each: each.cursor.set_properties(properties)
    )
    return NO_CONTENT


async def clear_properties(admin: Admin, request: Request) -> Reply:
    await for_each(
        await _subscriptions(admin, request), lambda each: each.cursor.set_properties({})
    )
    return NO_CONTENT


def _post(suffix: str, handler: Handler, summary: str, body: Schema | None = None) -> Endpoint:
    is_required = body is not None
    return Endpoint(
        "POST", f"{ONE}/{suffix}", handler, summary, (AUTHORITATIVE,), body, is_required
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    get(f"{PATH}/subscriptions", list_subscriptions, "Its subscriptions", NAMES,
        query=(AUTHORITATIVE,)),
    Endpoint("PUT", ONE, create, "Make a subscription",
             (Query("replicated", FLAG), AUTHORITATIVE), {"anyOf": [ID, {"type": "string"}]},
             refusals=(404, 409)),
    Endpoint("DELETE", ONE, delete, "End a subscription", (FORCE, AUTHORITATIVE)),
    _post("skip_all", skip_all, "Skip everything"),
    _post("skip/{count}", skip, "Skip so many messages"),
    _post("expireMessages/{seconds}", expire, "Skip what is older than that"),
    Endpoint("POST", f"{PATH}/all_subscription/expireMessages/{{seconds}}", expire_all,
             "Skip what is older than that, for all subscriptions", (AUTHORITATIVE,)),
    _post("resetcursor/{timestamp}", reset_to_time, "Move it to a time, in milliseconds"),
    _post("resetcursor", reset_to_id, "Move it to a message", ID),
    get(f"{ONE}/properties", get_properties, "Its properties", STRINGS, query=(AUTHORITATIVE,)),
    Endpoint("PUT", f"{ONE}/properties", set_properties, "Set its properties", (AUTHORITATIVE,),
             STRINGS),
    Endpoint("DELETE", f"{ONE}/properties", clear_properties, "Remove its properties",
             (AUTHORITATIVE,)),
)  # fmt: skip
