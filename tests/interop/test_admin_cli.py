"""The command line against a real broker: output, exit codes, and messages through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import receive, send_all, texts


class Cli:
    def __init__(self, broker: BrokerProcess) -> None:
        self._environment = os.environ | {
            "ANABRANCH_ADMIN_URL": broker.http_url,
            "ANABRANCH_SERVICE_URL": broker.url,
        }

    def run(self, *arguments: str, code: int = 0, typed: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "anabranch", *arguments],
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        if code:
            assert done.stderr.strip(), "an error says why"
            return done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture(scope="module")
def cli(broker: BrokerProcess) -> Cli:
    return Cli(broker)


def test_tenants_namespaces_and_topics_come_and_go(cli: Cli) -> None:
    assert cli.run("tenants", "create", "acme") == "created tenant acme\n"
    assert "exists already" in cli.run("tenants", "create", "acme", code=1)
    assert "acme" in cli.json("tenants", "list")
    cli.run("namespaces", "create", "acme/shop")
    assert cli.run("namespaces", "list", "acme") == "acme/shop\n"
    cli.run("topics", "create-partitioned-topic", "acme/shop/orders", "-p", "3")
    cli.run("topics", "update-partitioned-topic", "acme/shop/orders", "-p", "4")
    found = cli.json("topics", "get-partitioned-topic-metadata", "acme/shop/orders")
    assert found == {"partitions": 4}
    assert len(cli.json("topics", "list", "acme/shop")) == 4
    assert "has 4 topics" in cli.run("namespaces", "delete", "acme/shop", code=1)
    cli.run("topics", "delete-partitioned-topic", "acme/shop/orders")
    cli.run("namespaces", "delete", "acme/shop")
    cli.run("tenants", "delete", "acme")
    assert "acme" not in cli.json("tenants", "list")


def test_policies_are_set_as_people_type_them(cli: Cli) -> None:
    cli.run("namespaces", "create", "public/policies")
    space = "public/policies"
    cli.run("namespaces", "set-retention", space, "-s", "2G", "-t", "7d")
    assert cli.json("namespaces", "get-retention", space) == {
        "retentionSizeInMB": 2048,
        "retentionTimeInMinutes": 7 * 24 * 60,
    }
    cli.run("namespaces", "set-message-ttl", space, "--messageTTL", "10m")
    assert cli.json("namespaces", "get-message-ttl", space) == 600
    cli.run("namespaces", "set-backlog-quota", space, "-l", "1M", "-p", "producer_exception")
    quota = cli.json("namespaces", "get-backlog-quotas", space)["destination_storage"]
    assert (quota["limitSize"], quota["policy"]) == (1 << 20, "producer_exception")
    cli.run("namespaces", "set-auto-topic-creation", space, "-e", "-t", "partitioned", "-n", "2")
    found = cli.json("namespaces", "get-auto-topic-creation", space)
    assert found["defaultNumPartitions"] == 2
    cli.run("namespaces", "remove-message-ttl", space)
    assert cli.run("namespaces", "get-message-ttl", space) == "not set\n"
    cli.run("topics", "create", f"{space}/x")
    cli.run("topics", "set-max-producers", f"{space}/x", "-p", "3")
    assert cli.run("topics", "get-max-producers", f"{space}/x") == "3\n"
    assert cli.json("topics", "get-message-ttl", f"{space}/x", "--applied") == 0


def test_messages_go_through_and_keep_their_order(cli: Cli, topic: str) -> None:
    lines = "".join(f"{each}\n" for each in texts(50))
    assert cli.run("produce", topic, "--lines", "-", typed=lines) == "50 messages stored\n"
    found = cli.run("consume", topic, "-s", "s", "-p", "earliest", "-n", "50")
    assert found.splitlines() == texts(50)
    assert "0 of 1 messages" in cli.run(
        "consume", topic, "-s", "s", "-n", "1", "--wait", "0.3", code=1
    )
    assert cli.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 0


def test_json_lines_tell_all_about_a_message(cli: Cli, topic: str, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\x00")
    cli.run("produce", topic, "-m", "hello", "-f", str(binary), "-k", "k", "-p", "a=1,b=2")
    out = cli.run("consume", topic, "-s", "s", "-p", "earliest", "-n", "2", "--json")
    first, second = map(json.loads, out.splitlines())
    assert (first["payload"], first["key"]) == ("hello", "k")
    assert first["properties"] == {"a": "1", "b": "2"}
    assert second["payloadBase64"] == "/wA="


def test_what_the_real_client_sent_is_shown(cli: Cli, client: pulsar.Client, topic: str) -> None:
    for kind in (pulsar.CompressionType.NONE, pulsar.CompressionType.LZ4):
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=50, compression_type=kind
        )
        send_all(producer, texts(10))
        producer.close()
    found = cli.run("consume", topic, "-s", "s", "-p", "earliest", "-n", "20")
    assert found.splitlines() == texts(10) * 2


def test_what_was_sent_is_received_by_the_real_client(
    cli: Cli, client: pulsar.Client, topic: str
) -> None:
    cli.run("topics", "create-partitioned-topic", topic, "-p", "3")
    consumer = client.subscribe(topic, "s")
    assert cli.json("produce", topic, "-m", "a", "-m", "b", "-n", "3")["produced"] == 6
    assert sorted(receive(consumer, 6)) == ["a"] * 3 + ["b"] * 3


def test_subscriptions_are_made_moved_and_ended(cli: Cli, topic: str) -> None:
    cli.run("topics", "create", topic)
    cli.run("topics", "create-subscription", topic, "-s", "s", "-m", "earliest")
    cli.run("produce", topic, "-m", "x", "-n", "10")
    cli.run("topics", "skip", topic, "-s", "s", "-n", "3")
    assert cli.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 7
    cli.run("topics", "reset-cursor", topic, "-s", "s", "-t", "1h")
    assert cli.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 10
    cli.run("topics", "reset-cursor", topic, "-s", "s", "-m", "latest")
    assert "msgBacklog" in cli.run("topics", "stats", topic, "--json")
    table = cli.run("topics", "stats", topic)
    assert "subscriptions" in table
    cli.run("topics", "unsubscribe", topic, "-s", "s")
    assert cli.json("topics", "subscriptions", topic) == []
    assert cli.json("topics", "terminate", topic)["entryId"] == 9
    assert "TopicTerminated" in cli.run("produce", topic, "-m", "x", code=1)


def test_schemas_are_uploaded_and_compared(cli: Cli, topic: str, tmp_path: Path) -> None:
    def file(name: str, *fields: str) -> str:
        record = {
            "type": "record",
            "name": "R",
            "fields": [{"name": each, "type": "string"} for each in fields],
        }
        path = tmp_path / name
        path.write_text(json.dumps({"type": "JSON", "schema": json.dumps(record)}))
        return str(path)

    cli.run("topics", "create", topic)
    assert cli.json("schemas", "upload", topic, "-f", file("one", "a")) == {"version": 0}
    assert cli.json("schemas", "get", topic)["version"] == 0
    other = file("other", "b")
    refused = cli.run("schemas", "upload", topic, "-f", other, code=1)
    assert "409" in refused
    cli.run("schemas", "delete", topic)
    assert "404" in cli.run("schemas", "get", topic, code=1)


def test_the_broker_says_how_it_is(cli: Cli) -> None:
    assert cli.run("brokers", "healthcheck") == "ok\n"
    assert cli.json("clusters", "list") == ["standalone"]
    cli.run("brokers", "update-dynamic-config", "--config", "maxTenants", "--value", "100")
    assert cli.json("brokers", "get-all-dynamic-config") == {"maxTenants": "100"}
    cli.run("brokers", "delete-dynamic-config", "--config", "maxTenants")
    assert "unknown key" in cli.run(
        "brokers", "update-dynamic-config", "--config", "nope", "--value", "1", code=1
    )


def test_what_is_not_understood_has_a_code_of_its_own(cli: Cli) -> None:
    cli.run("nonsense", code=2)
    cli.run("topics", "create", "a/b", code=2)
    cli.run("topics", "reset-cursor", "x", "-s", "s", code=2)
    cli.run("namespaces", "set-retention", "public/default", "-s", "1X", "-t", "1d", code=2)
    cli.run("produce", "x", code=2)
    cli.run("produce", "x", "-m", "y", "-u", "http://nowhere", code=2)


def test_nobody_at_home_is_a_failure_with_a_reason(cli: Cli) -> None:
    nowhere = "http://127.0.0.1:1"
    assert nowhere in cli.run("--admin-url", nowhere, "tenants", "list", code=1)
    assert "127.0.0.1:1" in cli.run("produce", "x", "-m", "y", "-u", "pulsar://127.0.0.1:1", code=1)


def test_a_second_broker_on_the_same_directory_is_refused(broker: BrokerProcess, cli: Cli) -> None:
    data = str(broker.log.with_suffix(""))
    reason = cli.run("standalone", "--data-dir", data, "--port", "0", "--http-port", "0", code=1)
    assert "held by another" in reason
