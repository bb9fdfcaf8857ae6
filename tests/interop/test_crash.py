"""A few deaths in every test run; `python -m tests.interop.crash` has as many as one likes."""

from __future__ import annotations

from pathlib import Path

from tests.interop.crash import History, run


def test_nothing_that_was_answered_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    history = run(5, seed=7, data=tmp_path / "data")
    assert history.flaws() == []
    # Else it would prove nothing.
    assert len(history.acknowledged) > 1000
    assert len(history.careful.confirmed) > 1000


def test_the_oracle_sees_every_kind_of_flaw() -> None:
    history = History(sent=20, acknowledged={1, 2, 3})
    history.careful.confirmed = {2}
    for number in (9, 1, 2, 30):
        history.careful.note(number)
    assert history.flaws() == [
        "plain subscription: lost: 3, the first are [1, 2, 3]",
        "careful subscription: lost: 1, the first are [3]",
        "careful subscription: invented: 1, the first are [30]",
        "careful subscription: forgotten: 1, the first are [2]",
        "careful subscription: reordered: 1, the first are [1]",
    ]
