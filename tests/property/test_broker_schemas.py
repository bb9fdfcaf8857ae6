"""Laws of schema evolution, whatever the schemas."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.schemas.compatibility import (
    Strategy,
    check_consumer,
    check_evolution,
    check_well_formed,
    reading_obstacle,
    same_schema,
)
from anabranch.broker.schemas.registry import (
    SchemaRegistry,
    SchemaRules,
    find_version,
    live_versions,
    next_version,
)
from anabranch.broker.schemas.schema_info import (
    KeyValueEncoding,
    SchemaInfo,
    SchemaType,
    encode_version,
    key_value_schema,
    parse_key_value,
    parse_version,
)
from anabranch.broker.schemas.schema_record import StoredSchema, encode_stored, parse_stored
from anabranch.errors import IncompatibleSchema, InvalidInput, NotFound
from anabranch.topics.names import parse_topic_name
from tests.broker_records import memory_store
from tests.managed_world import ManualClock
from tests.schema_examples import avro_record, plain

TYPES = ("int", "long", "string", "bytes", "double", "boolean")
PRIMITIVES = [
    each for each in SchemaType if each.is_primitive and not each.is_absent and not each.is_auto
]


@st.composite
def avro_fields(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
    return [
        {"name": name, "type": ["null", draw(st.sampled_from(TYPES))], "default": None}
        if draw(st.booleans())
        else {"name": name, "type": draw(st.sampled_from(TYPES))}
        for name in names
    ]


avro_schemas = avro_fields().map(lambda each: SchemaInfo(SchemaType.AVRO, avro_record(*each)))
simple_schemas = avro_schemas | st.sampled_from(PRIMITIVES).map(plain)
key_values = st.builds(
    key_value_schema, simple_schemas, simple_schemas, st.sampled_from(KeyValueEncoding)
)
schemas = simple_schemas | key_values
strategies = st.sampled_from(Strategy)


def accepts(live: list[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> bool:
    try:
        check_evolution(live, new, strategy)
    except IncompatibleSchema:
        return False
    return True


def is_readable(live: list[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> bool:
    try:
        check_consumer(live, new, strategy)
    except IncompatibleSchema:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(schemas, strategies)
def test_a_schema_may_always_follow_itself(schema: SchemaInfo, strategy: Strategy) -> None:
    check_well_formed(schema)
    assert reading_obstacle(schema, schema) is None
    assert accepts([schema], schema, strategy)


@settings(max_examples=150, deadline=None)
@given(st.lists(schemas, min_size=1, max_size=4), schemas)
def test_full_is_backward_and_forward(live: list[SchemaInfo], new: SchemaInfo) -> None:
    for suffix in ("", "_TRANSITIVE"):
        full, backward, forward = (
            accepts(live, new, Strategy(name + suffix)) for name in ("FULL", "BACKWARD", "FORWARD")
        )
        assert full == (backward and forward)


@settings(max_examples=150, deadline=None)
@given(st.lists(avro_schemas, min_size=1, max_size=4), avro_schemas)
def test_transitive_is_the_same_asked_of_every_version(
    live: list[SchemaInfo], new: SchemaInfo
) -> None:
    for name in ("FULL", "BACKWARD", "FORWARD"):
        each = all(accepts([old], new, Strategy(name)) for old in live)
        assert accepts(live, new, Strategy(f"{name}_TRANSITIVE")) == each


@settings(max_examples=100, deadline=None)
@given(schemas, schemas)
def test_forward_is_backward_the_other_way_round(old: SchemaInfo, new: SchemaInfo) -> None:
    assert accepts([old], new, Strategy.FORWARD) == accepts([new], old, Strategy.BACKWARD)


@settings(max_examples=100, deadline=None)
@given(st.lists(schemas, min_size=1, max_size=3), schemas, strategies)
def test_a_producer_let_in_by_backward_could_also_consume(
    live: list[SchemaInfo], new: SchemaInfo, strategy: Strategy
) -> None:
    if "BACKWARD" in strategy.value or "FULL" in strategy.value:
        assert is_readable(live, new, strategy) or not accepts(live, new, strategy)


@settings(max_examples=100, deadline=None)
@given(schemas, st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_what_is_stored_comes_back(schema: SchemaInfo, number: int) -> None:
    assert parse_version(encode_version(number)) == number
    stored = parse_stored("/schemas/t/n/x/0000000007", encode_stored(schema, number))
    assert stored == StoredSchema(7, schema, number)
    if schema.type is SchemaType.KEY_VALUE:
        parts = parse_key_value(schema)
        assert key_value_schema(parts.key, parts.value, parts.encoding) == schema


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["record", "int", "A", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "name", "fields", "items", "symbols", "size", "aliases", "default", "values",
             "fileDescriptorSet", "rootMessageTypeName", "logicalType", "namespace", "order"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SchemaType), json_values.map(json.dumps).map(str.encode) | st.binary())
def test_hostile_data_is_refused_in_one_way(kind: SchemaType, data: bytes) -> None:
    schema = SchemaInfo(kind, data)
    try:
        check_well_formed(schema)
    except InvalidInput:
        return
    assert same_schema(schema, schema)
    assert accepts([schema], schema, Strategy.FULL_TRANSITIVE)


steps = st.lists(avro_schemas | st.just("delete") | st.just("forget"), max_size=12)
TOPIC = parse_topic_name("persistent://public/default/orders")


@settings(max_examples=40, deadline=None)
@given(steps, strategies)
def test_registry_answers_as_a_list_would(
    moves: list[SchemaInfo | str], strategy: Strategy
) -> None:
    """The model: versions are positions in a list that deletions only mark."""

    async def scenario() -> None:
        registry = SchemaRegistry(memory_store(), ManualClock())
        model: list[StoredSchema] = []
        now = ManualClock().wall_ms()
        for move in moves:
            live = live_versions(model)
            if move == "forget":
                await registry.forget(TOPIC)
                model.clear()
            elif isinstance(move, SchemaInfo):
                known = find_version(live, move)
                if known is None and not accepts([each.schema for each in live], move, strategy):
                    continue
                version = await registry.register(TOPIC, move, SchemaRules(strategy))
                assert version == (next_version(model) if known is None else known)
                if known is None:
                    model.append(StoredSchema(version, move, now))
            else:
                try:
                    version = await registry.delete(TOPIC)
                except NotFound:
                    assert not live
                    continue
                gone = SchemaInfo(SchemaType.NONE)
                model.append(StoredSchema(version, gone, now, is_deleted=True))
            assert await registry.history(TOPIC) == model
            assert [each.version for each in model] == list(range(len(model)))

    asyncio.run(scenario())
