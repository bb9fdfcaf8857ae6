from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Record(_message.Message):
    __slots__ = ("snapshot", "cursors", "deleted")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CURSORS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    snapshot: bool
    cursors: _containers.RepeatedCompositeFieldContainer[Cursor]
    deleted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, snapshot: _Optional[bool] = ..., cursors: _Optional[_Iterable[_Union[Cursor, _Mapping]]] = ..., deleted: _Optional[_Iterable[str]] = ...) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("name", "mark_ledger", "mark_entry", "acks", "properties", "replaces")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MARK_LEDGER_FIELD_NUMBER: _ClassVar[int]
    MARK_ENTRY_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    name: str
    mark_ledger: int
    mark_entry: int
    acks: _containers.RepeatedCompositeFieldContainer[Acks]
    properties: _containers.ScalarMap[str, str]
    replaces: bool
    def __init__(self, name: _Optional[str] = ..., mark_ledger: _Optional[int] = ..., mark_entry: _Optional[int] = ..., acks: _Optional[_Iterable[_Union[Acks, _Mapping]]] = ..., properties: _Optional[_Mapping[str, str]] = ..., replaces: _Optional[bool] = ...) -> None: ...

class Acks(_message.Message):
    __slots__ = ("ledger", "runs", "batches")
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ledger: int
    runs: _containers.RepeatedScalarFieldContainer[int]
    batches: _containers.RepeatedCompositeFieldContainer[Batch]
    def __init__(self, ledger: _Optional[int] = ..., runs: _Optional[_Iterable[int]] = ..., batches: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("entry", "unacked")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    UNACKED_FIELD_NUMBER: _ClassVar[int]
    entry: int
    unacked: bytes
    def __init__(self, entry: _Optional[int] = ..., unacked: _Optional[bytes] = ...) -> None: ...
