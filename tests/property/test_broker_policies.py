"""Laws of policies: JSON loses nothing, and the nearest level that says something decides."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.config import KEYS, Config, load_config, read_config
from anabranch.broker.policies import (
    NOTHING_SET,
    SUBSCRIPTION_TYPES,
    EffectivePolicies,
    Policies,
    read_policies,
    resolve,
)
from anabranch.broker.policy_values import BacklogQuota, QuotaAction, QuotaKind
from anabranch.topics.autoscale_override import AutoScaleOverride
from anabranch.topics.json_fields import encode_json, parse_json

CLUSTER = "here"
small = st.integers(min_value=1, max_value=1000)
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "backlog_quotas": st.dictionaries(
        st.sampled_from(QuotaKind),
        st.builds(BacklogQuota, small, small, st.sampled_from(QuotaAction)),
    ),
    "subscription_types": st.sets(st.sampled_from(SUBSCRIPTION_TYPES), min_size=1).map(
        lambda found: tuple(sorted(found))
    ),
    "auto_scale": st.builds(AutoScaleOverride, max_segments=small),
    "unknown": st.dictionaries(st.sampled_from(["x", "y"]), small),
}


def value_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    if kind is bool:
        return st.booleans()
    if kind is int:
        return small
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    made = get_type_hints(kind)
    if kind.__name__ == "Persistence":
        return st.just(kind(3, 2, 1))
    return st.builds(kind, **{name: value_of(each) for name, each in made.items()})


def setting_of(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if name in _SPECIAL:
        return _SPECIAL[name] if name == "unknown" else st.none() | _SPECIAL[name]
    kind = next(each for each in get_args(hint) if each is not type(None))
    if get_args(kind):  # a mapping from cluster to rate
        rate = value_of(get_args(kind)[1])
        return st.none() | st.dictionaries(st.sampled_from([CLUSTER, "there"]), rate)
    return st.none() | value_of(kind)


policies = st.builds(
    Policies,
    **{name: setting_of(name, hint) for name, hint in get_type_hints(Policies).items()},
)


@settings(max_examples=60, deadline=None)
@given(policies)
def test_json_gives_back_the_policies(found: Policies) -> None:
    raw = parse_json(encode_json(found.to_json()), "policies")
    assert read_policies(raw, "policies") == (found, [])


@settings(max_examples=40, deadline=None)
@given(policies)
def test_nothing_set_changes_nothing(found: Policies) -> None:
    broker = EffectivePolicies()
    assert resolve(broker, cluster=CLUSTER) == broker
    once = resolve(broker, found, NOTHING_SET, cluster=CLUSTER)
    assert resolve(broker, NOTHING_SET, found, cluster=CLUSTER) == once
    assert resolve(broker, found, found, cluster=CLUSTER) == once


@settings(max_examples=60, deadline=None)
@given(policies, policies)
def test_two_levels_are_one_after_the_other(namespace: Policies, topic: Policies) -> None:
    broker = EffectivePolicies()
    below = resolve(broker, namespace, cluster=CLUSTER)
    both = resolve(broker, namespace, topic, cluster=CLUSTER)
    alone = resolve(below, topic, cluster=CLUSTER)
    # These three do not simply replace what lies below them.
    merged = {"max_message_bytes", "is_encryption_required", "is_schema_enforced"}
    for each in fields(EffectivePolicies):
        if each.name not in merged:
            assert getattr(both, each.name) == getattr(alone, each.name), each.name


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(KEYS)),
        st.one_of(small.map(str), st.sampled_from(["true", "5s", "2GiB", "30%", "x", "", "1e999"])),
        max_size=8,
    )
)
def test_configuration_is_read_or_every_wrong_key_is_named(values: dict[str, str]) -> None:
    config, problems = read_config("", [f"{name}={value}" for name, value in values.items()])
    for name, value in values.items():
        try:
            known = KEYS[name].read(value)
        except ValueError:
            assert any(f"{name}:" in each for each in problems), (name, value, problems)
        else:
            assert config.value_of(name) == known
    if not problems:
        table = config.to_table()
        assert load_config("", [f"{name}={value}" for name, value in table.items()]) == config


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_any_text_gives_problems_with_their_place_or_no_change(text: str, sets: list[str]) -> None:
    config, problems = read_config(text, sets)
    assert all(each.startswith(("config:", "--set ")) for each in problems)
    assert problems or config == Config()
