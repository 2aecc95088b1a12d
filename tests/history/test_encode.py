from __future__ import annotations

import os
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.history.encode import digest, json_text, json_value, pack, plain_text, unpack


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_samples_come_back_whole_and_in_order(samples: list[int]) -> None:
    assert unpack(len(samples), pack(samples)) == tuple(samples)


def test_samples_below_two_seconds_take_four_bytes() -> None:
    assert len(pack([2**31 - 1, -5])) == 8
    assert len(pack([2**31, 1])) == 16


@pytest.mark.parametrize(("count", "packed"), [(2, b"1234567"), (3, bytes(8)), (1, bytes(5)), (0, b"1")])
def test_bytes_that_are_no_samples_are_refused(count: int, packed: bytes) -> None:
    with pytest.raises(ValueError, match="do not hold"):
        unpack(count, packed)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1]}) == digest({"b": [1], "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.0})


def test_json_takes_views_and_refuses_what_has_no_json() -> None:
    assert json_text(MappingProxyType({"a": range(2)})) == '{"a":[0,1]}'
    with pytest.raises(TypeError):
        json_text({"a": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="JSON"):
        json_text(float("nan"))


def test_a_file_name_that_is_not_utf8_survives() -> None:
    name = os.fsdecode(b"/tmp/\xff")
    assert json_value(json_text(name)) == name
    assert plain_text(name) == "/tmp/\\udcff"
