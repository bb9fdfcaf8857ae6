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
    from tests.interop.exchange import connect

    connected = connect(broker)
    yield connected
    connected.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    return f"persistent://public/default/{name}"
