"""One broker for all tests that do not kill it; each test has topics of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.broker_process import BrokerProcess

try:
    import pulsar
except ImportError:  # no wheel of the client for this Python
    pulsar = None

if pulsar is None and os.environ.get("ANABRANCH_REQUIRE_ENGINES") != "1":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    yield process
    assert process.stop() == 0


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    connected = pulsar.Client(
        broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), operation_timeout_seconds=20
    )
    yield connected
    connected.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"persistent://public/default/{request.node.name}".replace("[", "-").replace("]", "")
