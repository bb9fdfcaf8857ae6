"""wire.proto says what the protocol says, and the generated code says what wire.proto says."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from grpc_tools import protoc  # type: ignore[import-untyped]

from anabranch.protocol import wire_pb2

SOURCES = Path(wire_pb2.__file__).parent.parent.parent
PROTO = "anabranch/protocol/wire.proto"
FACTS = Path(__file__).with_name("wire_facts.txt").read_text().splitlines()
PACKAGE = "anabranch.wire."
# Value names never travel, so these two may differ from the protocol's.
RENAMED = {"Schema.Type": {"None_": "None", "KeyValue_": "KeyValue"}}
EXTENSIONS = {
    "FeatureFlags.anabranch_level = 1000 optional uint32",
    "ScalableTopicDAG.routing = 1000 optional string",
    "ScalableTopicDAG.incarnation = 1001 optional string",
    "ScalableTopicDAG.pruned = 1002 repeated SegmentInfoProto",
    "SegmentInfoProto.last_message_id = 1000 optional MessageIdData",
    "CommandScalableTopicLookup.include_pruned = 1000 optional bool",
    "CommandScalableTopicSubscribe.initial_position = 1000 optional "
    "CommandSubscribe.InitialPosition",
    "CommandScalableTopicUnsubscribe.request_id = 1 required uint64",
    "CommandScalableTopicUnsubscribe.consumer_id = 2 required uint64",
    "BaseCommand.scalableTopicUnsubscribe = 82 optional CommandScalableTopicUnsubscribe",
}
# protoc writes `Mapping` without its arguments, which mypy refuses in strict mode.
FOR_MYPY = '# mypy: disable-error-code="type-arg"\n'
TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_DOUBLE: "double",
}


def type_of(field: FieldDescriptor) -> str:
    nested = field.message_type or field.enum_type
    return TYPES[field.type] if nested is None else nested.full_name.removeprefix(PACKAGE)


def default_of(field: FieldDescriptor) -> str:
    if not field.has_default_value:
        return ""
    value = field.default_value
    if field.enum_type is not None:
        value = field.enum_type.values_by_number[value].name
    return f" [{str(value).lower() if isinstance(value, bool) else value}]"


def field_fact(message: str, field: FieldDescriptor) -> str:
    label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
    return f"{message}.{field.name} = {field.number} {label} {type_of(field)}{default_of(field)}"


def enum_fact(enum: EnumDescriptor) -> str:
    name = enum.full_name.removeprefix(PACKAGE)
    names = RENAMED.get(name, {})
    values = [f"{names.get(value.name, value.name)}={value.number}" for value in enum.values]
    if name == "BaseCommand.Type":
        values.remove("SCALABLE_TOPIC_UNSUBSCRIBE=82")
    return f"enum {name}: {' '.join(values)}"


def facts_of_the_descriptor() -> set[str]:
    found: set[str] = set()
    enums = list(wire_pb2.DESCRIPTOR.enum_types_by_name.values())
    for name, message in wire_pb2.DESCRIPTOR.message_types_by_name.items():
        found |= {field_fact(name, field) for field in message.fields} or {name}
        enums += message.enum_types
    return found | {enum_fact(enum) for enum in enums}


def test_the_definition_is_the_protocol_and_the_listed_extensions_and_nothing_else() -> None:
    expected = {line for line in FACTS if not line.startswith("#")} | EXTENSIONS
    assert facts_of_the_descriptor() == expected


def test_the_field_of_a_command_has_the_number_of_its_type() -> None:
    base = wire_pb2.BaseCommand.DESCRIPTOR
    numbers = {field.number for field in base.fields if field.message_type}
    assert numbers == {value.number for value in base.enum_types_by_name["Type"].values}
    assert len(numbers) == 71


def test_no_repeated_number_is_packed() -> None:
    for message in wire_pb2.DESCRIPTOR.message_types_by_name.values():
        assert not any(field.is_packed for field in message.fields), message.name


def test_the_package_is_not_the_one_that_pulsars_own_client_registers() -> None:
    assert wire_pb2.DESCRIPTOR.package == "anabranch.wire"
    assert wire_pb2.DESCRIPTOR.name == PROTO


@pytest.mark.skipif(
    not (SOURCES / PROTO).exists(), reason="an installed package without its sources"
)
def test_generated_code_is_what_make_wire_would_write(tmp_path: Path) -> None:
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{SOURCES}", f"-I{well_known}"]
    arguments += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", PROTO]
    assert protoc.main(arguments) == 0
    made = (tmp_path / PROTO).with_name("wire_pb2.py").read_text()
    assert made == Path(wire_pb2.__file__).read_text(), "stale: run 'make wire'"
    stub = (tmp_path / PROTO).with_name("wire_pb2.pyi").read_text()
    kept = Path(wire_pb2.__file__).with_suffix(".pyi").read_text()
    assert kept.removeprefix(FOR_MYPY) == stub, "stale: run 'make wire'"
