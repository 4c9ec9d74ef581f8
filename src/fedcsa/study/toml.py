"""TOML in and out, for the study file: whatever is wrong is said by key and line."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from fedcsa.errors import StudyError, raise_all, unknown

_LINE = re.compile(r"at line (\d+), column \d+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
REQUIRED: Any = object()


def _is(*kinds: type) -> Callable[[Any], bool]:
    """A test of the kind of a value; true and false are no numbers, and NaN is none."""
    return lambda v: isinstance(v, kinds) and (bool in kinds or not isinstance(v, bool)) and v == v


def _all(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


#: name of a rule -> (in words, test). The names are annotations, so that a dataclass has them.
RULES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", _is(str)),
    "bool": ("true or false", _is(bool)),
    "int": ("a whole number", _is(int)),
    "float": ("a number", _is(int, float)),
    "list": ("a list", _is(list)),
    "tuple[str, ...]": ("a list of texts", _all(_is(str))),
    "tuple[str, ...] | Literal['never']": (
        "a list of texts or 'never'",
        lambda value: value == "never" or _all(_is(str))(value),
    ),
    "Mapping[str, Any]": ("a table of keys and values", _is(dict)),
    "Mapping[str, str]": (
        "a table of keys and texts",
        lambda value: _is(dict)(value) and all(map(_is(str), value.values())),
    ),
    "Mapping[str, Any] | list[Mapping[str, Any]]": (
        "a table, or a list of tables",
        lambda value: _is(dict)(value) or _all(_is(dict))(value),
    ),
}


class Section:
    """One table of the study file, read key by key; problems are collected, not raised.

    Parameters
    ----------
    values : mapping
    where : str
        Begins every sentence: ``"study.toml:"``, ``"study.toml: [model]"``.
    problems : list of str, optional
    known : collection of str
        Keys that somebody else takes.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        where: str = "",
        problems: list[str] | None = None,
        known: Collection[str] = (),
    ) -> None:
        self._values = values
        self._where = where
        self.problems = [] if problems is None else problems
        self._known: dict[str, None] = dict.fromkeys(known)

    def say(self, text: str) -> None:
        """Add a problem of this section."""
        self.problems.append(f"{self._where} {text}".lstrip())

    def take(self, key: str, rule: str, default: Any = REQUIRED) -> Any:
        """The value of `key` if it keeps `rule`, else `default`.

        Parameters
        ----------
        key : str
        rule : str
            One of `RULES`.
        default : object, optional
            Without one, the key must be there, and a problem is answered with None.
        """
        self._known[key] = None
        words, holds = RULES[rule]
        if key in self._values and holds(self._values[key]):
            return self._values[key]
        if key in self._values:
            self.say(f"{key!r} must be {words}; it is {kind_of(self._values[key])}.")
        elif default is REQUIRED:
            self.say(f"{key!r} must be given: {words}.")
        return None if default is REQUIRED else default

    def take_fields(self, record: type, skip: Collection[str] = ()) -> dict[str, Any]:
        """What is given of the fields of a dataclass, by their types.

        Where a field may be None, the text ``"none"`` says so.

        Parameters
        ----------
        record : type
        skip : collection of str
            Fields that somebody else takes.
        """
        found: dict[str, Any] = {}
        for item in (f for f in dataclasses.fields(record) if f.name not in skip):
            rule = str(item.type).removesuffix(" | None")
            if rule != item.type and self._values.get(item.name) == "none":
                self._known[item.name] = found[item.name] = None
                continue
            value = self.take(item.name, rule, None)
            if value is not None:
                found[item.name] = tuple(value) if isinstance(value, list) else value
        return found

    def close(self) -> None:
        """Say which keys nobody asked for."""
        for key in self._values:
            if key not in self._known:
                self.say(unknown("key", key, self._known))

    def end(self) -> None:
        """Raise a `StudyError` with a line a problem, if there are any."""
        raise_all(self.problems, StudyError)


def read_text(path: str | Path, what: str, advice: str) -> str:
    """The text of a file that a person wrote.

    Parameters
    ----------
    path : str or Path
    what : str
        For the sentence: ``"study file"``.
    advice : str
        What to do if the file is not there.
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StudyError(
            f"The {what} {str(path)!r} is not text in UTF-8. Save it as UTF-8."
        ) from None
    except FileNotFoundError:
        raise StudyError(f"The {what} {str(path)!r} does not exist. {advice}") from None
    except OSError as error:
        if Path(path).is_dir():
            raise StudyError(f"{str(path)!r} is a folder; it must be a {what}. {advice}") from None
        kind = type(error).__name__
        raise StudyError(f"The {what} {str(path)!r} cannot be read ({kind}). {advice}") from None


def kind_of(value: Any) -> str:
    """A word for the kind of `value`, which is not shown itself.

    >>> kind_of(True), kind_of([1]), kind_of(float("nan"))
    ('true or false', 'a list', 'not finite')
    """
    if value != value:
        return "not finite"
    kinds = {bool: "bool", str: "str", int: "int", float: "float", list: "list"}
    return RULES[kinds.get(type(value), "Mapping[str, Any]")][0]


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """The tables of a TOML document, or a `StudyError` with the line that is at fault."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Its own text can quote the line.
        found = _LINE.search(str(error))
        where = f"line {found[1]}" if found else "the end of the file"
        raise StudyError(
            f"{origin}: {where} is not valid TOML. Check quotation marks, brackets, "
            "and that no key appears twice."
        ) from None
    except RecursionError:
        raise StudyError(f"{origin}: brackets must not be nested so deeply; close some.") from None
    _refuse_values(document, "", origin)
    return document


def format_toml(document: Mapping[str, Any], nested: Collection[str] = ()) -> str:
    """Write a document that `parse_toml` reads as the same values.

    Parameters
    ----------
    document : mapping
        Plain values, and sections, which are mappings or lists of mappings.
    nested : collection of str
        Sections whose entries have headings of their own, such as ``[sources.a]``.

    Examples
    --------
    >>> print(format_toml({"seed": 1, "target": {"table": "new.csv"}}))
    seed = 1
    <BLANKLINE>
    [target]
    table = "new.csv"
    <BLANKLINE>
    """
    plain: list[str] = []
    lines: list[str] = []
    for key, value in document.items():
        name = _key(key)
        if key in nested:
            for inner, section in value.items():
                lines += ["", f"[{name}.{_key(inner)}]", *_entries(section)]
        elif isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_entries(value)]
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for section in value:
                lines += ["", f"[[{name}]]", *_entries(section)]
        else:
            plain.append(f"{name} = {_value(value)}")
    return "\n".join([*plain, *lines, ""])


def _entries(section: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in section.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_entries(value))} }}" if value else "{}"
    raise StudyError(
        f"A study file must hold texts, numbers, true or false, lists and tables; "
        f"{type(value).__name__} is none of them and cannot be written."
    )


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StudyError(
            "A text in the study file is not valid Unicode. Save the file as UTF-8."
        ) from None
    # JSON's escapes are TOML's, save that TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _refuse_values(value: Any, key: str, origin: str) -> None:
    """A study has no use for dates, nor for whole numbers beyond all floats."""
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_values(item, name, origin)
    elif isinstance(value, list):
        for item in value:
            _refuse_values(item, key, origin)
    elif not isinstance(value, str | int | float):
        raise StudyError(
            f"{origin}: {key!r} must be a text or a number; it is a date or a time. "
            "Put it in quotation marks."
        )
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise StudyError(f"{origin}: {key!r} must be a number below 1e308; it has more digits.")
