"""Send messages to a topic, and wait until the broker has stored them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import click

from anabranch.cli.asking import Asking, asking, read_properties
from anabranch.cli.exchange import Exchange, connect, partitions_of, run, service_url_option
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import build_entry
from anabranch.protocol.wire_codec import Receipt, Send
from anabranch.topics.murmur3 import murmur3_32

# Sent and not stored yet.
WINDOW: Final = 1000


@dataclass(frozen=True, slots=True)
class Outgoing:
    payload: bytes
    key: str | None
    properties: dict[str, str] = field(default_factory=dict)


@click.command()
@click.argument("topic")
@click.option("-m", "--messages", multiple=True, help="A message; give it again for more.")
@click.option("-f", "--files", multiple=True, type=click.File("rb"), help="A file as a message.")
@click.option("-l", "--lines", type=click.File("rb"), help="A message a line; - is stdin.")
@click.option("-n", "--num-produce", default=1, show_default=True, help="How often all of it.")
@click.option("-k", "--key", help="The key of all of them.")
@click.option("-p", "--properties", multiple=True, metavar="KEY=VALUE")
@click.option("-r", "--rate", type=float, default=0.0, help="Messages a second; 0: no limit.")
@service_url_option
@asking
def produce(
    asked: Asking,
    topic: str,
    messages: tuple[str, ...],
    files: tuple[BinaryIO, ...],
    lines: BinaryIO | None,
    num_produce: int,
    key: str | None,
    properties: tuple[str, ...],
    rate: float,
    service_url: str,
) -> None:
    """Send messages to a topic; returns when all are stored."""
    payloads = [each.encode() for each in messages] + [each.read() for each in files]
    if not payloads and lines is None:
        raise click.UsageError("nothing to send: give --messages, --files or --lines")
    shared = read_properties(properties)
    outgoing = (Outgoing(payload, key, shared) for payload in _repeat(payloads, lines, num_produce))
    run(_produce(asked, service_url, topic, outgoing, rate))


def _repeat(payloads: list[bytes], lines: BinaryIO | None, times: int) -> Iterator[bytes]:
    for _ in range(times):
        yield from payloads
    if lines is not None:
        for line in lines:
            yield line.rstrip(b"\r\n")


async def _produce(
    asked: Asking, service_url: str, topic: str, outgoing: Iterable[Outgoing], rate: float
) -> None:
    exchange = await connect(service_url)
    try:
        producers = await _open(exchange, topic)
        started = time.monotonic()
        sender = Sender(exchange, producers)
        for number, message in enumerate(outgoing):
            if rate > 0:
                await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            await sender.send(message)
            _show_progress(asked, number + 1, started)
        await sender.drain()
    finally:
        exchange.close()
    _show_result(asked, sender, time.monotonic() - started)


async def _open(exchange: Exchange, topic: str) -> dict[int, str]:
    """A producer for each partition; ids and the names the broker gave them."""
    names = {}
    for number, partition in enumerate(await partitions_of(exchange, topic)):
        answer = await exchange.request(
            wire_pb2.CommandProducer(topic=partition, producer_id=number)
        )
        names[number] = answer.producer_name
    return names


class Sender:
    def __init__(self, exchange: Exchange, producers: dict[int, str]) -> None:
        self._exchange = exchange
        self._producers = producers
        self._sequences = dict.fromkeys(producers, 0)
        self._count = 0
        self._room = asyncio.Event()
        self.stored = 0
        self.last: Receipt | None = None
        exchange.on_receipt = self._on_receipt

    async def send(self, message: Outgoing) -> None:
        producer = self._choose(message)
        metadata = wire_pb2.MessageMetadata(
            producer_name=self._producers[producer],
            sequence_id=self._sequences[producer],
            publish_time=int(time.time() * 1000),
        )
        if message.key is not None:
            metadata.partition_key = message.key
        for name, text in message.properties.items():
            metadata.properties.add(key=name, value=text)
        send = Send()
        send.producer_id, send.sequence_id = producer, self._sequences[producer]
        self._exchange.connection.send_entry(send, build_entry(metadata, message.payload))
        self._exchange.flush()
        self._sequences[producer] += 1
        self._count += 1
        await self._wait(self._count - WINDOW)

    def _choose(self, message: Outgoing) -> int:
        if message.key is None:
            return self._count % len(self._producers)
        return (murmur3_32(message.key.encode()) & 0x7FFFFFFF) % len(self._producers)

    async def drain(self) -> None:
        await self._wait(self._count)

    async def _wait(self, stored: int) -> None:
        while self.stored < stored:
            self._room.clear()
            waiting = asyncio.ensure_future(self._room.wait())
            try:
                await self._exchange.whichever(waiting)
            finally:
                waiting.cancel()

    def _on_receipt(self, receipt: Receipt) -> None:
        self.stored += 1
        self.last = receipt
        self._room.set()


def _show_progress(asked: Asking, count: int, started: float) -> None:
    if count % 1000 == 0 and not asked.as_json and sys.stderr.isatty():
        rate = count / max(time.monotonic() - started, 1e-9)
        click.echo(f"\r{count:,} sent, {rate:,.0f}/s", nl=False, err=True)


def _show_result(asked: Asking, sender: Sender, seconds: float) -> None:
    last = sender.last.id if sender.last is not None else None
    if asked.as_json:
        found = {"produced": sender.stored, "seconds": round(seconds, 6)}
        shown = {**found, "lastMessageId": f"{last.ledger}:{last.entry}"} if last else found
        click.echo(json.dumps(shown))
        return
    if sys.stderr.isatty() and sender.stored >= 1000:
        click.echo("", err=True)
    click.echo(f"{sender.stored} messages stored")
