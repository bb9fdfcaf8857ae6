from __future__ import annotations

import pytest

from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType
from anabranch.broker.schemas.wire_form import schema_from_wire, schema_to_wire
from anabranch.errors import InvalidInput
from anabranch.protocol import wire_pb2 as wire


@pytest.mark.parametrize("number", wire.Schema.Type.values())
def test_every_type_of_the_wire_comes_and_goes(number: wire.Schema.Type) -> None:
    message = wire.Schema(
        name="s", schema_data=b"d", type=number, properties=[wire.KeyValue(key="a", value="b")]
    )
    schema = schema_from_wire(message)
    assert (schema.name, schema.properties) == ("s", {"a": "b"})
    assert schema.data == (b"" if schema.type.is_primitive else b"d")
    message.schema_data = schema.data
    assert schema_to_wire(schema) == message


def test_bytes_are_no_schema_on_the_wire() -> None:
    assert schema_to_wire(SchemaInfo(SchemaType.BYTES)).type == wire.Schema.None_


def test_what_only_a_client_knows_has_no_form_on_the_wire() -> None:
    with pytest.raises(InvalidInput, match="AUTO_PUBLISH"):
        schema_to_wire(SchemaInfo(SchemaType.AUTO_PUBLISH))
