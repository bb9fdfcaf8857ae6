"""The broker benchmark's tables, and a verdict on each goal that can be read off them."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.load import Figures
from benchmarks.report import median_and_range

Found = dict[str, list[float]]  # unit -> one value per round

COLUMNS = ("msg/s", "MB/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU us/msg", "CPU s/GB", "RSS MB")


@dataclass
class Results:
    """By what was measured, then by variant."""

    versions: dict[str, str] = field(default_factory=dict)
    found: dict[str, dict[str, Found]] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, measure: str, variant: str, figures: Figures) -> None:
        place = self.found.setdefault(measure, {}).setdefault(variant, {})
        for unit, value in figures.items():
            place.setdefault(unit, []).append(value)

    def fail(self, measure: str, variant: str, reason: str) -> None:
        self.failures.setdefault((measure, variant), []).append(reason)

    def median(self, measure: str, variant: str, unit: str = "msg/s") -> float | None:
        values = self.found.get(measure, {}).get(variant, {}).get(unit)
        return statistics.median(values) if values else None

    def to_json(self) -> str:
        return json.dumps(
            {
                "machine": {
                    "python": platform.python_version(),
                    "system": platform.platform(),
                    "cpus": os.cpu_count(),
                },
                "peers": self.versions,
                "found": self.found,
                "failures": [
                    {"measure": measure, "variant": variant, "reasons": reasons}
                    for (measure, variant), reasons in self.failures.items()
                ],
            },
            indent=1,
        )


def print_report(question: str, results: Results) -> None:
    print(question, end="\n\n")
    for program, version in results.versions.items():
        print(f"- {program}: {version}")
    print()
    for measure, variants in results.found.items():
        print(f"## {measure}\n")
        print_variants(variants)
        print()
    print_failures(results)
    print_goals(results)


def print_variants(variants: dict[str, Found]) -> None:
    units = [unit for unit in COLUMNS if any(unit in found for found in variants.values())]
    units += sorted({unit for found in variants.values() for unit in found} - set(COLUMNS))
    lines = [["variant", *units]]
    for variant, found in variants.items():
        lines.append([variant, *(cell(found, unit) for unit in units)])
    print_aligned(lines)


def cell(found: Found, unit: str) -> str:
    return median_and_range(found[unit]) if unit in found else ""


def print_aligned(lines: Sequence[Sequence[str]]) -> None:
    """As a Markdown table, so that it can be pasted where it is wanted."""
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for number, line in enumerate(lines):
        print("| " + " | ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def print_failures(results: Results) -> None:
    if results.failures:
        print("## Not measured\n")
        for (measure, variant), reasons in results.failures.items():
            print(f"- {variant}, {measure}: {len(reasons)} times, last: {reasons[-1]}")
        print()


@dataclass(frozen=True, slots=True)
class Goal:
    """`value` must be at least `bar`, or at most if `is_upper`."""

    text: str
    value: float | None
    bar: float
    is_upper: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        is_met = self.value <= self.bar if self.is_upper else self.value >= self.bar
        return "met" if is_met else "missed"


PUBLISH = "publish 1 KB, 1000 in flight"
FROM_MEMORY = "read 1 KB from memory"


def goals(results: Results) -> list[Goal]:
    found: list[Goal] = []
    for mode, bars in (
        ("compiled", (200_000, 300, 700_000, 6, 0.2, 0.7, 2)),
        ("interpreted", (90_000, 250, 400_000, 11, 0.3, 1.0, 1)),
    ):
        if any(mode in variants for variants in results.found.values()):
            found += absolute_goals(results, mode, bars) + relative_goals(results, mode, bars[-1])
    return found


def absolute_goals(results: Results, mode: str, bars: Sequence[float]) -> list[Goal]:
    entries, megabytes, dispatch, cpu, commit, tail, _ = bars
    large = results.median("publish 128 KB, 100 in flight", mode, "MB/s")
    latency = results.median("publish 1 KB, 1 in flight", mode, "p50 ms")
    disk = results.median("bare disk: 4 KB write+fdatasync, p50", "disk", "ms")
    more = None if latency is None or disk is None else latency - disk
    per_entry = added(
        results.median(PUBLISH, mode, "CPU us/msg"), results.median(FROM_MEMORY, mode, "CPU us/msg")
    )
    starts = [name for name in results.found if name.startswith("start on")]
    slowest = [results.median(name, mode, "ready s") for name in starts]
    return [
        Goal(f"{mode}: 1 KB entries/s", results.median(PUBLISH, mode), entries),
        Goal(f"{mode}: 128 KB entries, MB/s", large, megabytes),
        Goal(f"{mode}: 1 KB entries/s from memory", results.median(FROM_MEMORY, mode), dispatch),
        Goal(f"{mode}: CPU us per 1 KB entry in and out", per_entry, cpu, is_upper=True),
        Goal(f"{mode}: one in flight, ms above the bare disk", more, commit, is_upper=True),
        Goal(
            f"{mode}: publish to receive at 500/s, p50 ms",
            results.median("1 KB, tailing at 500/s", mode, "p50 ms"),
            tail,
            is_upper=True,
        ),
        Goal(
            f"{mode}: idle MB",
            results.median("idle server, empty directory", mode, "RSS MB"),
            120,
            is_upper=True,
        ),
        Goal(
            f"{mode}: seconds to start on old messages",
            max([each for each in slowest if each is not None], default=None),
            1.5,
            is_upper=True,
        ),
    ]


def relative_goals(results: Results, mode: str, redis_bar: float) -> list[Goal]:
    def against(peer: str, measure: str = PUBLISH) -> float | None:
        return ratio(results.median(measure, mode), results.median(measure, peer))

    one, many = PUBLISH, f"{PUBLISH}, 64 topics"
    spread = ratio(results.median(many, mode), results.median(one, mode))
    shapes = ("", ", 10 connections", ", 50 connections")
    found = [
        Goal(f"{mode}: times redis-always{shape}", against("redis-always", one + shape), redis_bar)
        for shape in shapes
    ]
    found += [
        Goal(f"{mode}: times nats-always", against("nats-always"), 20),
        Goal(f"{mode}: 64 topics against one", spread, 0.6),
    ]
    if mode == "compiled":
        found.append(Goal(f"{mode}: times nats, which does not sync", against("nats"), 1))
    return found


def added(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def print_goals(results: Results) -> None:
    print("## Goals\n")
    lines = [["goal", "measured", "bar", "verdict"]]
    for goal in goals(results):
        value = "" if goal.value is None else f"{goal.value:,.3g}"
        if goal.value is not None and goal.value >= 1000:
            value = f"{goal.value:,.0f}"
        sign = "<=" if goal.is_upper else ">="
        lines.append([goal.text, value, f"{sign} {goal.bar:,g}", goal.verdict])
    print_aligned(lines)
