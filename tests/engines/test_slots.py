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
        (((b"", 200),), "answered with something else than an object"),
        (((b"<html>", 500),), "said HTTP 500: no reason given"),
        ((({"error": {"message": "Loading model"}}, 503),), "HTTP 503: Loading model"),
        ((PROPS, ({"error": {"message": "off"}}, 501)), "does not tell of its slots"),
        ((PROPS, (b"<html>", 404)), "does not tell of its slots"),
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
        {"timings": {**TIMINGS, "prompt_n": "1"}}, {"timings": {**TIMINGS, "prompt_ms": "2.5"}},
        {"timings": {**TIMINGS, "prompt_ms": float("inf")}}, {"timings": {**TIMINGS, "cache_n": True}},
        {"tokens": 5}, {"tokens": {"a": 1}}, {"tokens": "7"}, {"content": None}, {"content": 7},
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


@pytest.mark.parametrize(
    "listed", [{"data": [{"meta": None}]}, {"data": [{}]}, {"data": []}, {"data": None}, {}]
)
def test_a_server_may_tell_little_of_its_model(listed: Any, slot: New) -> None:
    assert slot(PROPS, listed).model() == PROPS


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ({"data": {"a": 1}}, "the server lists no models"),
        ({"data": ["m"]}, "the server lists no models"),
        ({"data": [{"meta": [1]}]}, "the server tells nothing of its model"),
        ({"data": [{"meta": {"n_vocab": "many"}}]}, "has no n_vocab"),
        ({"data": [{"meta": {"n_vocab": 10**30}}]}, "has no n_vocab"),
        ({"data": [{"meta": {"n_vocab": 3}}]}, "the model of the server has a vocabulary of 3"),
    ],
)
def test_what_is_no_model_is_a_failure(listed: Any, told: str, slot: New) -> None:
    with pytest.raises(MeasurementError, match=told):
        slot(PROPS, listed).model()


def test_a_move_without_its_numbers_is_a_failure(slot: New) -> None:
    for change in ({"n_saved": None}, {"n_written": -1}, {"timings": {"save_ms": "1"}}, {"timings": 5}):
        with pytest.raises(MeasurementError, match="the server's answer has no"):
            slot({**SAVED, **change}).save("x")


def test_a_slot_is_asked_by_its_number_with_a_file_of_that_name(
    scripted: New, client: New, tools: Any
) -> None:
    server = scripted(tools.says(SAVED))
    Slot(client(server.url), 3).save('a"\r\nb')
    assert server.asked[0].startswith(b"POST /slots/3?action=save HTTP/1.1\r\n")
    assert server.asked[0].endswith(rb'{"filename": "a\"\r\nb"}')


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
