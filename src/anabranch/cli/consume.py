"""Receive messages from a topic, show them, and acknowledge them."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import click

from anabranch.cli.asking import Asking, asking
from anabranch.cli.exchange import Exchange, connect, partitions_of, run, service_url_option
from anabranch.protocol import wire_pb2
from anabranch.protocol.batch_codec import decode_batch
from anabranch.protocol.compression import decompress
from anabranch.protocol.entries import Entry, parse_entry
from anabranch.protocol.wire_codec import Ack, Delivery, WireId

SubType = wire_pb2.CommandSubscribe.SubType
TYPES: Final = {name.lower(): name for name in SubType.keys()}  # noqa: SIM118  not a dict
# Asked for at a time, and asked for again when half of it came.
PERMITS: Final = 500


@dataclass(frozen=True, slots=True)
class Incoming:
    payload: bytes
    key: str | None
    properties: dict[str, str]
    batch_index: int = -1


@click.command()
@click.argument("topic")
@click.option("-s", "--subscription-name", required=True)
@click.option(
    "-t",
    "--subscription-type",
    type=click.Choice([*TYPES], case_sensitive=False),
    default="exclusive",
    show_default=True,
)
@click.option(
    "-p",
    "--subscription-position",
    type=click.Choice(["latest", "earliest"], case_sensitive=False),
    default="latest",
    show_default=True,
    help="Where a new subscription begins.",
)
@click.option("-n", "--num-messages", default=1, show_default=True, help="0: until stopped.")
@click.option("--wait", "wait_seconds", type=float, help="Give up after so long without any.")
@click.option("-q", "--hide-content", is_flag=True, help="Count only.")
@click.option("--hex", "as_hex", is_flag=True, help="Payloads in hexadecimal.")
@service_url_option
@asking
def consume(
    asked: Asking,
    topic: str,
    subscription_name: str,
    subscription_type: str,
    subscription_position: str,
    num_messages: int,
    wait_seconds: float | None,
    hide_content: bool,
    as_hex: bool,
    service_url: str,
) -> None:
    """Receive messages, show and acknowledge them. Exit code 1 if fewer came than asked for."""
    subscribe = wire_pb2.CommandSubscribe(
        subscription=subscription_name,
        subType=TYPES[subscription_type.lower()],
        initialPosition=subscription_position.capitalize(),
    )
    printer = Printer(asked.as_json, is_quiet=hide_content, as_hex=as_hex)
    run(_consume(service_url, topic, subscribe, num_messages, wait_seconds, printer))


async def _consume(
    service_url: str,
    topic: str,
    subscribe: wire_pb2.CommandSubscribe,
    wanted: int,
    wait_seconds: float | None,
    printer: Printer,
) -> None:
    exchange = await connect(service_url)
    try:
        receiver = Receiver(exchange)
        for number, partition in enumerate(await partitions_of(exchange, topic)):
            await receiver.open(number, partition, subscribe)
        while wanted <= 0 or printer.count < wanted:
            if not await receiver.receive(printer, wanted, wait_seconds):
                break
        await receiver.close()
    finally:
        exchange.close()
    printer.finish()
    if printer.count < wanted:
        raise click.ClickException(f"{printer.count} of {wanted} messages came in time")


class Receiver:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._owed: dict[int, int] = {}  # permits to be given again, by consumer

    async def open(self, number: int, topic: str, subscribe: wire_pb2.CommandSubscribe) -> None:
        command = wire_pb2.CommandSubscribe()
        command.CopyFrom(subscribe)
        command.topic, command.consumer_id = topic, number
        await self._exchange.request(command)
        self._owed[number] = 0
        self._exchange.connection.send_flow(number, PERMITS)
        self._exchange.flush()

    async def receive(self, printer: Printer, wanted: int, wait_seconds: float | None) -> bool:
        waiting = asyncio.ensure_future(self._exchange.deliveries.get())
        try:
            delivery = await self._exchange.whichever(waiting, wait_seconds)
        except TimeoutError:
            return False
        finally:
            waiting.cancel()
        entry = parse_entry(delivery.body)
        messages = list(messages_of(entry))
        room = len(messages) if wanted <= 0 else wanted - printer.count
        for message in messages[:room]:
            printer.show(delivery, entry, message)
        # A batch of which only part was wanted comes again, whole.
        if room >= len(messages):
            await self._acknowledge(delivery)
        self._give_permits(delivery.consumer_id, len(messages))
        return True

    async def _acknowledge(self, delivery: Delivery) -> None:
        acked = WireId()
        acked.ledger, acked.entry = delivery.id.ledger, delivery.id.entry
        ack = Ack()
        ack.consumer_id = delivery.consumer_id
        ack.ids.append(acked)
        self._exchange.connection.send_ack(ack)
        self._exchange.flush()

    def _give_permits(self, consumer: int, count: int) -> None:
        self._owed[consumer] += count
        if self._owed[consumer] >= PERMITS // 2:
            self._exchange.connection.send_flow(consumer, self._owed[consumer])
            self._owed[consumer] = 0
            self._exchange.flush()

    async def close(self) -> None:
        for number in self._owed:
            await self._exchange.request(wire_pb2.CommandCloseConsumer(consumer_id=number))


def messages_of(entry: Entry) -> Iterator[Incoming]:
    """What an entry holds; an encrypted one, and a piece of a larger message, as they came."""
    metadata, payload = entry.metadata, bytes(entry.payload)
    key = metadata.partition_key if metadata.HasField("partition_key") else None
    properties = {each.key: each.value for each in metadata.properties}
    if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
        yield Incoming(payload, key, properties)
        return
    if metadata.compression:
        size = metadata.uncompressed_size
        payload = decompress(metadata.compression, payload, size, max(size, 1))
    if not metadata.HasField("num_messages_in_batch"):
        yield Incoming(payload, key, properties)
        return
    for index, each in enumerate(decode_batch(payload, metadata.num_messages_in_batch)):
        yield Incoming(each.payload, each.key, each.properties, index)


class Printer:
    def __init__(self, as_json: bool, *, is_quiet: bool, as_hex: bool) -> None:
        self.count = 0
        self._as_json = as_json
        self._is_quiet = is_quiet
        self._as_hex = as_hex

    def show(self, delivery: Delivery, entry: Entry, message: Incoming) -> None:
        self.count += 1
        if self._is_quiet:
            return
        if self._as_json:
            click.echo(json.dumps(self._described(delivery, entry, message)))
            return
        key = "" if message.key is None else f"{message.key}: "
        text = message.payload.hex() if self._as_hex else message.payload.decode("utf-8", "replace")
        click.echo(f"{key}{text}")

    def _described(self, delivery: Delivery, entry: Entry, message: Incoming) -> dict[str, Any]:
        found: dict[str, Any] = {
            "messageId": f"{delivery.id.ledger}:{delivery.id.entry}"
            + (f":{message.batch_index}" if message.batch_index >= 0 else ""),
            "publishTime": entry.metadata.publish_time,
            "producer": entry.metadata.producer_name,
            "redeliveries": delivery.redelivery_count,
        }
        if message.key is not None:
            found["key"] = message.key
        if message.properties:
            found["properties"] = message.properties
        if entry.metadata.num_chunks_from_msg > 1:
            found["chunk"] = f"{entry.metadata.chunk_id}/{entry.metadata.num_chunks_from_msg}"
        try:
            found["payload"] = message.payload.decode()
        except UnicodeDecodeError:
            found["payloadBase64"] = base64.b64encode(message.payload).decode()
        return found

    def finish(self) -> None:
        if self._is_quiet:
            shown = json.dumps({"consumed": self.count}) if self._as_json else f"{self.count}"
            click.echo(shown)
        sys.stdout.flush()
