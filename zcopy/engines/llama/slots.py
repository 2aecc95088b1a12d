"""A server's slot as a probe sees it: what is checked before anything is asked of it, and what its answers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zcopy.engines.llama.http import Answer, Client
from zcopy.errors import MeasurementError, RefusedError
from zcopy.model import Json

_TOP: Final = 5  # log-probabilities that are compared: those of the likeliest tokens
_PROBE_TOKENS: Final = 4
_MOST: Final = 1 << 48  # bytes, tokens or ms beyond which an answer makes no sense
_FEWEST_WORDS: Final = 16  # of a vocabulary that prompts can be drawn from


@dataclass(frozen=True, slots=True)
class Completion:
    """What a prompt was continued with. `cache_n` tokens were taken from the slot, `prompt_n` were processed."""

    text: str
    tokens: tuple[int, ...]
    first: Json  # the first token's log-probabilities, as the server tells them
    cache_n: int
    prompt_n: int
    first_token_ns: int  # the server's own measure of processing what the slot did not have
    ns: int

    def differs_from(self, other: Completion) -> str | None:
        """How another continuation of the same prompt differs, or None. Only bit-identical is the same."""
        if (self.text, self.tokens) != (other.text, other.tokens):
            return "the text differs"
        return "the first token's log-probabilities differ" if self.first != other.first else None


@dataclass(frozen=True, slots=True)
class Moved:
    """A save or a restore: tokens and bytes as the server counts them, its own time and the request's, in ns."""

    tokens: int
    bytes: int
    server_ns: int
    ns: int


class Slot:
    """One slot of a server of one model. Every answer that is not the expected one is a MeasurementError."""

    def __init__(self, client: Client, number: int = 0) -> None:
        self._client, self.number = client, number

    @property
    def who(self) -> str:
        return self._client.who

    def check(self, ctx: int) -> None:
        """Whether the server is one that a state may be given to. Raises RefusedError where it is not.

        A slot number out of range would be taken modulo their count, and a busy slot would make the request wait.
        """
        props = self._json(self._client.get("/props"))
        if props.get("role") == "router" or props.get("model_path") in (None, "", "none"):
            raise RefusedError(f"{self.who} is a router of several models, whose slots cannot be saved")
        answer = self._client.get("/slots")
        if answer.status in (404, 501):
            raise MeasurementError(f"{self.who} does not tell of its slots", "start it with --slots")
        slots = self._list(answer)
        mine = next((each for each in slots if each.get("id") == self.number), None)
        if mine is None:
            raise RefusedError(f"{self.who} has no slot {self.number} (it has {len(slots)})")
        if mine.get("is_processing"):
            raise RefusedError(f"slot {self.number} of {self.who} is busy")
        if (cells := _count(mine, "n_ctx")) < ctx:
            raise RefusedError(f"a slot of {self.who} has {cells} cells, the prompt needs {ctx}")

    def model(self) -> Mapping[str, Any]:
        """What the server tells of its model: `model_path`, `build_info`, `n_vocab` and the like."""
        props = self._json(self._client.get("/props"))
        listed = self._json(self._client.get("/v1/models")).get("data") or [{}]
        if not isinstance(listed, list) or not isinstance(listed[0], Mapping):
            raise MeasurementError(f"{self.who} lists no models")
        told = {key: props.get(key) for key in ("model_path", "build_info")}
        meta = listed[0].get("meta") or {}
        if not isinstance(meta, Mapping):
            raise MeasurementError(f"{self.who} tells nothing of its model")
        if "n_vocab" in meta and _count(meta, "n_vocab") < _FEWEST_WORDS:
            raise MeasurementError(f"the model of {self.who} has a vocabulary of {meta['n_vocab']}")
        return {**told, **meta}

    def prefill(self, tokens: Sequence[int]) -> Completion:
        """Processes the prompt and nothing else."""
        return self._complete(tokens, 0)

    def complete(self, tokens: Sequence[int], count: int) -> Completion:
        """Continues the prompt greedily by `count` tokens."""
        return self._complete(tokens, count)

    def save(self, name: str) -> Moved:
        """Saves the slot into the file `name` of the server's folder."""
        return self._move("save", name, "n_saved", "n_written")

    def restore(self, name: str) -> Moved:
        """Restores the slot from the file `name` of the server's folder."""
        return self._move("restore", name, "n_restored", "n_read")

    def erase(self) -> None:
        """Forgets what the slot has."""
        self._json(self._client.post(f"/slots/{self.number}?action=erase", {}))

    def health(self, tokens: Sequence[int]) -> Completion:
        """A short prompt from nothing: after a failed restore its answer tells whether the slot is still sound."""
        self.erase()
        return self._complete(tokens, _PROBE_TOKENS)

    def _move(self, action: str, name: str, count: str, bytes_: str) -> Moved:
        answer = self._client.post(f"/slots/{self.number}?action={action}", {"filename": name})
        if answer.status == 501:
            raise MeasurementError(f"{self.who} cannot {action} slots", "start it with --slot-save-path")
        found = self._json(answer)
        server_ns = _ns(found.get("timings"), f"{action}_ms")
        return Moved(_count(found, count), _count(found, bytes_), server_ns, answer.ns)

    def _complete(self, tokens: Sequence[int], count: int) -> Completion:
        body: dict[str, Json] = {
            "prompt": list(tokens), "n_predict": count, "temperature": 0, "n_probs": _TOP, "cache_prompt": True,
            "id_slot": self.number, "return_tokens": True, "ignore_eos": True,
        }  # fmt: skip
        answer = self._client.post("/completion", body)
        found = self._json(answer)
        timings = found.get("timings")
        text, ids = found.get("content"), found.get("tokens") or []
        if not isinstance(text, str) or not isinstance(ids, list):
            raise MeasurementError(f"{self.who} completed with something else than text and tokens")
        first = _first(found.get("completion_probabilities"))
        if count and first is None:
            raise MeasurementError(f"{self.who} completed without log-probabilities")
        return Completion(
            text, tuple(ids), first,
            _count(timings, "cache_n"), _count(timings, "prompt_n"), _ns(timings, "prompt_ms"), answer.ns,
        )  # fmt: skip

    def _json(self, answer: Answer) -> Mapping[str, Any]:
        if answer.status != 200:
            raise MeasurementError(f"{self.who} said {answer.fault}")
        if not isinstance(answer.document, Mapping):
            raise MeasurementError(f"{self.who} answered with something else than an object")
        return answer.document

    def _list(self, answer: Answer) -> list[Mapping[str, Any]]:
        if answer.status != 200 or not isinstance(answer.document, list):
            raise MeasurementError(f"{self.who} said {answer.fault}")
        return [each for each in answer.document if isinstance(each, Mapping)]


def _first(probabilities: Any) -> Json:
    return probabilities[0] if isinstance(probabilities, list) and probabilities else None


def _count(found: Any, key: str) -> int:
    value = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise MeasurementError(f"the server's answer has no {key}")
    return value


def _ns(timings: Any, key: str) -> int:
    value = timings.get(key) if isinstance(timings, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        raise MeasurementError(f"the server's answer has no {key}")
    return int(value * 1e6)
