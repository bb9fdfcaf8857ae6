"""Whether a reader with one protobuf descriptor can read what was written with another.

The data of a PROTOBUF_NATIVE schema is JSON that carries the compiled files:

    {"fileDescriptorSet": base64 of a google.protobuf.FileDescriptorSet,
     "rootMessageTypeName": "package.Message", "rootFileDescriptorName": "file.proto"}

Protobuf reads by field number, so names may change and fields may come and go. Refused is what
would turn bytes into something else or lose a message: another root message, a field number whose
type has another form on the wire, repeated against single, or a required field that the writer
does not have. Messages inside are compared likewise, each pair once, so recursion ends.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError

from anabranch.errors import InvalidInput

_MAX_PAIRS: Final = 10_000

_Field = FieldDescriptorProto
# Types of one group can be exchanged: same form on the wire, and a value is at most cut short.
_GROUPS: Final = (
    (_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT32, _Field.TYPE_UINT64,
     _Field.TYPE_BOOL, _Field.TYPE_ENUM),
    (_Field.TYPE_SINT32, _Field.TYPE_SINT64),
    (_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32),
    (_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64),
    (_Field.TYPE_STRING, _Field.TYPE_BYTES),
)  # fmt: skip
_GROUP_OF: Final = {each: group[0] for group in _GROUPS for each in group}


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    root: str
    messages: dict[str, DescriptorProto]


def parse_protobuf(data: bytes) -> ProtobufSchema:
    try:
        wrapper = json.loads(data)
        root = wrapper["rootMessageTypeName"]
        encoded = wrapper["fileDescriptorSet"]
        files = FileDescriptorSet.FromString(base64.b64decode(encoded, validate=True))
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
        raise InvalidInput(
            f"not a protobuf schema: expected JSON with fileDescriptorSet in base64 "
            f"and rootMessageTypeName ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    messages = {name: message for file in files.file for name, message in _messages(file)}
    if not isinstance(root, str) or root not in messages:
        raise InvalidInput(
            f"not a protobuf schema: root message {str(root)[:100]!r} is not among its "
            f"{len(messages)} messages"
        )
    return ProtobufSchema(root, messages)


def protobuf_obstacle(reader: bytes, writer: bytes) -> str | None:
    """Why the reader could not read it; None if it can. InvalidInput unless both are protobuf."""
    reading, writing = parse_protobuf(reader), parse_protobuf(writer)
    if reading.root != writing.root:
        return f"root message {reading.root} is not the writer's {writing.root}"
    waiting = [(reading.root, writing.root)]
    seen = set(waiting)
    while waiting:
        ours, theirs = waiting.pop()
        obstacle = _message_obstacle(reading.messages[ours], writing.messages[theirs], ours)
        if obstacle:
            return obstacle
        inner = set(_inner_pairs(reading, writing, ours, theirs)) - seen
        seen |= inner
        waiting.extend(inner)
        if len(seen) > _MAX_PAIRS:
            raise InvalidInput(f"protobuf schema {reading.root} has over {_MAX_PAIRS} messages")
    return None


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    waiting = [(file.package, message) for message in file.message_type]
    while waiting:
        scope, message = waiting.pop()
        name = f"{scope}.{message.name}" if scope else message.name
        yield name, message
        waiting.extend((name, nested) for nested in message.nested_type)


def _message_obstacle(reader: DescriptorProto, writer: DescriptorProto, name: str) -> str | None:
    written = {each.number: each for each in writer.field}
    for ours in reader.field:
        theirs = written.get(ours.number)
        where = f"{name}.{ours.name} = {ours.number}"
        if theirs is None:
            if ours.label == _Field.LABEL_REQUIRED:
                return f"required field {where} is missing in what is written"
            continue
        obstacle = _field_obstacle(ours, theirs)
        if obstacle:
            return f"field {where} {obstacle}"
    return None


def _field_obstacle(reader: FieldDescriptorProto, writer: FieldDescriptorProto) -> str | None:
    if _GROUP_OF.get(reader.type, reader.type) != _GROUP_OF.get(writer.type, writer.type):
        ours, theirs = (_Field.Type.Name(each.type) for each in (reader, writer))
        return f"is {ours} for the reader and {theirs} for the writer"
    repeated = (each.label == _Field.LABEL_REPEATED for each in (reader, writer))
    if len(set(repeated)) > 1:
        return "is repeated on one side only"
    if reader.label == _Field.LABEL_REQUIRED and writer.label != _Field.LABEL_REQUIRED:
        return "is required by the reader, the writer may leave it out"
    return None


def _inner_pairs(
    reading: ProtobufSchema, writing: ProtobufSchema, ours: str, theirs: str
) -> Iterator[tuple[str, str]]:
    written = {each.number: each for each in writing.messages[theirs].field}
    for each in reading.messages[ours].field:
        other = written.get(each.number)
        if other is None or each.type not in (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP):
            continue
        pair = each.type_name.removeprefix("."), other.type_name.removeprefix(".")
        # A type outside of the set (a well-known one, left out) is the same if its name is.
        if pair[0] in reading.messages and pair[1] in writing.messages:
            yield pair
