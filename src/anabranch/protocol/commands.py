"""Commands as protobuf messages: from and to the bytes of a BaseCommand.

A BaseCommand is a type and one sub-message whose field number equals the type's number, so code
outside of this module never sees the envelope: it handles `CommandSubscribe` and the like, and the
class says which type that is. `Kind` is the protocol's own list of types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from anabranch.errors import LocalProtocolError, RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.protocol.frames import encode_frame
from anabranch.runtime.world import Buffer

Kind = wire_pb2.BaseCommand.Type


class Command(NamedTuple):
    """A command that arrived: `message` is the sub-message that `kind` names."""

    kind: int
    message: Any  # one of the Command… classes; callers match on the class


FIELD_OF_KIND: dict[int, str] = {}
CLASS_OF_KIND: dict[int, type[Message]] = {}
for _field in wire_pb2.BaseCommand.DESCRIPTOR.fields:
    if _field.message_type:
        FIELD_OF_KIND[_field.number] = _field.name
        CLASS_OF_KIND[_field.number] = getattr(wire_pb2, _field.message_type.name)
_KIND_OF_CLASS = {message_class: kind for kind, message_class in CLASS_OF_KIND.items()}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# `type`, then the tag of the sub-message: the same bytes for every command of a kind.
_PREFIX = {kind: b"\x08" + _varint(kind) + _varint(kind << 3 | 2) for kind in FIELD_OF_KIND}


def kind_of(message: Message) -> int:
    return _KIND_OF_CLASS[type(message)]


def kind_name(kind: int) -> str:
    return Kind.Name(kind) if kind in FIELD_OF_KIND else f"command {kind}"


def encode_command(message: Message) -> bytes:
    """The BaseCommand around a command message."""
    try:
        body = message.SerializeToString()
    except EncodeError as error:
        raise LocalProtocolError(f"incomplete command: {error}") from error
    return _PREFIX[kind_of(message)] + _varint(len(body)) + body


def encode_command_frame(message: Message, entry: Buffer = b"") -> bytes:
    return encode_frame(encode_command(message), entry)


def parse_command(data: Buffer) -> Command:
    envelope = wire_pb2.BaseCommand()
    parse_into(envelope, data)
    kind = envelope.type
    field = FIELD_OF_KIND[kind]
    if not envelope.HasField(field):
        raise RemoteProtocolError(f"{kind_name(kind)} without its field {field!r}")
    message = getattr(envelope, field)
    for holder, name in bad_texts(message):
        raise RemoteProtocolError(f"{holder.DESCRIPTOR.name}.{name} is not UTF-8")
    return Command(kind, message)


def parse_into(message: Message, data: Buffer) -> None:
    """Parse, blaming the peer for what protobuf cannot read, and for what is not there."""
    try:
        message.ParseFromString(data)  # type: ignore[arg-type]  # any buffer will do
    except DecodeError as error:
        raise RemoteProtocolError(f"malformed {message.DESCRIPTOR.name}: {error}") from error
    if not message.IsInitialized():  # which ParseFromString leaves to us
        # mypy's stubs lack this method of every generated message.
        missing = ", ".join(message.FindInitializationErrors()[:10])  # type: ignore[attr-defined]
        raise RemoteProtocolError(f"{message.DESCRIPTOR.name} without {missing}")


class _Fields(NamedTuple):
    """The fields of a message type that matter to `bad_texts`: names, and whether repeated."""

    texts: tuple[tuple[str, bool], ...]
    messages: tuple[tuple[str, bool], ...]


_FIELDS_OF: dict[str, _Fields] = {}


def _fields_of(message: Message) -> _Fields:
    descriptor = message.DESCRIPTOR
    found = _FIELDS_OF.get(descriptor.full_name)
    if found is None:
        texts, messages = [], []
        for field in descriptor.fields:
            if field.type == FieldDescriptor.TYPE_STRING:
                texts.append((field.name, field.is_repeated))
            elif field.message_type:
                messages.append((field.name, field.is_repeated))
        found = _FIELDS_OF[descriptor.full_name] = _Fields(tuple(texts), tuple(messages))
    return found


def bad_texts(message: Message) -> Iterator[tuple[Message, str]]:
    """Every text in the message that is not UTF-8, as the message it is in and its field's name.

    proto2 lets such bytes pass, and hands them over as `bytes` where everybody expects `str`.
    """
    fields = _fields_of(message)
    for name, is_repeated in fields.texts:
        value = getattr(message, name)
        if any(isinstance(text, bytes) for text in (value if is_repeated else (value,))):
            yield message, name
    for name, is_repeated in fields.messages:
        if is_repeated:
            for nested in getattr(message, name):
                yield from bad_texts(nested)
        elif message.HasField(name):
            yield from bad_texts(getattr(message, name))
