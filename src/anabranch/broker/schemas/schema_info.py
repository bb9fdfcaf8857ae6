"""A schema as a value, apart from how the wire, the store or REST spell it.

A key-value schema holds two others. Its data is both, one behind the other, and their types,
names and properties are in the properties of the whole:

    key length   4 bytes, big-endian, signed; negative means "no data", as 0 does
    key data     that many bytes: the data of the key's schema
    value length 4 bytes likewise
    value data   that many bytes

    key.schema.type, key.schema.name, key.schema.properties (a JSON object of strings), the same
    with value., and kv.encoding.type: INLINE (both in the payload) or SEPARATED (key as the key)

A version is a counter from 0 for each schema id, 8 bytes big-endian on the wire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from anabranch.errors import InvalidInput

# A version is one record of the metadata store, in base64 and with its properties.
MAX_SCHEMA_BYTES: Final = 512 * 1024
MAX_PROPERTIES_BYTES: Final = 64 * 1024
_VERSION_BYTES: Final = 8
_LENGTH_BYTES: Final = 4


class SchemaType(Enum):
    """By REST name; BYTES and the AUTO kinds have no number on the wire (or none in the store)."""

    NONE = "NONE"
    BYTES = "BYTES"
    STRING = "STRING"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"
    AVRO = "AVRO"
    BOOLEAN = "BOOLEAN"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    KEY_VALUE = "KEY_VALUE"
    INSTANT = "INSTANT"
    LOCAL_DATE = "LOCAL_DATE"
    LOCAL_TIME = "LOCAL_TIME"
    LOCAL_DATE_TIME = "LOCAL_DATE_TIME"
    PROTOBUF_NATIVE = "PROTOBUF_NATIVE"
    EXTERNAL = "EXTERNAL"
    AUTO_CONSUME = "AUTO_CONSUME"
    AUTO_PUBLISH = "AUTO_PUBLISH"

    @property
    def is_absent(self) -> bool:
        """Raw bytes: the same as having no schema."""
        return self in (SchemaType.NONE, SchemaType.BYTES)

    @property
    def is_auto(self) -> bool:
        """Takes whatever schema the topic has, so it is never registered itself."""
        return self in (SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH)

    @property
    def is_avro_based(self) -> bool:
        """Pulsar describes JSON, and protobuf in its first form, by Avro record schemas."""
        return self in (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF)

    @property
    def is_primitive(self) -> bool:
        """The type says it all; there is no data."""
        return not (self.is_avro_based or self.is_auto or self in _WITH_DATA)


_WITH_DATA = (SchemaType.KEY_VALUE, SchemaType.PROTOBUF_NATIVE, SchemaType.EXTERNAL)


class KeyValueEncoding(Enum):
    INLINE = "INLINE"
    SEPARATED = "SEPARATED"


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    type: SchemaType
    data: bytes = b""
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeyValueParts:
    key: SchemaInfo
    value: SchemaInfo
    encoding: KeyValueEncoding


def parse_schema_type(text: str) -> SchemaType:
    try:
        return SchemaType(text.upper())
    except ValueError:
        known = ", ".join(each.value for each in SchemaType)
        raise InvalidInput(f"schema type {text[:60]!r} is unknown; it can be {known}") from None


def check_size(schema: SchemaInfo) -> None:
    """InvalidInput for what no record of the store could hold."""
    if len(schema.data) > MAX_SCHEMA_BYTES:
        raise InvalidInput(
            f"schema {schema.name!r} has {len(schema.data)} bytes; at most {MAX_SCHEMA_BYTES} go"
        )
    size = sum(len(key) + len(value) for key, value in schema.properties.items())
    if size > MAX_PROPERTIES_BYTES:
        raise InvalidInput(
            f"the properties of schema {schema.name!r} have {size} characters; "
            f"at most {MAX_PROPERTIES_BYTES} go"
        )


def encode_version(version: int) -> bytes:
    return version.to_bytes(_VERSION_BYTES, "big")


def parse_version(data: bytes) -> int:
    if len(data) != _VERSION_BYTES:
        raise InvalidInput(
            f"a schema version is {_VERSION_BYTES} bytes, big-endian; got {len(data)} bytes"
        )
    return int.from_bytes(data, "big", signed=True)


def key_value_schema(
    key: SchemaInfo, value: SchemaInfo, encoding: KeyValueEncoding = KeyValueEncoding.INLINE
) -> SchemaInfo:
    properties = {"kv.encoding.type": encoding.value}
    for prefix, part in (("key", key), ("value", value)):
        properties[f"{prefix}.schema.name"] = part.name
        properties[f"{prefix}.schema.type"] = part.type.value
        properties[f"{prefix}.schema.properties"] = json.dumps(dict(part.properties))
    data = b"".join(
        len(part.data).to_bytes(_LENGTH_BYTES, "big") + part.data for part in (key, value)
    )
    return SchemaInfo(SchemaType.KEY_VALUE, data, "KeyValue", properties)


def parse_key_value(schema: SchemaInfo) -> KeyValueParts:
    assert schema.type is SchemaType.KEY_VALUE, schema.type
    key_data, rest = _take_part(schema.data, "key")
    value_data, rest = _take_part(rest, "value")
    if rest:
        raise InvalidInput(f"key-value schema: {len(rest)} bytes follow the value's schema")
    text = schema.properties.get("kv.encoding.type") or KeyValueEncoding.INLINE.value
    try:
        encoding = KeyValueEncoding(text.upper())
    except ValueError:
        raise InvalidInput(
            f"key-value schema: kv.encoding.type is {text[:60]!r}; it can be INLINE or SEPARATED"
        ) from None
    return KeyValueParts(
        _part(schema, "key", key_data), _part(schema, "value", value_data), encoding
    )


def _take_part(data: bytes, what: str) -> tuple[bytes, bytes]:
    if len(data) < _LENGTH_BYTES:
        raise InvalidInput(f"key-value schema ends before the length of its {what}")
    length = max(0, int.from_bytes(data[:_LENGTH_BYTES], "big", signed=True))
    end = _LENGTH_BYTES + length
    if len(data) < end:
        have = len(data) - _LENGTH_BYTES
        raise InvalidInput(f"key-value schema: its {what} has {length} bytes, {have} are there")
    return data[_LENGTH_BYTES:end], data[end:]


def _part(schema: SchemaInfo, prefix: str, data: bytes) -> SchemaInfo:
    type_text = schema.properties.get(f"{prefix}.schema.type")
    part_type = parse_schema_type(type_text) if type_text else SchemaType.BYTES
    if part_type is SchemaType.KEY_VALUE or part_type.is_auto:
        raise InvalidInput(f"key-value schema: its {prefix} cannot be {part_type.value}")
    return SchemaInfo(
        part_type,
        data,
        schema.properties.get(f"{prefix}.schema.name", ""),
        _part_properties(schema.properties.get(f"{prefix}.schema.properties"), prefix),
    )


def _part_properties(text: str | None, prefix: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{prefix}.schema.properties is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{prefix}.schema.properties must be a JSON object")
    # Some clients write numbers and booleans plainly; they mean their text.
    return {key: value if isinstance(value, str) else str(value) for key, value in found.items()}
