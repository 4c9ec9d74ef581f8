"""TOML in and out, for the study file: whatever is wrong is said by key and line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fedcsa.errors import FedCSAError, StudyError, unknown

_LINE = re.compile(r"at line (\d+), column \d+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
REQUIRED: Any = object()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _all(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(holds(item) for item in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


#: name of a rule -> (in words, test). The names are annotations, so that a dataclass has them.
RULES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", _is_text),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", _is_whole),
    "float": ("a number", _is_number),
    "int | tuple[float, float, float]": (
        "a whole number or a list of three numbers",
        lambda value: _is_whole(value) or (_all(_is_number)(value) and len(value) == 3),
    ),
    "tuple[str, ...]": ("a list of texts", _all(_is_text)),
    "labels": (
        "a list of texts, whole numbers, or true and false",
        _all(lambda item: isinstance(item, str | int)),
    ),
    "list": ("a list", _all(lambda _: True)),
    "Mapping[str, Any]": ("a table of keys and values", _is_table),
    "Mapping[str, float]": (
        "a table of keys and numbers",
        lambda value: _is_table(value) and all(map(_is_number, value.values())),
    ),
    "Mapping[str, Any] | list[Mapping[str, Any]]": (
        "a table, or a list of tables",
        lambda value: _is_table(value) or _all(_is_table)(value),
    ),
}
_ANYTHING = ("anything", lambda _: True)


class Section:
    """One table of the study file, read key by key; problems are collected, not raised.

    Parameters
    ----------
    values : mapping
    where : str
        Begins every sentence: ``"study.toml:"``, ``"study.toml: [model]"``.
    problems : list of str
    """

    def __init__(self, values: Mapping[str, Any], where: str, problems: list[str]) -> None:
        self._values = values
        self._where = where
        self._problems = problems
        self._known: dict[str, None] = {}

    def say(self, text: str) -> None:
        """Add a problem of this section."""
        self._problems.append(f"{self._where} {text}")

    def skip(self, key: str) -> None:
        """Let `key` be there, whatever it holds."""
        self._known[key] = None

    def take(self, key: str, rule: str, default: Any = REQUIRED) -> Any:
        """The value of `key` if it keeps `rule`, else `default`.

        Parameters
        ----------
        rule : str
            One of `RULES`; whoever uses the value judges it if there is no such rule.
        default : object, optional
            Without one, the key must be there, and a problem is answered with None.
        """
        self.skip(key)
        words, holds = RULES.get(rule, _ANYTHING)
        fallback = None if default is REQUIRED else default
        if key in self._values and holds(self._values[key]):
            return self._values[key]
        if key in self._values:
            self.say(f"{key!r} must be {words}; it is {kind_of(self._values[key])}.")
        elif default is REQUIRED:
            self.say(f"{key!r} must be given: {words}.")
        return fallback

    def gather(self, error: FedCSAError) -> None:
        """Add the problems that an error tells of, a line each."""
        for line in str(error).splitlines():
            self.say(line)

    def close(self) -> None:
        """Say which keys nobody asked for."""
        for key in self._values:
            if key not in self._known:
                self.say(unknown("key", key, self._known))


def raise_all(problems: list[str]) -> None:
    """Raise a `StudyError` with one line a problem, if there are any."""
    if problems:
        raise StudyError("\n".join(problems))


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
            f"{origin}: {where} must be valid TOML; it is not. Check quotation marks, brackets, "
            "and that no key stands twice."
        ) from None
    except RecursionError:
        raise StudyError(f"{origin}: brackets must not be nested so deeply; close some.") from None
    _refuse_dates(document, "", origin)
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
            "A text in a study file must be valid Unicode; one is not. Save it as UTF-8."
        ) from None
    # JSON's escapes are TOML's, save that TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _refuse_dates(value: Any, key: str, origin: str) -> None:
    """Dates are the one kind of TOML value that a study has no use for."""
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_dates(item, name, origin)
    elif isinstance(value, list):
        for item in value:
            _refuse_dates(item, key, origin)
    elif not isinstance(value, str | int | float):
        raise StudyError(
            f"{origin}: {key!r} must be a text or a number; it is a date or a time. "
            "Put it in quotation marks."
        )
