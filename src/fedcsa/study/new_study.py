"""A first study file, with a comment at everything that it says: from tables, or a description."""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.table_file import is_database, kind_of_table
from fedcsa.data.tables import open_table
from fedcsa.errors import DataError, StudyError, hint
from fedcsa.messages.messages import TARGET
from fedcsa.study.toml import format_toml
from fedcsa.words import counted, listed, printable

if TYPE_CHECKING:
    import pyarrow as pa

#: A comment longer than this would not fit a screen beside its line, and stands above it.
_WIDTH = 96
#: Where a table is: ``table`` and perhaps ``sheet``, or ``database`` and ``query``.
TablePlace = Mapping[str, str]
#: Why a column is what it is where nobody has seen it.
_DESCRIBED = "as in the dictionary"


@dataclass(frozen=True)
class StudyDraft:
    """What a first study file says, and why.

    Attributes
    ----------
    columns : Columns
        With the outcome.
    outcome_why : str
        Why that column is the outcome.
    target : mapping of str to str
        Where the target's table is, from the file's folder, in the words of a study file.
    sources : mapping of str to mapping
        The same of every source.
    notes : tuple of str
        What could not be agreed, as sentences.
    origin : str
        What it was made from.
    unused : tuple of str
        Columns of the tables that the study does not use.
    seen : bool
        Whether tables were looked at; a data dictionary only describes them.
    """

    columns: Columns
    outcome_why: str
    target: TablePlace
    sources: Mapping[str, TablePlace]
    notes: tuple[str, ...]
    origin: str
    seen: bool = True
    unused: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The outcome, which a draft always has."""
        assert self.columns.outcome is not None  # noqa: S101 - for the type checker
        return self.columns.outcome

    def to_toml(self, file: str = "study.toml") -> str:
        """The text of a study file that runs as it is; `file` is how it will be called."""
        parts = [
            self._head(file),
            self._outcome(),
            self._features(),
            _model(self.outcome),
            self._wishes(),
            self._sites(),
        ]
        return "\n\n".join("\n".join(lines) for lines in parts) + "\n"

    def _head(self, file: str) -> list[str]:
        name = re.sub(r"[^\w-]+", "-", f"{self.outcome.name}-at-{place_name(self.target)}")
        spellings = list(self.columns.missing_values)
        missing = _line("missing_values", spellings, "further spellings of a missing cell")
        if not spellings:
            missing = '# missing_values = ["unknown"]    # further spellings of a missing cell'
        notes = [
            f"# {line}"
            for note in self.notes
            for line in textwrap.wrap(printable(f"note: {note}"), _WIDTH - 2)
        ]
        thresholds = [
            "# At which predicted risk would you act? Sensitivity, PPV and net benefit are",
            "# reported there.",
            "# thresholds = [0.1, 0.2]",
        ]
        steps = [
            f"#   fedcsa check {file}       what would go wrong",
            f"#   fedcsa run {file}         the model, and how well it will do",
        ]
        if not self.seen:
            steps = [
                "#   fedcsa federation provision FEDERATION      once: a kit for everybody",
                f"#   fedcsa study submit {file} --kit KIT    ask the sites",
            ]
        return [
            f"# A study, proposed from {self.origin}. Look at every line; then:",
            *steps,
            *notes,
            _line("name", name, "every log uses this name"),
            _line("seed", 1, "every random number follows from it and the names of the sites"),
            missing,
            *(thresholds if self.two_classes else ()),
        ]

    def _outcome(self) -> list[str]:
        levels = '# levels = ["no", "yes"]    # for classes; it is a number'
        if self.outcome.levels:
            event = f"the last is the event, {self.outcome.levels[-1]!r}"
            comment = event if self.two_classes else "in this order"
            levels = _line("levels", list(self.outcome.levels), comment)
        return ["[outcome]", _line("name", self.outcome.name, self.outcome_why), levels]

    @property
    def two_classes(self) -> bool:
        """Whether the outcome is an event or none."""
        return len(self.outcome.levels) == 2

    def _features(self) -> list[str]:
        features = self.columns.features
        lines = [_line(f.name, f.described, why(f, self.seen)) for f in features]
        return ["[features]    # their order is the agreed order", *lines]

    def _wishes(self) -> list[str]:
        """A subgroup, commented out: only a person can say which matters."""
        kinds = ("levels", "flag", "number")
        found = sorted(
            (f for f in self.columns.features if f.kind in kinds), key=lambda f: kinds.index(f.kind)
        )
        if not found:
            return ["# No column of this study can make subgroups."]
        feature = found[0]
        which: Any = {"levels": {"level": (*feature.levels, "")[0]}, "flag": {"level": 1}}
        subgroup = {"feature": feature.name, **which.get(feature.kind, {"cut": 65})}
        text = format_toml({"subgroups": [subgroup]}).strip()
        return [
            "# For which patients do you want all measures, too? A level, or a cut.",
            *(f"# {line}" for line in text.splitlines()),
        ]

    def _sites(self) -> list[str]:
        document = {"target": self.target, "sources": self.sources}
        return [
            "# Between sites every site reads its own table, by its own file; these paths are for",
            "# a run on this machine.",
            format_toml(document, nested=["sources"]).strip(),
        ]


def draft_from_tables(
    tables: Sequence[Path],
    target: Path,
    outcome: str | None,
    folder: Path,
    *,
    query: str = "",
    sheet: str = "",
    missing_values: Sequence[str] = (),
) -> StudyDraft:
    """What the tables of one's own machine propose.

    Parameters
    ----------
    tables : sequence of Path
        Of the sources; the target's may be among them, and is no source.
    target : Path
    outcome : str, optional
        Without one, a column that every source has and the target lacks.
    folder : Path
        Of the study file: paths in it start there.
    query, sheet : str
        What to ask every database among the tables, and which sheet of every workbook.
    missing_values : sequence of str
        Further spellings of a missing cell.
    """
    paths = _named([path for path in tables if path.resolve() != target.resolve()])
    if not paths:
        raise StudyError("A study needs a table with outcomes beside the target's. Name one more.")
    places = {name: place_in(folder, path, query, sheet) for name, path in paths.items()}
    where = place_in(folder, target, query, sheet)
    for option, given in {"query": query, "sheet": sheet}.items():
        if given and not any(option in place for place in (*places.values(), where)):
            raise StudyError(f"None of the tables takes a {option}. Leave out --{option}.")
    frames = {name: _rows_of(path, query, sheet) for name, path in paths.items()}
    new = _rows_of(target, query, sheet)
    name, reason, notes = _choose_outcome(frames, new, outcome)
    if name in new.column_names:  # what the target knows of outcomes is not looked at
        new = new.drop_columns([name])
    found = Columns.infer({**frames, TARGET: new}, name, missing_values)
    used = {name, *(feature.name for feature in found.features)}
    every = dict.fromkeys(c for frame in (*frames.values(), new) for c in frame.column_names)
    notes, origin = [*notes, *found.notes], counted(len(frames) + 1, "table")
    unused = tuple(column for column in every if column not in used)
    bare = replace(found, notes=())
    return StudyDraft(bare, reason, where, places, tuple(notes), origin, unused=unused)


def _rows_of(path: Path, query: str, sheet: str) -> pa.Table:
    """All rows of a table that the command line names; one without rows shows nothing."""
    rows = open_table(place_in(Path(), path, query, sheet)).read()
    if not rows.num_rows:
        raise DataError(f"The table {str(path)!r} must have rows; it has none. Export it again.")
    return rows


def place_in(folder: Path, path: Path, query: str = "", sheet: str = "") -> TablePlace:
    """Where a table is, as a study or site file in `folder` says it.

    Parameters
    ----------
    folder, path : Path
    query, sheet : str
        For a database, and for a workbook; of other tables nothing is asked.

    Examples
    --------
    >>> place_in(Path("."), Path("stays.sqlite"), query="SELECT * FROM t ORDER BY id")
    {'database': 'stays.sqlite', 'query': 'SELECT * FROM t ORDER BY id'}
    """
    try:
        named = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        named = path.resolve().as_posix()
    if query and is_database(path):
        return {"database": named, "query": query}
    if sheet and kind_of_table(path) == ".xlsx":
        return {"table": named, "sheet": sheet}
    return {"table": named}


def place_name(place: TablePlace) -> str:
    """The name of the file, without its ending."""
    return Path(place.get("database", place.get("table", ""))).stem


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Names of sources: of their files, and of the folders too where these are called alike."""
    bare = [path.name.split(".")[0] for path in paths]
    counts = Counter(bare)
    named: dict[str, Path] = {}
    for name, path in zip(bare, paths, strict=True):
        if counts[name] > 1 or name == TARGET:
            name = f"{path.resolve().parent.name}-{name}"
        if name in named:
            raise StudyError(f"Two tables would both be the source {name!r}. Rename one of them.")
        named[name] = path
    return named


def _choose_outcome(
    frames: Mapping[str, pa.Table], target: pa.Table, wanted: str | None
) -> tuple[str, str, list[str]]:
    """The column with outcomes, why it is that one, and what else was thought of.

    Parameters
    ----------
    frames : mapping of str to pyarrow.Table
        Of the sources.
    target : pyarrow.Table
    wanted : str, optional
        What the user says.
    """
    first, *others = frames.values()
    shared = [c for c in first.column_names if all(c in f.column_names for f in others)]
    for name, frame in frames.items():
        if not set(frame.column_names) & set(target.column_names):
            raise StudyError(
                f"The table of {name!r} must share columns with the target's; it shares none. Do "
                "both begin with the names of their columns, separated alike?"
            )
    if wanted is not None:
        if wanted not in shared:
            without = [repr(name) for name, f in frames.items() if wanted not in f.column_names]
            advice = hint(wanted, shared) if len(without) == len(frames) else "Add it there."
            raise StudyError(
                f"Every source must have the outcome {wanted!r}; it is not in the table of "
                f"{listed(without)}. {advice}"
            )
        return wanted, "as you said", []
    known = {c for c in target.column_names if not _is_empty(target.column(c))}
    found = [c for c in shared if c not in known and not _is_empty(first.column(c))]
    if not found:
        raise StudyError(
            "No column looks like the outcome: the target has all that every source has. "
            f"{_lacking(frames, known)}Name it with --outcome NAME."
        )
    events = [column for column in found if _has_two_values(first.column(column))]
    name = (events or found)[-1]  # outcomes are mostly an event, and mostly stand last
    rest = [column for column in found if column != name]
    also = f"{name!r} was taken as the outcome; the target lacks {listed(rest)} too."
    notes = [f"{also} For another outcome: --outcome NAME."] if rest else []
    return name, "every source has it, and the target does not", notes


def _lacking(frames: Mapping[str, pa.Table], known: set[str]) -> str:
    """A sentence about the one source without a column that all others have, if there is one.

    Parameters
    ----------
    frames : mapping of str to pyarrow.Table
        Of the sources.
    known : set of str
        Columns of the target.
    """
    for column in dict.fromkeys(c for f in frames.values() for c in reversed(f.column_names)):
        without = [name for name, f in frames.items() if column not in f.column_names]
        if column not in known and len(without) == 1 and len(frames) > 1:
            return f"The table of {without[0]!r} lacks {column!r}, which every other source has. "
    return ""


def _has_two_values(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return len(pc.unique(column.drop_null())) == 2


def _is_empty(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return True
    if str(column.type) not in ("string", "large_string"):
        return False
    return bool(pc.all(pc.equal(pc.utf8_trim_whitespace(column.drop_null()), "")).as_py())


def why(feature: Feature, seen: bool = True) -> str:
    """Why a column is of its kind, in a few words; `seen` if a table was looked at.

    >>> why(Feature("sex", "levels", ("F", "M")))
    '2 distinct texts'
    """
    said = {
        "number": f"numbers{f' in {feature.unit}' if feature.unit else ''}",
        "flag": "no and yes: 0 and 1, or true and false, or in words",
        "levels": counted(len(feature.levels), "distinct text") if seen else _DESCRIBED,
        "date": f"dates: days since {feature.since}"
        if feature.since
        else f"dates: years until {feature.at}",
        "id": "names the row; no feature, never leaves, stands beside its prediction",
        "group": f"{'repeats' if seen else _DESCRIBED}: rows of one patient stay together; "
        "no feature, beside its prediction",
    }[feature.kind]
    other = "; any other text counts as 'other'" if feature.other else ""
    if feature.missing == "error":
        return f"{said}{other}"
    stands = f", {feature.fill or 0:g} stands in" if feature.kind in ("number", "date") else ""
    gaps = f"{feature.name}=missing says where{stands}"
    if feature.missing == "model":
        gaps = "the model sees the gap"
    return f"{said}{other}; cells may be missing: {gaps}"


def _model(outcome: Outcome) -> list[str]:
    if not outcome.levels:
        return [
            "[model]    # for a number",
            _line("name", "ridge", "linear; its penalty is chosen from a grid of its own"),
        ]
    return [
        "[model]    # for classes",
        _line("name", "sklearn.linear_model.LogisticRegression", "it may leave a site"),
        _line("parameters", {"solver": "newton-cholesky"}, "no iterations to run out of"),
        "",
        "[candidates]",
        _line("C", [0.01, 0.1, 1.0, 10.0], "the sources' risks decide; smaller is simpler"),
    ]


def _line(key: str, value: Any, comment: str) -> str:
    """A line of TOML with its comment beside it, or above it where there is no room."""
    [text] = format_toml({"x": {key: value}}).strip().splitlines()[1:]
    comment = printable(comment)
    if len(text) + len(comment) + 4 <= _WIDTH:
        return f"{text:<30}    # {comment}" if len(text) < 30 else f"{text}    # {comment}"
    return f"# {comment}\n{text}"
