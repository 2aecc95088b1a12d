from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from zcopy.errors import UsageError
from zcopy.history.faults import Fault, StoreError
from zcopy.history.location import HistorySettings
from zcopy.history.opening import Opened, _blank
from zcopy.history.store import Store
from zcopy.model import Json, LockState, Outcome, Row, Run, Status, Warning_

INT64 = st.integers(-(2**63), 2**63 - 1)
# Surrogates stand for the bytes of file names that are not UTF-8.
WORDS = st.text(st.characters(exclude_categories=()), max_size=8)
LEAVES = st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | WORDS
JSON: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
DOCUMENTS = st.dictionaries(WORDS, JSON, max_size=4)
EXTRAS = st.dictionaries(st.sampled_from(("faults", "key", "vs_file", "n_read")), JSON, max_size=3)
NAMES = st.sampled_from(("map", "write", "first_write", "ready"))
ROWS = st.builds(
    Row,
    case=DOCUMENTS,
    outcome=st.sampled_from(Outcome),
    reason=st.none() | WORDS,
    bytes=st.integers(0, 2**63 - 1),
    bytes_copied=st.integers(0, 2**63 - 1),
    verified=st.none() | st.booleans(),
    ns=st.dictionaries(NAMES, st.lists(INT64, max_size=5).map(tuple), max_size=3),
    rate_phase=st.none() | NAMES,
    rate_of=st.sampled_from(("bytes", "bytes_copied")),
    extra=EXTRAS,
)
RUNS = st.builds(
    Run,
    id=st.from_regex(r"[0-9a-z-]{1,24}", fullmatch=True),
    command=st.sampled_from(("fill", "handoff")),
    started=st.just("2026-11-30T21:05:01Z"),
    version=st.just("0.1.0"),
    argv=st.lists(WORDS, max_size=3).map(tuple),
    params=DOCUMENTS,
    host=DOCUMENTS,
    key=DOCUMENTS,
    locks=st.lists(st.builds(LockState, WORDS, st.just("held")), max_size=2).map(tuple),
    warnings=st.lists(st.builds(Warning_, WORDS, WORDS), max_size=2).map(tuple),
    rows=st.lists(ROWS, max_size=3).map(tuple),
    status=st.sampled_from(Status),
    exit=st.integers(0, 255),
    saved=st.just(True),
)


@pytest.fixture(scope="module")
def memory() -> Store:
    """A store that is in no file, since hypothesis saves very many runs."""
    nowhere = HistorySettings(Path("nowhere"), ())
    db = _blank()
    db.execute("PRAGMA foreign_keys = ON")
    return Store(nowhere, Opened(db))


@profile(max_examples=150, deadline=None)
@given(RUNS)
def test_a_run_comes_back_as_it_was_saved(memory: Store, run: Run) -> None:
    memory.save(run)
    assert memory.load(run.id) == run


@profile(max_examples=30, deadline=None)
@given(RUNS)
def test_row_by_row_is_the_same_as_all_at_once(memory: Store, run: Run) -> None:
    memory.begin(run.with_(rows=()))
    for row in run.rows:
        memory.add_row(run.id, row)
    stored = memory.load(run.id)
    assert stored.rows == run.rows
    assert (stored.status, stored.exit) == (Status.INTERRUPTED, 130)
    memory.finish(run)
    assert memory.load(run.id) == run


def test_a_loaded_row_computes_median_and_rate_from_its_samples(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    with Store.open_to_read(stored) as store:
        (row,) = store.load(make_run().id).rows
    assert row.ns["write"] == (3, 1, 2)
    assert row.median_ns["write"] == 2
    assert row.gbps == 4096 / 2
    assert list(row.ns) == ["write", "map", "unused"]


def test_runs_come_newest_first_and_are_filtered(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    with Store.open(stored) as store:
        store.save(make_run(3, command="handoff", status=Status.FAILED, exit=1))
        assert [run.id[-1] for run in store.runs()] == ["3", "2", "1", "0"]
        assert [run.id[-1] for run in store.runs(limit=2)] == ["3", "2"]
        assert [run.id[-1] for run in store.runs(command="fill", limit=1)] == ["2"]
        assert [run.id[-1] for run in store.runs(status="failed")] == ["3"]
        assert store.runs(command="fill", status="failed") == []
        assert store.runs(command=os.fsdecode(b"\xff")) == []
        newest = store.runs(limit=1)[0]
    assert newest.document() == {
        "id": make_run(3).id,
        "command": "handoff",
        "status": "failed",
        "exit": 1,
        "started": "2026-11-30T21:05:01Z",
        "host": "box",
        "rows": 1,
        "label": "noisy [/x]",
        "tags": [],
    }


def test_a_run_has_many_names(stored: HistorySettings, make_run: Callable[..., Run]) -> None:
    with Store.open(stored) as store:
        store.save(make_run(id="20270101-000000-zzzz"))
        store.tag(make_run(1).id, "before")
        store.tag(make_run(1).id, "2026")  # a tag goes before the beginning of an id
        assert store.resolve(make_run(2).id) == make_run(2).id
        assert store.resolve("2027") == "20270101-000000-zzzz"
        assert store.resolve("@last") == "20270101-000000-zzzz"
        assert store.resolve("@prev") == make_run(2).id
        assert store.resolve("before") == store.resolve("2026") == make_run(1).id
        assert store.runs()[2].tags == ("2026", "before")


def test_a_tag_moves_and_survives_a_later_save(stored: HistorySettings, make_run: Callable[..., Run]) -> None:
    with Store.open(stored) as store:
        store.tag(make_run(0).id, "base")
        store.tag(make_run(1).id, "base")
        store.finish(make_run(1, exit=1))
        assert store.resolve("base") == make_run(1).id
        assert store.runs()[2].tags == ()


def test_what_people_wrote_beside_a_run_survives_a_later_save(
    settings: HistorySettings, make_run: Callable[..., Run]
) -> None:
    run = make_run(params={})
    with Store.open(settings) as store:
        store.save(run)
        assert store.runs()[0].label is None
        store._db.execute("UPDATE runs SET label = 'mine', note = 'quiet'")
        store.finish(run)
        assert store._db.execute("SELECT label, note FROM runs").fetchall() == [("mine", "quiet")]


@pytest.mark.parametrize("tag", ["@last", "a b", "", "ä", "a,b", "x" * 65, "-x"])
def test_words_that_cannot_be_tags(stored: HistorySettings, make_run: Callable[..., Run], tag: str) -> None:
    with Store.open(stored) as store, pytest.raises(UsageError, match="cannot be a tag"):
        store.tag(make_run(0).id, tag)


def test_an_ambiguous_name_says_which_runs_it_could_be(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    with Store.open(stored) as store, pytest.raises(UsageError) as caught:
        store.resolve("20261130")
    assert "names 3 runs" in caught.value.message
    assert all(make_run(number).id in caught.value.message for number in range(3))


def test_of_very_many_candidates_five_are_named(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    with Store.open(stored) as store:
        for number in range(3, 9):
            store.save(make_run(number))
        with pytest.raises(UsageError, match="and 4 more"):
            store.resolve("2026")


@pytest.mark.parametrize("ref", ["nope", "@first", "2028", "%", "*", "", os.fsdecode(b"\xff"), "2026~"])
def test_an_unknown_name_is_answered_with_the_newest(stored: HistorySettings, ref: str) -> None:
    with Store.open_to_read(stored) as store, pytest.raises(UsageError, match="the newest runs are 2026"):
        store.resolve(ref)


def test_an_empty_history_says_so(settings: HistorySettings) -> None:
    with Store.open_to_read(settings) as store:
        assert store.runs() == []
        with pytest.raises(UsageError, match="no runs yet"):
            store.resolve("@last")
    assert not settings.db.parent.exists()


def test_of_two_versions_of_a_run_the_more_complete_one_stays(
    settings: HistorySettings, make_run: Callable[..., Run]
) -> None:
    whole = make_run(saved=True)
    begun = whole.with_(status=Status.INTERRUPTED, exit=130, rows=())
    with Store.open(settings) as store:
        assert store.take(begun)
        assert not store.take(begun)
        assert store.take(whole)
        assert not store.take(whole)
        assert not store.take(begun)
        assert store.load(whole.id) == whole


def test_a_row_of_no_run_is_an_error(stored: HistorySettings) -> None:
    with Store.open(stored) as store, pytest.raises(LookupError):
        store.add_row("nope", Row({}))


def test_an_exception_inside_a_write_undoes_it(stored: HistorySettings, make_run: Callable[..., Run]) -> None:
    with Store.open(stored) as store:
        unjson = make_run(1, rows=(Row({"a": 1}), Row({"a": float("nan")})))
        with pytest.raises(ValueError, match="JSON"):
            store.save(unjson)
        assert store.load(make_run(1).id).rows == make_run(1).rows


def test_equal_cases_hosts_and_keys_are_kept_once(stored: HistorySettings) -> None:
    with Store.open(stored) as store:
        (facts,) = store._db.execute("SELECT COUNT(*) FROM facts").fetchone()
    assert facts == 4  # the host, the key, the case and the row's key of three equal runs


def test_a_damaged_value_that_sqlite_cannot_see_is_told(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    with Store.open(stored) as store:
        store._db.execute("UPDATE samples SET count = 1000")
        with pytest.raises(StoreError, match="a stored run is damaged") as caught:
            store.load(make_run().id)
    assert caught.value.fault is Fault.CORRUPT
