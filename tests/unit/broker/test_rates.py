from __future__ import annotations

import pytest

from anabranch.broker.rates import Rate, RateMeter


def test_a_steady_flow_reads_as_what_it_is() -> None:
    meter = RateMeter(0.0)
    for second in range(200):
        meter.record(second + 0.5, 3, 300)
        if second > 10:
            assert meter.rate(second + 1.0) == pytest.approx((3.0, 300.0))


def test_a_flow_that_stopped_fades_to_nothing() -> None:
    meter = RateMeter(0.0)
    meter.record(1.0, 60, 60)
    assert meter.rate(30.0).messages == pytest.approx(2.0)
    assert meter.rate(66.0) == Rate(0.0, 0.0)
    assert meter.total_messages == 60


def test_the_first_instant_is_no_rate_yet() -> None:
    meter = RateMeter(0.0)
    meter.record(0.001, 5, 5)
    assert meter.rate(0.001) == Rate(5.0, 5.0)


def test_a_long_silence_costs_no_more_than_a_minute() -> None:
    meter = RateMeter(0.0)
    meter.record(0.0, 1, 1)
    meter.record(1e9, 10, 10)
    assert meter.rate(1e9 + 1).messages == pytest.approx(10 / 61, rel=0.1)
