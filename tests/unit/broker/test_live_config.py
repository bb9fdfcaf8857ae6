"""Settings that change while the broker runs, and are there after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anabranch.broker.config import Config, load_config
from anabranch.broker.live_config import CONFIGURATION_PATH, LiveConfig
from anabranch.errors import InvalidInput
from tests.broker_records import memory_store

KEY = "brokerDeleteInactiveTopicsEnabled"


class Applied(list[Config]):
    async def __call__(self, config: Config) -> None:
        self.append(config)


def play(scenario: Callable[[LiveConfig, Applied], Awaitable[None]]) -> None:
    async def run() -> None:
        applied = Applied()
        live = LiveConfig(memory_store(), load_config("maxTenants = 3"), applied)
        await live.load()
        assert applied == []
        await scenario(live, applied)

    asyncio.run(run())


def test_a_setting_is_changed_applied_and_taken_back() -> None:
    async def scenario(live: LiveConfig, applied: Applied) -> None:
        await live.set(KEY, "false")
        assert live.current.topics.delete_inactive is False
        assert applied == [live.current]
        await live.set("maxTenants", "5")
        assert live.changed == {KEY: "false", "maxTenants": "5"}
        await live.unset("maxTenants")
        assert live.current.admin.max_tenants == 3
        assert live.changed == {KEY: "false"}

    play(scenario)


def test_what_cannot_be_changed_is_refused() -> None:
    async def scenario(live: LiveConfig, applied: Applied) -> None:
        for name, text in (("nonsense", "1"), ("brokerServicePort", "1"), (KEY, "maybe")):
            with pytest.raises(InvalidInput):
                await live.set(name, text)
        with pytest.raises(InvalidInput):
            await live.unset(KEY)
        assert applied == []

    play(scenario)


def test_changes_outlive_the_process_and_unreadable_ones_are_passed_over() -> None:
    async def run() -> None:
        store, applied = memory_store(), Applied()
        await LiveConfig(store, Config(), applied).set(KEY, "false")
        value = b'{"brokerDeleteInactiveTopicsEnabled": "false", "gone": "1"}'
        await store.put(CONFIGURATION_PATH, value, None)
        again = LiveConfig(store, Config(), applied)
        await again.load()
        assert again.current.topics.delete_inactive is False
        assert again.changed == {KEY: "false"}

    asyncio.run(run())
