"""Times and sizes as people type them: 10m, 7d, 512K, 2G; -1 is without end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

_QUANTITY = re.compile(r"(-?[0-9]+)([A-Za-z]*)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Quantity(click.ParamType[int]):
    def __init__(self, name: str, units: Mapping[str, int]) -> None:
        self.name = name
        self._units = units

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _QUANTITY.fullmatch(str(value))
        unit = match[2].lower().removesuffix("ib") if match else ""
        if match is None or unit not in self._units:
            known = ", ".join(each for each in self._units if each)
            self.fail(f"{value!r} is no {self.name}; a number, then one of {known}", param, ctx)
        return int(match[1]) * self._units[unit]


SECONDS: Final = Quantity("time", _SECONDS)
BYTES: Final = Quantity("size", _BYTES)
