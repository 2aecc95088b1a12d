from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from zcopy.history.ids import new_id

MOMENT = datetime(2026, 11, 30, 21, 5, 1, 250_000, UTC)
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def test_an_id_is_the_second_then_eight_letters() -> None:
    assert re.fullmatch(r"20261130-210501-[a-z0-9]{8}", new_id(MOMENT, random.getrandbits))


def test_an_id_is_in_utc() -> None:
    local = MOMENT.astimezone(timezone(timedelta(hours=5)))
    assert new_id(local, lambda _: 0) == new_id(MOMENT, lambda _: 0)


@given(MOMENTS, MOMENTS, st.integers(0, 2**20 - 1), st.integers(0, 2**20 - 1))
def test_ids_sort_by_time_down_to_the_microsecond(a: datetime, b: datetime, first: int, second: int) -> None:
    ids = [new_id(a, lambda _: first), new_id(b, lambda _: second)]
    if a != b:
        assert (ids[0] < ids[1]) == (a < b)


def test_ids_of_one_microsecond_differ() -> None:
    source = random.Random(1)
    assert len({new_id(MOMENT, source.getrandbits) for _ in range(24)}) == 24
