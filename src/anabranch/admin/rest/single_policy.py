"""Endpoints that read, set and unset one policy, written from a table.

A namespace and a topic have the same policies under paths that differ a little, so each of the two
has a table of its own and shares what is here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import AUTHORITATIVE, FLAG, Endpoint, Query, Schema, get
from anabranch.admin.messages import NO_CONTENT, Reply, Request, optional_reply
from anabranch.broker.policies import (
    SETTINGS,
    EffectivePolicies,
    Policies,
    parse_setting,
    with_setting,
)
from anabranch.broker.policy_json import write
from anabranch.broker.policy_values import BacklogQuota, QuotaKind
from anabranch.errors import InvalidInput, Malformed
from anabranch.topics.json_fields import Json

Change = Callable[[Policies], Policies]
LoadPolicies = Callable[[Admin, Request], Awaitable[Policies]]
LoadEffective = Callable[[Admin, Request], Awaitable[EffectivePolicies]]
ChangePolicies = Callable[[Admin, Request, Change], Awaitable[None]]

APPLIED = Query("applied", FLAG, "what holds, rather than what is set here")


@dataclass(frozen=True, slots=True)
class Level:
    """Where policies are set: how they are read, and how they are changed."""

    path: str
    load: LoadPolicies
    load_effective: LoadEffective
    change: ChangePolicies


@dataclass(frozen=True, slots=True)
class PolicyPath:
    element: str  # the last of the path
    setting: str  # the policy's JSON name
    body: Schema
    effective: str = ""  # the attribute of what holds, if it has another name
    method: str = "POST"
    is_by_cluster: bool = False  # set as one value, kept as a map by cluster
    in_query: str = ""  # a query parameter that may carry the value instead of the body


def policy_endpoints(level: Level, policy: PolicyPath) -> list[Endpoint]:
    path = f"{level.path}/{policy.element}"
    what = SETTINGS[policy.setting][0].replace("_", " ")
    query = (Query(policy.in_query, {}),) if policy.in_query else ()
    return [
        get(path, _getter(level, policy), f"Which {what} is set", query=(APPLIED, AUTHORITATIVE)),
        Endpoint(
            policy.method, path, _setter(level, policy), f"Set {what}", (*query, AUTHORITATIVE),
            policy.body, not query, refusals=(404, 405),
        ),
        Endpoint("DELETE", path, _remover(level, policy), f"Unset {what}", (AUTHORITATIVE,),
                 refusals=(404, 405)),
    ]  # fmt: skip


def _getter(level: Level, policy: PolicyPath) -> Any:
    attribute = SETTINGS[policy.setting][0]

    async def read(admin: Admin, request: Request) -> Reply:
        if request.flag("applied"):
            effective = await level.load_effective(admin, request)
            return Reply(write(getattr(effective, policy.effective or attribute)))
        value = getattr(await level.load(admin, request), attribute)
        if policy.is_by_cluster and value is not None:
            value = value.get(admin.catalogue.cluster)
        return optional_reply(None if value is None else write(value))

    return read


def _setter(level: Level, policy: PolicyPath) -> Any:
    async def change(admin: Admin, request: Request) -> Reply:
        raw = _value(request, policy)
        if policy.is_by_cluster:
            raw = {admin.catalogue.cluster: raw}
        value = parse_setting(policy.setting, raw)
        await level.change(
            admin, request, lambda policies: with_setting(policies, policy.setting, value)
        )
        return NO_CONTENT

    return change


def _value(request: Request, policy: PolicyPath) -> Json:
    if policy.in_query and (number := request.number(policy.in_query)) is not None:
        return number
    found = request.required_json()
    if policy.setting == "subscription_types_enabled" and isinstance(found, dict):
        raise Malformed("expected a list of subscription types")
    return found


def _remover(level: Level, policy: PolicyPath) -> Any:
    async def remove(admin: Admin, request: Request) -> Reply:
        await level.change(
            admin, request, lambda policies: with_setting(policies, policy.setting, None)
        )
        return NO_CONTENT

    return remove


# Backlog quotas: one map, set and unset entry by entry


def quota_endpoints(level: Level) -> list[Endpoint]:
    kind = Query("backlogQuotaType", {"type": "string", "enum": [k.value for k in QuotaKind]})

    async def read(admin: Admin, request: Request) -> Reply:
        if request.flag("applied"):
            effective = await level.load_effective(admin, request)
            quotas = {QuotaKind.SIZE: effective.size_quota, QuotaKind.AGE: effective.age_quota}
            return Reply(write(quotas))
        return Reply(write((await level.load(admin, request)).backlog_quotas or {}))

    async def change(admin: Admin, request: Request) -> Reply:
        key = _quota_kind(request)
        quota = parse_setting("backlog_quota_map", {key.value: request.required_json()})[key]
        await level.change(admin, request, lambda policies: _with_quota(policies, key, quota))
        return NO_CONTENT

    async def remove(admin: Admin, request: Request) -> Reply:
        key = _quota_kind(request)
        await level.change(admin, request, lambda policies: _with_quota(policies, key, None))
        return NO_CONTENT

    path = f"{level.path}/backlogQuota"
    return [
        get(f"{path}Map", read, "Which backlog quotas are set", {"type": "object"},
            query=(APPLIED, AUTHORITATIVE)),
        Endpoint("POST", path, change, "Set a backlog quota", (kind, AUTHORITATIVE),
                 {"type": "object"}, True, refusals=(404, 405)),
        Endpoint("DELETE", path, remove, "Unset a backlog quota", (kind, AUTHORITATIVE),
                 refusals=(404, 405)),
    ]  # fmt: skip


def _quota_kind(request: Request) -> QuotaKind:
    text = request.text("backlogQuotaType") or QuotaKind.SIZE.value
    try:
        return QuotaKind(text)
    except ValueError:
        known = ", ".join(each.value for each in QuotaKind)
        raise InvalidInput(f"backlogQuotaType is {text[:60]!r}; it can be {known}") from None


def _with_quota(policies: Policies, kind: QuotaKind, quota: BacklogQuota | None) -> Policies:
    quotas = {key: each for key, each in (policies.backlog_quotas or {}).items() if key != kind}
    if quota is not None:
        quotas[kind] = quota
    return with_setting(policies, "backlog_quota_map", quotas or None)
