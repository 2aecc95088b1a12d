"""[ph] and [prof] rows: which numbers have which names, what tells cases apart, and what is not guessed."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.ingest.phases import read
from zcopy.ingest.quantities import DoubtError, Quantity
from zcopy.ingest.record import Record


def one(text: str, *by: str) -> Record:
    (record,) = read(text, by)
    return record


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("[ph] quant=0.012ms flush=3.1us", {"quant": 12_000, "flush": 3_100}),
        ("[ph] quant = 0.012 ms, flush = 3.1 µs", {"quant": 12_000, "flush": 3_100}),
        ("[ph] quant 0.012 ms flush 3.1 us", {"quant": 12_000, "flush": 3_100}),
        ("[ph] quant: 0.012 ms | flush: 3.1us", {"quant": 12_000, "flush": 3_100}),
        ("[ph] quant 0.012ms; flush 44 ns; total 1 s", {"quant": 12_000, "flush": 44, "total": 10**9}),
        ("[prof] (wait=1ms) [inval=2ms] {deq=3ms}", {"wait": 10**6, "inval": 2 * 10**6, "deq": 3 * 10**6}),
        ("[ph] wait_ms=1.5 flush_us=2 sync_ns=7 t_sec=1", {
            "wait": 1_500_000, "flush": 2_000, "sync": 7, "t": 10**9,
        }),
        ("[prof] kv write 3.1 ms kv read 2 ms", {"kv write": 3_100_000, "kv read": 2_000_000}),
        ("[prof] layer 3: attn 1.2 ms", {"attn": 1_200_000}),
        ("[ph] M=16 quant=0.012ms", {"quant": 12_000}),
        ("[ph] M=16, quant 0.012 ms", {"quant": 12_000}),
        ("[ph] M 16,32 quant 0.012 ms", {"quant": 12_000}),
        ("[ph] a=1ms,b=2ms,c 3ms", {"a": 10**6, "b": 2 * 10**6, "c": 3 * 10**6}),
        ("[ph] -- a 1 ms -> b 2 ms / 3 tokens", {"a": 10**6, "b": 2 * 10**6}),
    ],
)  # fmt: skip
def test_times(text: str, ns: dict[str, int]) -> None:
    assert dict(one(text).ns) == ns


def test_what_stands_before_the_mark_is_not_read() -> None:
    assert dict(one("Nov 06 12:00:01 a=1ms serve[12]: [ph] b=2ms").ns) == {"b": 2_000_000}


def test_two_marks_are_two_records() -> None:
    assert [(each.case["stage"], dict(each.ns)) for each in read("[ph] a=1ms [prof] b=2ms")] == [
        ("ph", {"a": 10**6}),
        ("prof", {"b": 2 * 10**6}),
    ]


def test_other_numbers_are_kept_in_their_units() -> None:
    found = one("[prof] bytes=458752 copied=2MiB rate 10.2 GB/s speed=31 tok/s M=16 share: 5 %")
    assert dict(found.others) == {
        "bytes": Quantity(458752, "bytes"),
        "copied": Quantity(2 << 20, "bytes"),
        "rate": Quantity(10.2, "GB/s"),
        "speed": Quantity(31, "tokens/s"),
        "M": Quantity(16, "count"),
        "share": Quantity(5, "%"),
    }


def test_words_tell_cases_apart_and_texts_with_digits_do_not() -> None:
    found = one('[prof] gemm: op=qkv kernel=pack16 note="two words" token 12: total 4.32 ms')
    assert found.case == {"stage": "prof", "what": "gemm", "op": "qkv", "note": "two words"}
    assert found.fields == {"kernel": "pack16", "text": "token 12"}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a=1,234ms", {"a": "1,234ms"}),
        ("a=16,32", {"a": "16,32"}),
        ("a 1,234 ms", {"text": "a 1,234 ms"}),
        ("a=0x1f", {"a": "0x1f"}),
        ("12 tokens", {"text": "12 tokens"}),
    ],
)
def test_numbers_that_could_be_read_in_two_ways_are_kept_as_they_stand(
    text: str, fields: dict[str, str]
) -> None:
    found = one(f"[ph] b=1ms {text}")
    assert (dict(found.ns), dict(found.others)) == ({"b": 10**6}, {})
    assert dict(found.fields) == fields


def test_by_takes_numbers_and_texts_into_the_case() -> None:
    found = one("[ph] M=16 kernel=pack16 size=2MiB quant=1us", "M", "kernel", "size", "quant")
    assert found.case == {"stage": "ph", "M": 16, "kernel": "pack16", "size": "2 MiB"}
    assert dict(found.ns) == {"quant": 1000}  # a time is a sample, whatever is asked


@pytest.mark.parametrize("name", ["stage", "what", "text"])
def test_a_field_cannot_pass_for_a_key_of_ours(name: str) -> None:
    found = one(f"[ph] {name}=prof a=1ms", name)
    assert found.case == {"stage": "ph"}
    assert found.fields == {name: "prof"}


@pytest.mark.parametrize(
    "text",
    [
        "[ph] a=-1ms",
        "[ph] a -1 ms b=2ms",
        "[ph] a=nan b=1ms",
        "[ph] a nan ms b=1ms",
        "[ph] a=inf",
        "[ph] a=1e99ms",
        "[ph] a=90000s",
        "[ph] n=-3 a=1ms",
        "[ph] a=1ms a=2ms",
        "[ph] a=1ms a_ms=2",
        f"[ph] {'x' * 100}=1ms",
        "[ph] " + " ".join(f"p{i}=1ms" for i in range(300)),
    ],
)
def test_what_cannot_be_or_is_ambiguous_is_doubted(text: str) -> None:
    with pytest.raises(DoubtError):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "[ph]",
        "[prof] begin",
        "[ph] state=start",
        "[ph] 1.2 ms",
        "[ph] -- 1.2 ms",
        "[PH] a=1ms",
        "[phx] a=1ms",
        "a=1ms",
    ],
)
def test_no_named_number_is_no_record(text: str) -> None:
    assert read(text) == ()


names = st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(
    lambda name: (
        name not in ("nan", "inf", "infinity", "ns", "us", "ms", "s", "stage", "what", "text")
        and not name.endswith("bytes")
    )
)


@given(
    st.dictionaries(names, st.integers(0, 10**9), min_size=1, max_size=20), st.sampled_from(["=", " ", ": "])
)
def test_whatever_is_written_is_read(times: dict[str, int], between: str) -> None:
    text = " ".join(f"{name}{between}{value / 1000} us" for name, value in times.items())
    assert dict(one(f"[ph] {text}").ns) == times


@given(st.text(alphabet=st.sampled_from('ab1.= ,:;"()[]-+eE_%msµ/nf\t\x00é')))
def test_any_text_is_read_or_doubted(text: str) -> None:
    try:
        records = read(f"[ph] {text}", ("a",))
    except DoubtError:
        return
    assert all(record.ns or record.others for record in records)


@pytest.mark.parametrize(
    "text",
    [
        "a_" * 200_000 + "1",
        "a-" * 200_000 + "1",
        "1" * 400_000,
        '"' * 400_000,
        "a=" * 200_000,
        "[ph]" * 100_000,
    ],
    ids=["underscores", "dashes", "digits", "quotes", "assignments", "marks"],
)
def test_long_rows_take_time_in_proportion(text: str) -> None:
    """Against a tenth of the same, with room for noise: a square would be a hundred times as long."""

    def cost(text: str) -> float:
        began = time.process_time()
        with contextlib.suppress(DoubtError):
            read(f"[ph] {text} x=1ms {text}")
        return time.process_time() - began

    assert cost(text) < 60 * max(cost(text[: len(text) // 10]), 0.005)
