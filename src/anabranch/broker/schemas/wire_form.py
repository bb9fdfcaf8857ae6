"""Schemas as the wire spells them, and back."""

from __future__ import annotations

from typing import Final

from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType
from anabranch.errors import InvalidInput
from anabranch.protocol import wire_pb2 as wire

_OF_WIRE: Final = {
    wire.Schema.None_: SchemaType.NONE,
    wire.Schema.String: SchemaType.STRING,
    wire.Schema.Json: SchemaType.JSON,
    wire.Schema.Protobuf: SchemaType.PROTOBUF,
    wire.Schema.Avro: SchemaType.AVRO,
    wire.Schema.Bool: SchemaType.BOOLEAN,
    wire.Schema.Int8: SchemaType.INT8,
    wire.Schema.Int16: SchemaType.INT16,
    wire.Schema.Int32: SchemaType.INT32,
    wire.Schema.Int64: SchemaType.INT64,
    wire.Schema.Float: SchemaType.FLOAT,
    wire.Schema.Double: SchemaType.DOUBLE,
    wire.Schema.Date: SchemaType.DATE,
    wire.Schema.Time: SchemaType.TIME,
    wire.Schema.Timestamp: SchemaType.TIMESTAMP,
    wire.Schema.KeyValue_: SchemaType.KEY_VALUE,
    wire.Schema.Instant: SchemaType.INSTANT,
    wire.Schema.LocalDate: SchemaType.LOCAL_DATE,
    wire.Schema.LocalTime: SchemaType.LOCAL_TIME,
    wire.Schema.LocalDateTime: SchemaType.LOCAL_DATE_TIME,
    wire.Schema.ProtobufNative: SchemaType.PROTOBUF_NATIVE,
    wire.Schema.AutoConsume: SchemaType.AUTO_CONSUME,
    wire.Schema.External: SchemaType.EXTERNAL,
}
_TO_WIRE: Final = {schema_type: number for number, schema_type in _OF_WIRE.items()} | {
    SchemaType.BYTES: wire.Schema.None_,
}


def schema_from_wire(message: wire.Schema) -> SchemaInfo:
    found = _OF_WIRE.get(message.type)
    if found is None:
        raise InvalidInput(f"schema type {message.type} of schema {message.name!r} is unknown")
    properties = {each.key: each.value for each in message.properties}
    # A primitive is described by its type alone; what clients put there ("null") means nothing.
    data = b"" if found.is_primitive else message.schema_data
    return SchemaInfo(found, data, message.name, properties)


def schema_to_wire(schema: SchemaInfo) -> wire.Schema:
    if schema.type not in _TO_WIRE:
        raise InvalidInput(f"a schema of type {schema.type.value} has no form on the wire")
    return wire.Schema(
        name=schema.name,
        schema_data=schema.data,
        type=_TO_WIRE[schema.type],
        properties=[
            wire.KeyValue(key=key, value=schema.properties[key])
            for key in sorted(schema.properties)
        ],
    )
