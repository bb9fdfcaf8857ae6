from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.openings import Openings
from anabranch.errors import NotReady


def test_one_thing_is_opened_once_at_a_time() -> None:
    openings = Openings()
    openings.begin("producer", 1)
    openings.begin("consumer", 1)
    openings.begin("producer", 2)
    with pytest.raises(NotReady, match="producer 1"):
        openings.begin("producer", 1)


def test_what_ended_may_begin_again() -> None:
    async def scenario() -> None:
        openings = Openings()
        with openings.begin("producer", 1):
            pass
        openings.begin("producer", 1)

    asyncio.run(scenario())


def test_what_was_given_up_before_it_began_never_begins() -> None:
    openings = Openings()
    opening = openings.begin("consumer", 1)
    openings.give_up("consumer", 1)
    with pytest.raises(asyncio.CancelledError), opening:
        raise AssertionError("it began")
    openings.begin("consumer", 1)


def test_what_is_given_up_under_way_is_cancelled() -> None:
    async def scenario() -> None:
        openings = Openings()
        opening = openings.begin("consumer", 1)

        async def work() -> None:
            with opening:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        openings.give_up("consumer", 1)
        second = openings.begin("consumer", 1)
        with pytest.raises(asyncio.CancelledError):
            await task
        # The end of the first is not the end of the second.
        with pytest.raises(NotReady):
            openings.begin("consumer", 1)
        with second:
            pass

    asyncio.run(scenario())


def test_giving_up_what_is_not_opened_is_no_mistake() -> None:
    Openings().give_up("producer", 9)
