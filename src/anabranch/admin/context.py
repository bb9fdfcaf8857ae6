"""What handlers are given: the broker they operate on, and its configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from anabranch.broker.catalogue import Catalogue
from anabranch.broker.live_config import LiveConfig
from anabranch.broker.server import Broker
from anabranch.errors import TooManyRequests

log = logging.getLogger(__name__)

# Work that goes on after its request was answered.
MAX_BACKGROUND = 1000


@dataclass(slots=True)
class Admin:
    broker: Broker
    live: LiveConfig
    http_url: str = ""
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def catalogue(self) -> Catalogue:
        return self.broker.catalogue

    @property
    def broker_id(self) -> str:
        """As lists of brokers show it: host and web port."""
        return self.http_url.removeprefix("http://")

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._background) >= MAX_BACKGROUND:
            work.close()
            raise TooManyRequests(f"{MAX_BACKGROUND} operations go on in the background already")
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("background operation failed error=%r", error)

    async def stop(self) -> None:
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
