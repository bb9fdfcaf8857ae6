"""Schemas to test with."""

from __future__ import annotations

import base64
import json
from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType

FieldType: TypeAlias = "FieldDescriptorProto.Type.ValueType"
Label: TypeAlias = "FieldDescriptorProto.Label.ValueType"


def avro_field(name: str, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def avro_record(*fields: dict[str, Any], name: str = "Order") -> bytes:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)}).encode()


def avro(*fields: dict[str, Any], kind: SchemaType = SchemaType.AVRO) -> SchemaInfo:
    return SchemaInfo(kind, avro_record(*fields), "Order")


def plain(kind: SchemaType) -> SchemaInfo:
    return SchemaInfo(kind, b"", kind.value)


def proto_field(
    name: str,
    number: int,
    kind: FieldType = FieldDescriptorProto.TYPE_STRING,
    label: Label = FieldDescriptorProto.LABEL_OPTIONAL,
    type_name: str = "",
) -> FieldDescriptorProto:
    return FieldDescriptorProto(
        name=name, number=number, type=kind, label=label, type_name=type_name
    )


def proto_message(
    name: str, *fields: FieldDescriptorProto, nested: tuple[DescriptorProto, ...] = ()
) -> DescriptorProto:
    return DescriptorProto(name=name, field=fields, nested_type=nested)


def protobuf_data(
    *messages: DescriptorProto, root: str = "shop.Order", package: str = "shop"
) -> bytes:
    file = FileDescriptorProto(name="shop.proto", package=package, message_type=messages)
    encoded = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    wrapper = {
        "fileDescriptorSet": encoded,
        "rootMessageTypeName": root,
        "rootFileDescriptorName": "shop.proto",
    }
    return json.dumps(wrapper).encode()


def protobuf(*messages: DescriptorProto, root: str = "shop.Order") -> SchemaInfo:
    return SchemaInfo(SchemaType.PROTOBUF_NATIVE, protobuf_data(*messages, root=root), "Order")
