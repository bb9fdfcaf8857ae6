"""The few moves that most of these tests are made of."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

import pulsar
import pytest

from tests.interop.broker_process import BrokerProcess

# How long the absence of a message is watched for, and how long its presence is waited for.
QUIET_MS = 300
PATIENT_MS = 20_000


def connect(broker: BrokerProcess, *, timeout_seconds: int = 20) -> pulsar.Client:
    return pulsar.Client(
        broker.url,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        operation_timeout_seconds=timeout_seconds,
    )


def send_all(producer: pulsar.Producer, contents: Iterable[str], **options: Any) -> None:
    """Without waiting for each; returns when all are acknowledged."""
    failures: list[object] = []

    def note(result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    for content in contents:
        producer.send_async(content.encode(), note, **options)
    producer.flush()
    assert not failures


def receive(consumer: pulsar.Consumer, count: int, *, is_acked: bool = True) -> list[str]:
    found: list[str] = []
    for _ in range(count):
        message = consumer.receive(PATIENT_MS)
        found.append(message.data().decode())
        if is_acked:
            consumer.acknowledge(message)
    return found


def drain(consumer: pulsar.Consumer) -> list[str]:
    """Everything that comes until nothing does, acknowledged."""
    found: list[str] = []
    while True:
        try:
            message = consumer.receive(QUIET_MS)
        except pulsar.Timeout:
            return found
        found.append(message.data().decode())
        consumer.acknowledge(message)


def assert_silent(consumer: pulsar.Consumer) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(QUIET_MS)


def texts(count: int, start: int = 0) -> list[str]:
    return [f"message {number}" for number in range(start, start + count)]


class Admin:
    """The REST API, as a script would call it."""

    def __init__(self, http_url: str) -> None:
        self._root = f"{http_url}/admin/v2"

    def call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{self._root}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            content = response.read()
        return json.loads(content) if content else None

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def put(self, path: str, body: object = None) -> Any:
        return self.call("PUT", path, body)

    def post(self, path: str, body: object = None) -> Any:
        return self.call("POST", path, body)


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def until(condition: Callable[[], bool], consumer: pulsar.Consumer) -> None:
    """Wait for something elsewhere, with the patience of a receive that gets nothing."""
    for _ in range(PATIENT_MS // 50):
        if condition():
            return
        with pytest.raises(pulsar.Timeout):
            consumer.receive(50)
    raise AssertionError("it never came to be")
