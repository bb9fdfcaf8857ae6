from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.broker.schemas.schema_info import (
    MAX_PROPERTIES_BYTES,
    MAX_SCHEMA_BYTES,
    KeyValueEncoding,
    SchemaInfo,
    SchemaType,
    check_size,
    encode_version,
    key_value_schema,
    parse_key_value,
    parse_schema_type,
    parse_version,
)
from anabranch.errors import InvalidInput
from tests.schema_examples import avro, avro_field, plain

TEXT = plain(SchemaType.STRING)


def test_version_is_eight_bytes_big_endian() -> None:
    assert encode_version(258) == b"\0\0\0\0\0\0\1\2"
    assert parse_version(encode_version(258)) == 258


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 9])
def test_version_of_another_length_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="8 bytes"):
        parse_version(data)


def test_type_is_known_by_its_rest_name_in_any_case() -> None:
    assert parse_schema_type("key_value") is SchemaType.KEY_VALUE


def test_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"THRIFT.*PROTOBUF_NATIVE"):
        parse_schema_type("THRIFT")


@pytest.mark.parametrize("kind", SchemaType)
def test_every_type_is_of_one_nature(kind: SchemaType) -> None:
    with_data = kind in (SchemaType.KEY_VALUE, SchemaType.PROTOBUF_NATIVE, SchemaType.EXTERNAL)
    assert [kind.is_auto, kind.is_avro_based, kind.is_primitive, with_data].count(True) == 1


@pytest.mark.parametrize("encoding", KeyValueEncoding)
def test_key_value_gives_back_its_parts(encoding: KeyValueEncoding) -> None:
    value = replace(avro(avro_field("id")), properties={"jsr310": "true"})
    parts = parse_key_value(key_value_schema(TEXT, value, encoding))
    assert (parts.key, parts.value, parts.encoding) == (TEXT, value, encoding)


def test_key_value_without_properties_is_bytes_inline() -> None:
    parts = parse_key_value(SchemaInfo(SchemaType.KEY_VALUE, b"\xff\xff\xff\xff\0\0\0\0"))
    assert parts.key.type is parts.value.type is SchemaType.BYTES
    assert parts.key.data == parts.value.data == b""
    assert parts.encoding is KeyValueEncoding.INLINE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "before the length of its key"),
        (b"\0\0\0\2a", "its key has 2 bytes, 1 are there"),
        (b"\0\0\0\1a", "before the length of its value"),
        (b"\0\0\0\0\0\0\0\5ab", "its value has 5 bytes, 2 are there"),
        (b"\0\0\0\0\0\0\0\0x", "1 bytes follow"),
    ],
)
def test_torn_key_value_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_key_value(SchemaInfo(SchemaType.KEY_VALUE, data))


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"kv.encoding.type": "BOTH"}, "INLINE or SEPARATED"),
        ({"key.schema.type": "KEY_VALUE"}, "its key cannot be KEY_VALUE"),
        ({"value.schema.type": "AUTO_CONSUME"}, "its value cannot be AUTO_CONSUME"),
        ({"value.schema.type": "NOPE"}, "unknown"),
        ({"key.schema.properties": "{"}, "not JSON"),
        ({"key.schema.properties": "[]"}, "must be a JSON object"),
    ],
)
def test_wrong_properties_of_a_key_value_are_refused(
    properties: dict[str, str], reason: str
) -> None:
    schema = SchemaInfo(SchemaType.KEY_VALUE, b"\0" * 8, "kv", properties)
    with pytest.raises(InvalidInput, match=reason):
        parse_key_value(schema)


def test_part_properties_that_are_no_strings_become_their_text() -> None:
    schema = SchemaInfo(
        SchemaType.KEY_VALUE, b"\0" * 8, "kv", {"key.schema.properties": '{"a": 1}'}
    )
    assert parse_key_value(schema).key.properties == {"a": "1"}


def test_what_no_record_can_hold_is_refused() -> None:
    check_size(SchemaInfo(SchemaType.AVRO, b"x" * MAX_SCHEMA_BYTES))
    with pytest.raises(InvalidInput, match="at most"):
        check_size(SchemaInfo(SchemaType.AVRO, b"x" * (MAX_SCHEMA_BYTES + 1)))
    with pytest.raises(InvalidInput, match="properties"):
        check_size(SchemaInfo(SchemaType.AVRO, b"", "", {"k": "v" * MAX_PROPERTIES_BYTES}))
