"""Policies of namespaces and topics: the verbs get-, set- and remove-, written from a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from anabranch.cli.asking import Asking, asking
from anabranch.cli.quantities import BYTES, SECONDS

Elements = Callable[[str], tuple[str, ...]]
QUOTA_TYPES = ("destination_storage", "message_age")
QUOTA_ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")


@dataclass(frozen=True, slots=True)
class PolicyVerb:
    verb: str  # behind get-, set- and remove-
    element: str  # of the path
    options: Sequence[click.Option]
    body: Callable[..., Any]  # from the options to what is sent
    method: str = "POST"


def _number(verb: str, element: str, option: str, method: str = "POST") -> PolicyVerb:
    options = [click.Option([option, "value"], type=int, required=True)]
    return PolicyVerb(verb, element, options, lambda value: value, method)


def _seconds(verb: str, element: str, option: str) -> PolicyVerb:
    options = [click.Option([option, "value"], type=SECONDS, required=True, help="Such as 10m.")]
    return PolicyVerb(verb, element, options, lambda value: value)


def _enabled(verb: str, element: str) -> PolicyVerb:
    options = [click.Option(["-e/-d", "--enable/--disable", "value"], required=True)]
    return PolicyVerb(verb, element, options, lambda value: value)


RETENTION = PolicyVerb(
    "retention",
    "retention",
    [
        click.Option(["-s", "--size"], type=BYTES, required=True, help="Such as 10G; -1: all."),
        click.Option(["-t", "--time"], type=SECONDS, required=True, help="Such as 7d; -1: ever."),
    ],
    lambda size, time: {
        "retentionSizeInMB": size if size < 0 else -(-size // (1 << 20)),
        "retentionTimeInMinutes": time if time < 0 else -(-time // 60),
    },
)
INACTIVE = PolicyVerb(
    "inactive-topic-policies",
    "inactiveTopicPolicies",
    [
        click.Option(["-e/-d", "--enable-delete-while-inactive/--disable-delete-while-inactive",
                      "enabled"], required=True),
        click.Option(["-t", "--max-inactive-duration"], type=SECONDS, required=True),
        click.Option(["-m", "--delete-mode"], required=True, type=click.Choice(
            ["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"])),
    ],
    lambda enabled, max_inactive_duration, delete_mode: {
        "deleteWhileInactive": enabled,
        "maxInactiveDurationSeconds": max_inactive_duration,
        "inactiveTopicDeleteMode": delete_mode,
    },
)  # fmt: skip
PUBLISH_RATE = PolicyVerb(
    "publish-rate",
    "publishRate",
    [
        click.Option(["-m", "--msg-publish-rate", "messages"], type=int, default=-1),
        click.Option(["-b", "--byte-publish-rate", "size"], type=BYTES, default=-1),
    ],
    lambda messages, size: {
        "publishThrottlingRateInMsg": messages,
        "publishThrottlingRateInByte": size,
    },
)


def _dispatch_rate(verb: str, element: str) -> PolicyVerb:
    return PolicyVerb(
        verb,
        element,
        [
            click.Option(["-md", "--msg-dispatch-rate", "messages"], type=int, default=-1),
            click.Option(["-bd", "--byte-dispatch-rate", "size"], type=BYTES, default=-1),
            click.Option(["-dt", "--dispatch-rate-period", "period"], type=SECONDS, default=1),
        ],
        lambda messages, size, period: {
            "dispatchThrottlingRateInMsg": messages,
            "dispatchThrottlingRateInByte": size,
            "ratePeriodInSecond": period,
        },
    )


BOTH = (
    RETENTION,
    _seconds("message-ttl", "messageTTL", "--messageTTL"),
    INACTIVE,
    PUBLISH_RATE,
    _dispatch_rate("dispatch-rate", "dispatchRate"),
    _dispatch_rate("subscription-dispatch-rate", "subscriptionDispatchRate"),
)
OF_NAMESPACES = (
    *BOTH,
    _enabled("deduplication", "deduplication"),
    _number("max-producers-per-topic", "maxProducersPerTopic", "-p"),
    _number("max-consumers-per-topic", "maxConsumersPerTopic", "-c"),
    _number("max-consumers-per-subscription", "maxConsumersPerSubscription", "-c"),
    _number("max-subscriptions-per-topic", "maxSubscriptionsPerTopic", "-m"),
    _number("max-topics-per-namespace", "maxTopicsPerNamespace", "-t"),
    _number("max-unacked-messages-per-consumer", "maxUnackedMessagesPerConsumer", "-c"),
    _number("max-unacked-messages-per-subscription", "maxUnackedMessagesPerSubscription", "-c"),
    _number("compaction-threshold", "compactionThreshold", "-t", "PUT"),
    _number("subscription-expiration-time", "subscriptionExpirationTime", "-t"),  # minutes
    PolicyVerb(
        "auto-topic-creation",
        "autoTopicCreation",
        [
            click.Option(["-e/-d", "--enable/--disable", "enabled"], required=True),
            click.Option(
                ["-t", "--type", "kind"],
                type=click.Choice(["partitioned", "non-partitioned"]),
                default="non-partitioned",
            ),
            click.Option(["-n", "--num-partitions", "partitions"], type=int, default=0),
        ],
        lambda enabled, kind, partitions: {
            "allowAutoTopicCreation": enabled,
            "topicType": kind,
            "defaultNumPartitions": partitions,
        },
    ),
    PolicyVerb(
        "auto-subscription-creation",
        "autoSubscriptionCreation",
        [click.Option(["-e/-d", "--enable/--disable", "enabled"], required=True)],
        lambda enabled: {"allowAutoSubscriptionCreation": enabled},
    ),
    PolicyVerb(
        "schema-compatibility-strategy",
        "schemaCompatibilityStrategy",
        [click.Option(["-c", "--compatibility", "value"], required=True)],
        lambda value: value,
        "PUT",
    ),
)
OF_TOPICS = (
    *BOTH,
    _enabled("deduplication", "deduplicationEnabled"),
    _number("max-producers", "maxProducers", "-p"),
    _number("max-consumers", "maxConsumers", "-c"),
    _number("max-consumers-per-subscription", "maxConsumersPerSubscription", "-c"),
    _number("max-subscriptions", "maxSubscriptionsPerTopic", "-m"),
    _number("max-message-size", "maxMessageSize", "-m"),
    _number("max-unacked-messages-on-consumer", "maxUnackedMessagesOnConsumer", "-m"),
    _number("max-unacked-messages-on-subscription", "maxUnackedMessagesOnSubscription", "-m"),
    _number("compaction-threshold", "compactionThreshold", "-t"),
)


def add_policies(group: click.Group, verbs: Sequence[PolicyVerb], elements: Elements) -> None:
    for each in verbs:
        what = each.verb.replace("-", " ")
        name = click.Argument(["name"])
        applied = click.Option(["-ap", "--applied"], is_flag=True, help="What holds in the end.")
        _add(group, f"get-{each.verb}", f"Which {what} is set.", [name, applied],
             _getter(each, elements))  # fmt: skip
        _add(group, f"set-{each.verb}", f"Set {what}.", [name, *each.options],
             _setter(each, elements))  # fmt: skip
        _add(group, f"remove-{each.verb}", f"Unset {what}.", [name], _remover(each, elements))
    _add_quotas(group, elements)


def _add(
    group: click.Group,
    name: str,
    text: str,
    params: list[click.Parameter],
    call: Callable[..., Any],
) -> None:
    call.__doc__ = text
    command = click.command(name)(asking(call))
    command.params = [*params, *command.params]
    group.add_command(command)


def _getter(verb: PolicyVerb, elements: Elements) -> Callable[..., Any]:
    def get(asked: Asking, name: str, applied: bool) -> None:
        asked.show(asked.get(*elements(name), verb.element, applied=applied or None))

    return get


def _setter(verb: PolicyVerb, elements: Elements) -> Callable[..., Any]:
    def change(asked: Asking, name: str, **options: Any) -> None:
        body = verb.body(**options)
        path = (*elements(name), verb.element)
        asked.done(f"set {verb.verb} of {name}", verb.method, *path, body=body)

    return change


def _remover(verb: PolicyVerb, elements: Elements) -> Callable[..., Any]:
    def remove(asked: Asking, name: str) -> None:
        asked.done(f"removed {verb.verb} of {name}", "DELETE", *elements(name), verb.element)

    return remove


def _add_quotas(group: click.Group, elements: Elements) -> None:
    name = click.Argument(["name"])
    kind = click.Option(
        ["-t", "--type", "kind"], type=click.Choice(QUOTA_TYPES), default=QUOTA_TYPES[0]
    )
    options: list[click.Parameter] = [
        name,
        kind,
        click.Option(["-l", "--limit", "size"], type=BYTES, default=-1, help="Such as 10G."),
        click.Option(["-lt", "--limitTime", "time"], type=SECONDS, default=-1, help="Such as 1h."),
        click.Option(["-p", "--policy"], type=click.Choice(QUOTA_ACTIONS), required=True),
    ]

    def get(asked: Asking, name: str) -> None:
        asked.show(asked.get(*elements(name), "backlogQuotaMap"))

    def change(asked: Asking, name: str, kind: str, size: int, time: int, policy: str) -> None:
        body = {"limitSize": size, "limitTime": time, "policy": policy}
        asked.done(f"set backlog quota of {name}", "POST", *elements(name), "backlogQuota",
                   body=body, query={"backlogQuotaType": kind})  # fmt: skip

    def remove(asked: Asking, name: str, kind: str) -> None:
        asked.done(f"removed backlog quota of {name}", "DELETE", *elements(name), "backlogQuota",
                   query={"backlogQuotaType": kind})  # fmt: skip

    _add(group, "get-backlog-quotas", "Which backlog quotas are set.", [name], get)
    _add(group, "set-backlog-quota", "Set a backlog quota.", options, change)
    _add(group, "remove-backlog-quota", "Unset a backlog quota.", [name, kind], remove)
