"""Schemas, as the real client declares them."""

from __future__ import annotations

import pulsar
import pytest
from pulsar.schema import (
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    Record,
    String,
    StringSchema,
)

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import PATIENT_MS, Admin


class Order(Record):  # type: ignore[misc]
    _avro_namespace = "shop"
    item = String()
    count = Integer(default=1)


class OrderWithNote(Record):  # type: ignore[misc]
    """May follow `Order`: the new field has a default."""

    _avro_namespace = "shop"
    item = String()
    count = Integer(default=1)
    note = String(default="none", required=True, required_default=True)


class OrderOfNumbers(Record):  # type: ignore[misc]
    """May not: a text has become a number, and must be there."""

    _avro_namespace = "shop"
    item = Integer(required=True)


OrderWithNote.__name__ = OrderOfNumbers.__name__ = "Order"


def test_strings(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    client.create_producer(topic, schema=StringSchema()).send("grüße")
    message = consumer.receive(PATIENT_MS)
    assert message.value() == "grüße"


@pytest.mark.parametrize("kind", [JsonSchema, AvroSchema])
def test_records(client: pulsar.Client, topic: str, kind: type) -> None:
    if kind is AvroSchema:
        pytest.importorskip("fastavro")
    consumer = client.subscribe(topic, "s", schema=kind(Order))
    producer = client.create_producer(topic, schema=kind(Order))
    producer.send(Order(item="tea", count=3))
    message = consumer.receive(PATIENT_MS)
    assert (message.value().item, message.value().count) == ("tea", 3)
    assert message.schema_version() == bytes(8).decode()


def test_a_schema_may_grow_and_versions_count_up(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.create_producer(topic, schema=JsonSchema(Order)).send(Order(item="tea"))
    consumer = client.subscribe(topic, "s", schema=JsonSchema(OrderWithNote))
    producer = client.create_producer(topic, schema=JsonSchema(OrderWithNote))
    producer.send(OrderWithNote(item="milk", note="warm"))
    assert consumer.receive(PATIENT_MS).value().note == "warm"
    found = Admin(broker.http_url).get(f"schemas/public/default/{topic.rpartition('/')[2]}/schema")
    assert (found["version"], found["type"]) == (1, "JSON")


def test_a_schema_that_cannot_follow_is_refused(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=JsonSchema(Order))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=JsonSchema(OrderOfNumbers))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=StringSchema())
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "s", schema=JsonSchema(OrderOfNumbers))
    client.create_producer(topic, schema=JsonSchema(Order)).send(Order(item="tea"))


def test_bytes_are_always_allowed_unless_schemas_are_enforced(
    client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic, schema=JsonSchema(Order))
    client.create_producer(topic, schema=BytesSchema()).send(b"{}")


def test_the_same_schema_is_the_same_version(client: pulsar.Client, topic: str) -> None:
    for _ in range(2):
        producer = client.create_producer(topic, schema=JsonSchema(Order))
        consumer = client.subscribe(topic, "s", schema=JsonSchema(Order))
        producer.send(Order(item="tea"))
        message = consumer.receive(PATIENT_MS)
        consumer.acknowledge(message)
        assert message.schema_version() == bytes(8).decode()
        producer.close()
        consumer.close()
