from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from anabranch.broker.schemas.compatibility import (
    Strategy,
    check_consumer,
    check_evolution,
    check_well_formed,
    reading_obstacle,
    same_schema,
)
from anabranch.broker.schemas.schema_info import (
    KeyValueEncoding,
    SchemaInfo,
    SchemaType,
    key_value_schema,
)
from anabranch.errors import IncompatibleSchema, InvalidInput
from tests.schema_examples import (
    avro,
    avro_field,
    avro_record,
    plain,
    proto_field,
    proto_message,
    protobuf,
)

ID = avro_field("id", "int")
V1 = avro(ID)
# Reads V1, and V1 does not mind it: both ways.
V2_BOTH = avro(ID, avro_field("price", "int", default=0))
# V1 can read what this writes, this cannot read what V1 wrote.
V2_FORWARD = avro(ID, avro_field("price", "int"))
# Reads what V1 wrote, V1 cannot read this.
V2_BACKWARD = avro()
OLD_JSON = b'{"type": "object", "id": "urn:jsonschema:Order"}'
OTHER_OLD_JSON = b'{"type": "object", "id": "urn:jsonschema:Invoice"}'


def accepts(strategy: Strategy, live: list[SchemaInfo], new: SchemaInfo) -> bool:
    try:
        check_evolution(live, new, strategy)
    except IncompatibleSchema:
        return False
    return True


def readable(strategy: Strategy, live: list[SchemaInfo], schema: SchemaInfo) -> bool:
    try:
        check_consumer(live, schema, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize(
    ("strategy", "both", "forward", "backward"),
    [
        (Strategy.ALWAYS_COMPATIBLE, True, True, True),
        (Strategy.ALWAYS_INCOMPATIBLE, False, False, False),
        (Strategy.BACKWARD, True, False, True),
        (Strategy.BACKWARD_TRANSITIVE, True, False, True),
        (Strategy.FORWARD, True, True, False),
        (Strategy.FORWARD_TRANSITIVE, True, True, False),
        (Strategy.FULL, True, False, False),
        (Strategy.FULL_TRANSITIVE, True, False, False),
        (Strategy.UNDEFINED, True, False, False),
    ],
)
def test_strategy_decides_in_which_direction_schemas_must_be_readable(
    strategy: Strategy, both: bool, forward: bool, backward: bool
) -> None:
    assert accepts(strategy, [V1], V2_BOTH) == both
    assert accepts(strategy, [V1], V2_FORWARD) == forward
    assert accepts(strategy, [V1], V2_BACKWARD) == backward


@pytest.mark.parametrize("strategy", Strategy)
def test_first_schema_is_always_accepted(strategy: Strategy) -> None:
    assert accepts(strategy, [], V1)


@pytest.mark.parametrize("strategy", Strategy)
def test_the_same_schema_is_always_accepted(strategy: Strategy) -> None:
    assert accepts(strategy, [V1], V1)


def test_only_transitive_strategies_ask_all_versions() -> None:
    # Each step is fine, the first and the last do not go together.
    first = avro(avro_field("a", "int"))
    second = avro(avro_field("a", "int"), avro_field("b", "int", default=0))
    third = avro(avro_field("a", "int"), avro_field("b", "int"))
    assert accepts(Strategy.BACKWARD, [first, second], third)
    assert not accepts(Strategy.BACKWARD_TRANSITIVE, [first, second], third)
    assert accepts(Strategy.FORWARD, [third, second], first)
    assert not accepts(Strategy.FORWARD_TRANSITIVE, [third, second], first)
    assert not accepts(Strategy.FULL_TRANSITIVE, [first, second], third)


def test_reader_of_another_type_reads_nothing() -> None:
    assert reading_obstacle(V1, plain(SchemaType.STRING)) == "type AVRO is not the writer's STRING"
    assert reading_obstacle(plain(SchemaType.INT8), plain(SchemaType.INT8)) is None


@pytest.mark.parametrize("strategy", [each for each in Strategy if "ALWAYS" not in each.value])
def test_type_does_not_change(strategy: Strategy) -> None:
    with pytest.raises(IncompatibleSchema, match="AVRO, the new one STRING"):
        check_evolution([V1], plain(SchemaType.STRING), strategy)


def test_always_compatible_lets_even_the_type_change() -> None:
    assert accepts(Strategy.ALWAYS_COMPATIBLE, [V1], plain(SchemaType.STRING))


def test_primitives_of_one_type_are_one_schema() -> None:
    named = SchemaInfo(SchemaType.INT32, b"", "my number", {"a": "b"})
    assert same_schema(plain(SchemaType.INT32), named)
    assert not same_schema(plain(SchemaType.INT32), plain(SchemaType.INT64))


def test_the_null_that_python_clients_send_is_no_data() -> None:
    from_python = SchemaInfo(SchemaType.STRING, b"null", "STRING")
    check_well_formed(from_python)
    assert same_schema(from_python, plain(SchemaType.STRING))


@pytest.mark.parametrize("kind", [SchemaType.JSON, SchemaType.PROTOBUF])
def test_json_and_first_protobuf_follow_the_rules_of_avro(kind: SchemaType) -> None:
    old, new = avro(ID, kind=kind), avro(ID, avro_field("price", "int"), kind=kind)
    assert accepts(Strategy.FORWARD, [old], new)
    assert not accepts(Strategy.BACKWARD, [old], new)


def json_schema(data: bytes) -> SchemaInfo:
    return SchemaInfo(SchemaType.JSON, data)


def test_old_json_schemas_go_together_by_their_id() -> None:
    spaced = OLD_JSON.replace(b" ", b"  ")
    assert accepts(Strategy.FULL, [json_schema(OLD_JSON)], json_schema(spaced))
    assert not accepts(Strategy.FULL, [json_schema(OLD_JSON)], json_schema(OTHER_OLD_JSON))


def test_clients_may_move_between_the_old_and_the_new_form_of_json_schemas() -> None:
    new = json_schema(avro_record(ID))
    assert accepts(Strategy.FULL, [json_schema(OLD_JSON)], new)
    assert accepts(Strategy.FULL, [new], json_schema(OLD_JSON))


def test_protobuf_native_follows_field_numbers() -> None:
    old = protobuf(proto_message("Order", proto_field("name", 1)))
    renamed = protobuf(proto_message("Order", proto_field("title", 1), proto_field("x", 2)))
    changed = protobuf(
        proto_message("Order", proto_field("name", 1, FieldDescriptorProto.TYPE_INT32))
    )
    assert accepts(Strategy.FULL, [old], renamed)
    assert not accepts(Strategy.BACKWARD, [old], changed)
    assert accepts(Strategy.ALWAYS_COMPATIBLE, [old], changed)


def test_both_parts_of_a_key_value_must_be_readable() -> None:
    text = plain(SchemaType.STRING)
    old = key_value_schema(V1, text)
    assert accepts(Strategy.FULL, [old], key_value_schema(V2_BOTH, text))
    assert not accepts(Strategy.BACKWARD, [old], key_value_schema(V2_FORWARD, text))
    assert not accepts(Strategy.FULL, [old], key_value_schema(V1, plain(SchemaType.INT32)))
    swapped = key_value_schema(text, V1)
    with pytest.raises(IncompatibleSchema, match="value: reader_field_missing_default_value"):
        check_evolution([swapped], key_value_schema(text, V2_FORWARD), Strategy.BACKWARD)


def test_encoding_of_a_key_value_does_not_change() -> None:
    old, new = (
        key_value_schema(V1, V1, encoding)
        for encoding in (KeyValueEncoding.INLINE, KeyValueEncoding.SEPARATED)
    )
    assert not same_schema(old, new)
    with pytest.raises(IncompatibleSchema, match="encoding"):
        check_evolution([old], new, Strategy.FULL)


def test_consumer_must_read_the_latest_version() -> None:
    for strategy in (Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE):
        assert readable(strategy, [V2_FORWARD, V1], V2_BOTH)
        assert not readable(strategy, [V1], V2_FORWARD)


def test_consumer_must_read_all_versions_where_all_are_alike_by_promise() -> None:
    both = avro(ID, avro_field("price", "int", default=0))
    without_default = avro(ID, avro_field("price", "int"))
    for strategy in (Strategy.BACKWARD_TRANSITIVE, Strategy.FULL_TRANSITIVE):
        assert not readable(strategy, [V1, both], without_default)
        assert readable(strategy, [V1, both], both)
    assert readable(Strategy.FULL, [V1, both], without_default)


def test_consumer_of_another_type_or_of_no_schema_at_all_is_refused() -> None:
    assert not readable(Strategy.FULL, [V1], plain(SchemaType.STRING))
    assert not readable(Strategy.FULL, [], V1)
    assert not readable(Strategy.ALWAYS_INCOMPATIBLE, [V1], V2_BOTH)
    assert readable(Strategy.ALWAYS_INCOMPATIBLE, [V1], V1)
    assert readable(Strategy.ALWAYS_COMPATIBLE, [], plain(SchemaType.STRING))


@pytest.mark.parametrize(
    "schema",
    [
        SchemaInfo(SchemaType.AVRO, b"{"),
        SchemaInfo(SchemaType.AVRO, OLD_JSON),
        SchemaInfo(SchemaType.JSON, b'{"fields": []}'),
        SchemaInfo(SchemaType.PROTOBUF_NATIVE, b"{}"),
        SchemaInfo(SchemaType.STRING, b"x"),
        SchemaInfo(SchemaType.AVRO, b'["null", "string"]'),
        SchemaInfo(SchemaType.KEY_VALUE, b""),
        key_value_schema(SchemaInfo(SchemaType.AVRO, b"{"), plain(SchemaType.STRING)),
    ],
    ids=lambda schema: f"{schema.type.value}-{len(schema.data)}",
)
def test_data_must_be_what_the_type_says(schema: SchemaInfo) -> None:
    with pytest.raises(InvalidInput):
        check_well_formed(schema)


@pytest.mark.parametrize(
    "schema",
    [
        V1,
        json_schema(OLD_JSON),
        plain(SchemaType.LOCAL_DATE_TIME),
        key_value_schema(plain(SchemaType.BYTES), V1),
        SchemaInfo(SchemaType.EXTERNAL, b"anything"),
        protobuf(proto_message("Order")),
    ],
    ids=lambda schema: schema.type.value,
)
def test_well_formed_schemas_pass(schema: SchemaInfo) -> None:
    check_well_formed(schema)
