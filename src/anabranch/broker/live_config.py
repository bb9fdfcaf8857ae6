"""The configuration as it is now: the file's, and over it what was changed while the broker runs.

    /admin/configuration    {"brokerDeleteInactiveTopicsEnabled": "false", …}

Only dynamic keys can be changed. The changes are kept and hold after a restart too; one that the
configuration no longer takes is passed over with a warning, since a broker must start.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from anabranch.broker.config import Config
from anabranch.broker.record_update import ATTEMPTS
from anabranch.errors import AnabranchError, BadVersion, InvalidInput, NotFound, Unavailable
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.topics.json_fields import encode_json, parse_json

log = logging.getLogger(__name__)

CONFIGURATION_PATH: Final = "/admin/configuration"


class LiveConfig:
    def __init__(
        self,
        store: MetadataStore,
        config: Config,
        on_change: Callable[[Config], Awaitable[None]],
    ) -> None:
        self.current = config
        self.changed: dict[str, str] = {}
        self._at_start = config
        self._store = store
        self._on_change = on_change

    async def load(self) -> None:
        found, _ = await self._read()
        for name, text in found.items():
            try:
                self.current = self.current.with_dynamic(name, text)
                self.changed[name] = text
            except AnabranchError as error:
                log.warning("stored setting passed over key=%s error=%s", name, error)
        if self.changed:
            await self._on_change(self.current)

    async def set(self, name: str, text: str) -> None:
        try:
            self.current.with_dynamic(name, text)
        except NotFound as error:
            raise InvalidInput(str(error)) from None
        await self._save(lambda changed: changed | {name: text})

    async def unset(self, name: str) -> None:
        """Back to what the file says."""
        if name not in self.changed:
            raise InvalidInput(f"{name} was not changed while the broker runs")
        await self._save(
            lambda changed: {key: text for key, text in changed.items() if key != name}
        )

    async def _save(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        for _ in range(ATTEMPTS):
            found, version = await self._read()
            changed = change(found)
            config = self._at_start
            for name, text in changed.items():
                config = config.with_dynamic(name, text)
            try:
                await self._store.put(CONFIGURATION_PATH, encode_json(dict(changed)), version)
            except BadVersion:
                continue
            self.current, self.changed = config, changed
            log.info("configuration changed settings=%s", changed)
            await self._on_change(config)
            return
        raise Unavailable("the configuration was changed by others, try again")

    async def _read(self) -> tuple[dict[str, str], int]:
        found = await self._store.get(CONFIGURATION_PATH)
        if found is None:
            return {}, NEW
        raw = parse_json(found[0], CONFIGURATION_PATH)
        settings = raw if isinstance(raw, dict) else {}
        return {name: str(text) for name, text in settings.items()}, found[1].version
