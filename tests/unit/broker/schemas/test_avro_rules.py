from __future__ import annotations

import json

import pytest

from anabranch.broker.schemas.avro_rules import (
    avro_obstacle,
    legacy_json_id,
    parse_avro,
    same_avro,
)
from anabranch.errors import InvalidInput
from tests.schema_examples import avro_field, avro_record

ID = avro_field("id", "int")
OLD_JSON = b'{"type": "object", "id": "urn:jsonschema:Order", "properties": {}}'


def test_added_field_without_default_cannot_be_read_from_old_data() -> None:
    obstacle = avro_obstacle(avro_record(ID, avro_field("price", "int")), avro_record(ID))
    assert obstacle is not None
    assert "reader_field_missing_default_value" in obstacle
    assert "price" in obstacle


def test_added_field_with_default_can_be_read_from_old_data() -> None:
    new = avro_record(ID, avro_field("price", "int", default=0))
    assert avro_obstacle(new, avro_record(ID)) is None


def test_removed_field_is_skipped_by_the_reader() -> None:
    assert avro_obstacle(avro_record(), avro_record(ID)) is None


@pytest.mark.parametrize(
    ("reader", "writer", "readable"),
    [
        ("long", "int", True),
        ("int", "long", False),
        ("double", "float", True),
        ("string", "bytes", True),
        (["null", "string"], "string", True),
        ("string", ["null", "string"], False),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False),
    ],
)
def test_types_promote_one_way(reader: object, writer: object, readable: bool) -> None:
    obstacle = avro_obstacle(
        avro_record(avro_field("f", reader)), avro_record(avro_field("f", writer))
    )
    assert (obstacle is None) == readable


def test_renamed_record_is_no_obstacle() -> None:
    assert avro_obstacle(avro_record(name="A"), avro_record(name="B")) is None


def test_renamed_enum_is_an_obstacle() -> None:
    one, other = (
        b'{"type": "enum", "name": "%s", "symbols": ["x"]}' % name for name in (b"A", b"B")
    )
    assert avro_obstacle(one, other) is not None


def test_recursive_records_are_compared_to_the_end() -> None:
    def tree(*more: dict[str, object]) -> bytes:
        return avro_record(avro_field("left", ["null", "Order"], default=None), *more)

    assert avro_obstacle(tree(), tree(ID)) is None
    assert avro_obstacle(tree(ID), tree()) is not None


def test_names_of_java_inner_classes_and_unknown_logical_types_are_taken() -> None:
    date = {"type": "int", "logicalType": "century"}
    parse_avro(avro_record(avro_field("d", date), name="Shop$Order"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"3",
        b"null",
        b"{}",
        b'{"type": "record", "name": "A", "fields": [3]}',
        b'{"type": "enum", "name": "E", "symbols": 3}',
        b'{"type": "fixed", "name": "F", "size": "x"}',
        b'{"type": ["null", 3]}',
        b'["null", "null"]',
        OLD_JSON,
    ],
)
def test_what_is_no_avro_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not an Avro schema"):
        parse_avro(data)


def test_bottomless_nesting_is_refused() -> None:
    data = b'{"type":"array","items":' * 5000 + b'"int"' + b"}" * 5000
    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse_avro(data)


def test_white_space_and_key_order_make_no_new_schema() -> None:
    record = json.loads(avro_record(ID))
    spaced = json.dumps(dict(reversed(record.items())), indent=4).encode()
    assert same_avro(avro_record(ID), spaced)


def test_a_default_of_one_is_not_a_default_of_true() -> None:
    one, true = (avro_record(avro_field("f", "int", default=each)) for each in (1, True))
    assert not same_avro(one, true)
    assert not same_avro(b"{", b"[")


def test_old_json_schema_is_known_by_its_id() -> None:
    assert legacy_json_id(OLD_JSON) == "urn:jsonschema:Order"
    assert legacy_json_id(b'{"type": "object"}') == ""


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"id": "x"}', b'{"type": "record", "fields": 3}'])
def test_other_texts_are_no_old_json_schema(data: bytes) -> None:
    assert legacy_json_id(data) is None
