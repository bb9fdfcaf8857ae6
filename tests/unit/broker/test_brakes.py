from __future__ import annotations

from anabranch.broker.brakes import Brakes, Reason


def test_reading_goes_on_when_the_last_reason_is_gone() -> None:
    calls: list[str] = []
    brakes = Brakes(lambda: calls.append("pause"), lambda: calls.append("resume"))
    brakes.put_on(Reason.BYTES)
    brakes.put_on(Reason.RATE)
    brakes.put_on(Reason.BYTES)
    brakes.release(Reason.BYTES)
    assert (calls, brakes.are_on) == (["pause"], True)
    brakes.release(Reason.RATE)
    brakes.release(Reason.RATE)
    assert (calls, brakes.are_on) == (["pause", "resume"], False)


def test_a_count_brakes_at_its_limit_and_releases_at_half_of_it() -> None:
    calls: list[str] = []
    brakes = Brakes(lambda: calls.append("pause"), lambda: calls.append("resume"))
    for count in (9, 10, 11, 9, 6):
        brakes.bound(Reason.REQUESTS, count, 10)
    assert calls == ["pause"]
    brakes.bound(Reason.REQUESTS, 5, 10)
    assert calls == ["pause", "resume"]


def test_what_holds_it_is_shown() -> None:
    brakes = Brakes(lambda: None, lambda: None)
    assert repr(brakes) == "Brakes(none)"
    brakes.put_on(Reason.RATE)
    assert repr(brakes) == "Brakes(publish rate)"
