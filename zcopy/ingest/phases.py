"""``[ph]`` and ``[prof]`` rows: any ``name=value``, ``name: value`` or ``name value unit`` after the mark.

A time is a sample of the phase of its name. Words without digits tell cases apart, and so does what the caller names
in `by`; other numbers and texts are kept beside the samples.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from zcopy.ingest.quantities import (
    UNITS,
    DoubtError,
    Quantity,
    is_no_number,
    nanoseconds,
    quantity,
    split_unit,
)
from zcopy.ingest.record import Record
from zcopy.model import Scalar

ENGINE: Final = "1bit"
_MARK: Final = re.compile(r"\[(ph|prof)\]")
_TOKEN: Final = re.compile(
    r"([^\W\d][\w./%-]*) ?= ?(\"[^\"]*\"|(?:[^\s,;|()\[\]{}\"]|(?<=\d),(?=\d))+)"  # name and value
    r"|((?:[^\s,;|()\[\]{}\"=]|(?<=\d),(?=\d))+)|\S"  # a word, or a joint
)
_WORDS: Final = re.compile(r"[^\W\d]+(?:[ ./-][^\W\d]+)*")
_SUFFIXES: Final = {"ns": "ns", "us": "us", "ms": "ms", "sec": "s"}
_TAKEN: Final = frozenset(("stage", "what", "text"))  # names of our own in a case and beside it
_MOST_PAIRS: Final = 256
_MOST_NAME: Final = 80
_MOST_TEXT: Final = 200

Token = tuple[str | None, str]  # name and value, or None and a word; a joint is (None, "")


def read(text: str, by: Container[str] = ()) -> tuple[Record, ...]:
    """A record for each mark that is followed by numbers with names. Raises DoubtError."""
    parts = _MARK.split(text)
    found = (_read(mark, rest, by) for mark, rest in zip(parts[1::2], parts[2::2], strict=True))
    return tuple(record for record in found if record is not None)


def _read(mark: str, text: str, by: Container[str]) -> Record | None:
    row = _Row()
    row.take(_tokens(text))
    if not row.ns and not row.others:
        return None
    case: dict[str, Scalar] = {"stage": mark}
    fields: dict[str, str] = {}
    if what := " ".join(text for text in row.loose if _WORDS.fullmatch(text)):
        case["what"] = what[:_MOST_TEXT]
    if rest := "; ".join(text for text in row.loose if not _WORDS.fullmatch(text)):
        fields["text"] = rest[:_MOST_TEXT]
    for name, value in row.texts.items():
        tells = name in by or _WORDS.fullmatch(value)
        (case if tells and name not in _TAKEN else fields)[name] = value
    case |= {name: row.plain[name] for name in row.plain if name in by and name not in _TAKEN}
    return Record(ENGINE, case, row.ns, others=row.others, fields=fields)


def _tokens(text: str) -> list[Token]:
    found = _TOKEN.findall(text)
    return [(name, value.strip('"')) if name else (None, word) for name, value, word in found]


class _Row:
    """What stands after one mark."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}
        self.others: dict[str, Quantity] = {}
        self.texts: dict[str, str] = {}
        self.plain: dict[str, Scalar] = {}  # numbers as they are told apart by
        self.loose: list[str] = []  # words in a row that belong to no pair
        self._run: list[str] = []  # words that may turn out to be a name

    def take(self, tokens: list[Token]) -> None:
        """Raises DoubtError."""
        at = 0
        while at < len(tokens):
            name, value = tokens[at]
            after = tokens[at + 1][1] if at + 1 < len(tokens) and tokens[at + 1][0] is None else ""
            if name is not None:
                self._spill()
                at += self._assigned(name, value[:_MOST_TEXT], after)
            elif any(map(str.isalnum, value)):
                at += self._word(value, after)
            else:  # signs only: a joint too
                self._spill()
            at += 1
        self._spill()

    def _assigned(self, name: str, value: str, after: str) -> int:
        """How many of the tokens that follow it has taken."""
        split = split_unit(value)
        if split is None:
            if is_no_number(value):
                raise DoubtError(f"{name} is {value}")
            self._once(name)
            self.texts[name] = value
            return 0
        number, unit = split
        apart = not unit and after != "" and after in UNITS
        self._pair(name, number, after if apart else unit)
        return int(apart)

    def _word(self, word: str, after: str) -> int:
        """The same for a word: part of a name, or the number that the words before it name."""
        named = bool(self._run)
        told = named and self._run[-1].endswith(":")
        has_unit = after != "" and after in UNITS
        split = split_unit(word)
        if split is None:
            if named and (has_unit or told) and is_no_number(word):
                raise DoubtError(f"{self._name()} is {word}")
            if told:  # the words before the colon were a heading
                self._spill()
            if "," in word:
                return self._no_value(word, after if has_unit else "")
            self._run.append(word)
            return 0
        number, unit = split
        apart = not unit and has_unit
        if not named or not (unit or apart or told):
            return self._no_value(word, after if apart else "")
        name = self._name()
        self._run.clear()
        self._pair(name, number, after if apart else unit)
        return int(apart)

    def _no_value(self, word: str, unit: str) -> int:
        """For a number without a name, a list of numbers, or one with its thousands apart: it ends its words."""
        self._run.append(f"{word} {unit}".rstrip())
        self._spill()
        return int(unit != "")

    def _name(self) -> str:
        return " ".join(self._run).rstrip(":")

    def _spill(self) -> None:
        if not self._run:
            return
        if text := " ".join(word.rstrip(":") for word in self._run):
            self.loose.append(text)
        self._run.clear()

    def _pair(self, name: str, number: str, unit: str) -> None:
        bare, _, suffix = name.rpartition("_")
        if not unit and bare and suffix in _SUFFIXES:
            name, unit = bare, _SUFFIXES[suffix]
        elif not unit and name.endswith("bytes"):
            unit = "bytes"
        self._once(name)
        if UNITS[unit].kept == "ns":
            self.ns[name] = nanoseconds(number, unit)
        else:
            found = self.others[name] = quantity(number, unit)
            self.plain[name] = found.value if found.unit == "count" else f"{number} {unit}"

    def _once(self, name: str) -> None:
        if name in self.ns or name in self.others or name in self.texts:
            raise DoubtError(f"{name} stands there twice")
        if len(name) > _MOST_NAME:
            raise DoubtError(f"a name of {len(name)} characters")
        if len(self.ns) + len(self.others) + len(self.texts) >= _MOST_PAIRS:
            raise DoubtError(f"more than {_MOST_PAIRS} values")
