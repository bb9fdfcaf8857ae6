from __future__ import annotations

import json

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from anabranch.broker.schemas.protobuf_rules import parse_protobuf, protobuf_obstacle
from anabranch.errors import InvalidInput
from tests.schema_examples import FieldType, proto_field, proto_message, protobuf_data

F = FieldDescriptorProto
NAME = proto_field("name", 1)


def order(*fields: FieldDescriptorProto, nested: tuple[DescriptorProto, ...] = ()) -> bytes:
    return protobuf_data(proto_message("Order", *fields, nested=nested))


def test_fields_may_come_go_and_change_their_name() -> None:
    assert (
        protobuf_obstacle(order(NAME), order(proto_field("title", 1), proto_field("x", 2))) is None
    )
    assert protobuf_obstacle(order(NAME, proto_field("x", 2)), order(NAME)) is None


def test_another_root_message_is_an_obstacle() -> None:
    both = (proto_message("Order", NAME), proto_message("Invoice", NAME))
    invoice = protobuf_data(*both, root="shop.Invoice")
    obstacle = protobuf_obstacle(protobuf_data(*both), invoice)
    assert obstacle == "root message shop.Order is not the writer's shop.Invoice"


@pytest.mark.parametrize(
    ("reader", "writer", "readable"),
    [
        (F.TYPE_INT32, F.TYPE_INT64, True),
        (F.TYPE_BOOL, F.TYPE_ENUM, True),
        (F.TYPE_STRING, F.TYPE_BYTES, True),
        (F.TYPE_SINT32, F.TYPE_SINT64, True),
        (F.TYPE_INT32, F.TYPE_SINT32, False),
        (F.TYPE_FIXED32, F.TYPE_FLOAT, False),
        (F.TYPE_STRING, F.TYPE_INT32, False),
    ],
)
def test_types_of_one_form_on_the_wire_can_be_exchanged(
    reader: FieldType, writer: FieldType, readable: bool
) -> None:
    obstacle = protobuf_obstacle(
        order(proto_field("f", 1, reader)), order(proto_field("f", 1, writer))
    )
    assert (obstacle is None) == readable


def test_repeated_against_single_is_an_obstacle() -> None:
    many = order(proto_field("name", 1, label=F.LABEL_REPEATED))
    assert protobuf_obstacle(many, order(NAME)) is not None
    assert protobuf_obstacle(order(NAME), many) is not None


def test_required_field_must_be_written() -> None:
    demanding = order(proto_field("name", 1, label=F.LABEL_REQUIRED))
    assert "missing" in (protobuf_obstacle(demanding, order()) or "")
    assert "required" in (protobuf_obstacle(demanding, order(NAME)) or "")
    assert protobuf_obstacle(demanding, demanding) is None
    assert protobuf_obstacle(order(NAME), demanding) is None


def line(kind: FieldType) -> DescriptorProto:
    return proto_message(
        "Line",
        proto_field("amount", 1, kind),
        proto_field("parent", 2, F.TYPE_MESSAGE, type_name=".shop.Order"),
    )


def with_lines(kind: FieldType) -> bytes:
    lines = proto_field("lines", 1, F.TYPE_MESSAGE, F.LABEL_REPEATED, ".shop.Order.Line")
    return order(lines, nested=(line(kind),))


def test_messages_inside_are_compared_and_cycles_end() -> None:
    assert protobuf_obstacle(with_lines(F.TYPE_INT32), with_lines(F.TYPE_INT64)) is None
    obstacle = protobuf_obstacle(with_lines(F.TYPE_INT32), with_lines(F.TYPE_STRING))
    assert obstacle is not None
    assert "shop.Order.Line.amount = 1" in obstacle


def test_message_type_outside_of_the_set_is_passed_over() -> None:
    when = proto_field("at", 1, F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    assert protobuf_obstacle(order(when), order(when)) is None


def test_messages_are_found_by_full_name_with_and_without_package() -> None:
    found = parse_protobuf(
        protobuf_data(proto_message("A", nested=(proto_message("B"),)), root="A.B", package="")
    )
    assert set(found.messages) == {"A", "A.B"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        json.dumps({"fileDescriptorSet": "!", "rootMessageTypeName": "A"}).encode(),
        json.dumps({"fileDescriptorSet": 3, "rootMessageTypeName": "A"}).encode(),
        json.dumps({"fileDescriptorSet": "CgI=", "rootMessageTypeName": "A"}).encode(),
        protobuf_data(proto_message("Order"), root="shop.Nothing"),
        protobuf_data(proto_message("Order"), root=[1]),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_protobuf_schema_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a protobuf schema"):
        parse_protobuf(data)
