import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.host import cpus_text, parse_cpus


@given(st.sets(st.integers(0, 8191)))
def test_round_trip(cpus: set[int]) -> None:
    text = cpus_text(cpus)
    assert not cpus or parse_cpus(text) == tuple(sorted(cpus))


def test_reads_as_the_kernel_writes() -> None:
    assert parse_cpus("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert cpus_text([8, 0, 1, 3, 2, 11, 10]) == "0-3,8,10-11"


@pytest.mark.parametrize(
    "text", ["", "a", "3-1", "-1", "0-", "1,,2", "0-8192", "99999999999999999999", "0x1", "²"]
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        parse_cpus(text)
