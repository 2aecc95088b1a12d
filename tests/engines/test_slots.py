"""A slot's checks and answers, against a simulated server that says what a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zcopy.engines.llama.slots import Slot
from zcopy.errors import MeasurementError, RefusedError

pytestmark = pytest.mark.usefixtures("no_socket_left")

New = Callable[..., Any]
PROPS = {"model_path": "/m.gguf", "build_info": "b1"}
IDLE = {"id": 0, "n_ctx": 512, "is_processing": False}
TIMINGS = {"cache_n": 3, "prompt_n": 1, "prompt_ms": 2.5}
DONE = {"content": "a", "tokens": [7], "completion_probabilities": [{"id": 7}], "timings": TIMINGS}
SAVED = {"n_saved": 4, "n_written": 99, "timings": {"save_ms": 1.5}}


@pytest.fixture
def slot(scripted: New, client: New, tools: Any) -> Callable[..., Slot]:
    """A slot of a server that gives these answers, one after another; a pair is a document and its status."""

    def new(*answers: Any, number: int = 0) -> Slot:
        scripts = [tools.says(*each) if isinstance(each, tuple) else tools.says(each) for each in answers]
        return Slot(client(scripted(*scripts).url), number)

    return new


def test_an_idle_slot_of_one_model_will_do(slot: New) -> None:
    slot(PROPS, [{"id": 1}, IDLE]).check(512)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (({**PROPS, "role": "router"},), "is a router of several models"),
        (({"model_path": "none"},), "is a router of several models"),
        ((PROPS, []), r"has no slot 0 \(it has 0\)"),
        ((PROPS, [{**IDLE, "id": 1}]), r"has no slot 0 \(it has 1\)"),
        ((PROPS, [{**IDLE, "is_processing": True}]), "slot 0 of the server is busy"),
        ((PROPS, [{**IDLE, "n_ctx": 256}]), "has 256 cells, the prompt needs 512"),
    ],
)
def test_others_are_refused_before_anything_is_asked_of_them(answers: Any, told: str, slot: New) -> None:
    with pytest.raises(RefusedError, match=told):
        slot(*answers).check(512)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (([],), "answered with something else than an object"),
        ((({"error": {"message": "Loading model"}}, 503),), "HTTP 503: Loading model"),
        ((PROPS, ({"error": {"message": "off"}}, 501)), "does not tell of its slots"),
        ((PROPS, (b"<html>", 404)), "answered with something that is not JSON"),
        ((PROPS, {"a": 1}), "said HTTP 200"),
        ((PROPS, [{**IDLE, "n_ctx": "many"}]), "the server's answer has no n_ctx"),
        ((PROPS, [{**IDLE, "n_ctx": True}]), "the server's answer has no n_ctx"),
    ],
)
def test_answers_that_are_none_are_failures(answers: Any, told: str, slot: New) -> None:
    with pytest.raises(MeasurementError, match=told):
        slot(*answers).check(512)


def test_a_completion_is_what_the_server_said(slot: New) -> None:
    done = slot(DONE).complete([1, 2, 3, 4], 1)
    assert (done.text, done.tokens, done.first, done.cache_n, done.prompt_n) == ("a", (7,), {"id": 7}, 3, 1)
    assert done.first_token_ns == 2_500_000


def test_a_save_and_a_restore_are_what_the_server_said(slot: New) -> None:
    saved = slot(SAVED).save("x")
    assert (saved.tokens, saved.bytes, saved.server_ns) == (4, 99, 1_500_000)


@pytest.mark.parametrize(
    "change",
    [
        {"timings": None}, {"timings": []}, {"timings": {}}, {"timings": {**TIMINGS, "cache_n": -1}},
        {"timings": {**TIMINGS, "prompt_n": 1.5}}, {"timings": {**TIMINGS, "prompt_ms": float("nan")}},
        {"timings": {**TIMINGS, "prompt_ms": -1}}, {"timings": {**TIMINGS, "prompt_ms": 1e300}},
        {"timings": {**TIMINGS, "cache_n": 10**30}}, {"completion_probabilities": None},
        {"completion_probabilities": []}, {"completion_probabilities": {"a": 1}},
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_not_taken(change: dict[str, Any], slot: New) -> None:
    with pytest.raises(MeasurementError):
        slot({**DONE, **change}).complete([1], 1)


@pytest.mark.parametrize("status", [400, 500, 501, 503])
@pytest.mark.parametrize("action", ["save", "restore"])
def test_a_move_that_fails_is_the_servers_own_words(action: str, status: int, slot: New) -> None:
    one = slot(({"error": {"code": status, "message": "Unable to"}}, status))
    told = f"cannot {action} slots" if status == 501 else f"HTTP {status}: Unable to"
    with pytest.raises(MeasurementError, match=told):
        getattr(one, action)("x.bin")


@pytest.mark.parametrize("listed", [{"data": {"a": 1}}, {"data": ["m"]}, {"data": [{"meta": None}]}, {}])
def test_a_list_of_models_may_be_anything(listed: Any, slot: New) -> None:
    one = slot(PROPS, listed)
    try:
        assert one.model()["model_path"] == "/m.gguf"
    except MeasurementError as error:
        assert error.message == "the server lists no models"


def test_only_what_is_bit_identical_is_the_same(slot: New) -> None:
    def done(**change: Any) -> Any:
        return slot({**DONE, **change}).complete([1], 1)

    same = done()
    assert same.differs_from(done(timings={**TIMINGS, "cache_n": 9})) is None
    assert same.differs_from(done(content="b")) == "the text differs"
    assert same.differs_from(done(tokens=[8])) == "the text differs"
    assert same.differs_from(done(completion_probabilities=[{"id": 7, "logprob": -1e-9}])) == (
        "the first token's log-probabilities differ"
    )
