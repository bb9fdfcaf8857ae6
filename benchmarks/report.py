"""How every benchmark reports: a table for people, JSON for comparisons, medians with their range.

A row is what was measured, in which variant, and one number per round. Rounds of different variants
are interleaved by the benchmark itself, so that a busy moment of the machine hurts all of them.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    measure: str
    variant: str
    unit: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def median_and_range(values: Sequence[float]) -> str:
    """`12.3 [11.8-14.0]`: the middle, and how far the machine was from repeating it."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{_short(middle)} [{_short(low)}-{_short(high)}]"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_table(rows: Sequence[Row], *, baseline: str | None = None) -> None:
    """One line per row; with a `baseline`, how many times its median each variant reaches."""
    columns = [
        ("measure", "variant", "unit", "median [range]", *(("against",) if baseline else ()))
    ]
    for row in rows:
        line = (row.measure, row.variant, row.unit, median_and_range(row.rounds))
        columns.append((*line, _against(row, rows, baseline)) if baseline else line)
    widths = [max(len(line[index]) for line in columns) for index in range(len(columns[0]))]
    for number, line in enumerate(columns):
        print(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )
        if number == 0:
            print("  ".join("-" * width for width in widths))


def _against(row: Row, rows: Sequence[Row], baseline: str | None) -> str:
    for other in rows:
        if other.measure == row.measure and other.variant == baseline and other.median:
            return f"{row.median / other.median:.2f}x {baseline}"
    return ""


def to_json(question: str, rows: Sequence[Row]) -> str:
    return json.dumps(
        {
            "question": question,
            "machine": {"python": platform.python_version(), "system": platform.platform()},
            "rows": [{**asdict(row), "median": row.median} for row in rows],
        },
        indent=1,
    )


def report(
    question: str,
    rows: Sequence[Row],
    *,
    json_file: str | None = None,
    baseline: str | None = None,
) -> None:
    """The table, then the JSON: into a file if one is named, else below the table."""
    print(question, end="\n\n")
    print_table(rows, baseline=baseline)
    if json_file is None:
        print("\n" + to_json(question, rows))
    else:
        Path(json_file).write_text(to_json(question, rows) + "\n")
