"""Random protocol messages, made from their descriptors."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

M = TypeVar("M", bound=Message)

# Numbers near the places where encodings change their length or their sign.
_EDGES = [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]
_U64 = st.one_of(
    st.sampled_from([*_EDGES, 2**63, 2**64 - 1]), st.integers(min_value=0, max_value=2**64 - 1)
)
_I64 = st.one_of(
    st.sampled_from([*_EDGES, -1, -(2**63)]), st.integers(min_value=-(2**63), max_value=2**63 - 1)
)
_I32 = st.one_of(
    st.sampled_from([0, 1, -1, 127, 128, 2**31 - 1, -(2**31)]),
    st.integers(min_value=-(2**31), max_value=2**31 - 1),
)
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_UINT64: _U64,
    FieldDescriptor.TYPE_INT64: _I64,
    FieldDescriptor.TYPE_INT32: _I32,
    FieldDescriptor.TYPE_UINT32: st.integers(min_value=0, max_value=2**32 - 1),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.TYPE_STRING: st.text(max_size=20),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=40),
}


@st.composite
def messages(draw: st.DrawFn, kind: type[M], depth: int = 2) -> M:
    """A message with its required fields and any of the others."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_values(field, depth), max_size=3)))
        elif field.is_required or (draw(st.booleans()) and not _too_deep(field, depth)):
            value = draw(_values(field, depth))
            if isinstance(value, Message):
                getattr(message, field.name).CopyFrom(value)
            else:
                setattr(message, field.name, value)
    return message


def _too_deep(field: Any, depth: int) -> bool:
    return field.message_type is not None and depth == 0


def _values(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type), max(depth - 1, 0))
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return _SCALARS[field.type]


def varint(value: int) -> bytes:
    out = bytearray()
    value &= 2**64 - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@st.composite
def unknown_fields(draw: st.DrawFn) -> bytes:
    """Fields that no version of the protocol has, of every wire type but groups."""
    out = b""
    for number, wire_type in draw(
        st.lists(st.tuples(st.integers(40, 2**29 - 1), st.sampled_from([0, 1, 2, 5])), max_size=3)
    ):
        out += varint(number << 3 | wire_type)
        if wire_type == 0:
            out += varint(draw(_U64))
        elif wire_type == 2:
            data = draw(st.binary(max_size=200))
            out += varint(len(data)) + data
        else:
            out += draw(st.binary(min_size=8, max_size=8))[: 8 if wire_type == 1 else 4]
    return out
