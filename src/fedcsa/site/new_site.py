"""A first site file, from the site's own table and, if there is one, a study."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcsa.data.cells import MISSING_VALUES, level_text
from fedcsa.data.tables import open_table
from fedcsa.errors import gathered, nearest
from fedcsa.messages.policy import model_names
from fedcsa.site.site_file import SITE_TEMPLATE, SiteFile
from fedcsa.study import Study
from fedcsa.study.model_section import describe_model
from fedcsa.study.new_study import TablePlace
from fedcsa.study.toml import format_toml
from fedcsa.words import listed, printable

if TYPE_CHECKING:
    import pyarrow as pa

#: Lines of the template that a table, and columns that are called otherwise, take the place of.
_TABLE = next(line for line in SITE_TEMPLATE.splitlines() if line.startswith("table = "))
_COLUMN = '# age = "AGE_YEARS"'
#: Levels that are named; a column with more that are unknown is probably another one.
_MOST_LEVELS = 10


@dataclass(frozen=True)
class SiteDraft:
    """What a first site file says.

    Attributes
    ----------
    text : str
        Of the file.
    role : str
        What this site would be in the study: ``"source"``, ``"target"``, or empty without one.
    notes : tuple of str
        What in the table does not fit the study; they name columns and levels of this site.
    """

    text: str
    role: str = ""
    notes: tuple[str, ...] = ()


def draft_site(table: TablePlace | None, folder: Path, study: Study | None) -> SiteDraft:
    """A site file for a table, and what a study would miss in it.

    Parameters
    ----------
    table : mapping of str to str, optional
        Where the site's table is, as `fedcsa.study.new_study.place_in` says it.
    folder : Path
        Of the site file: paths in it start there.
    study : Study, optional
    """
    if table is None:
        return SiteDraft(SITE_TEMPLATE)
    entry = "\n".join(_entry(key, value) for key, value in table.items())
    text = SITE_TEMPLATE.replace(_TABLE, entry, 1)
    found = open_table(table, folder=folder).read()
    if study is None:
        return SiteDraft(text)
    own, perhaps = _own_names(study, found.column_names)
    lines = [_entry(name, other) for name, other in own.items()]
    lines += [f"# {_entry(n, other)}    # is it the same?" for n, other in perhaps.items()]
    if lines:
        text = text.replace(_COLUMN, "\n".join(lines), 1)
    text = _with_needs(text, study)
    site = SiteFile.parse(text, folder=folder)
    role = "source" if site.has_outcomes(study) else "target"
    notes = list(_unknown_levels(study, found, own))
    with gathered(notes):
        if role == "source":
            site.read_outcomes(study)
        else:
            site.read_target(study)
    return SiteDraft(text, role, tuple(notes))


def _with_needs(text: str, study: Study) -> str:
    """The rules with a line, commented out, that allows what the study needs and nothing else.

    Parameters
    ----------
    text : str
        Of a site file.
    study : Study
    """
    needs = {
        "features": [f.name for f in study.features if f.columns],
        "models": model_names(describe_model(study.model)),
    }
    for key, wanted in needs.items():
        line = f"# {_entry(key, wanted)}    # what {printable(study.name)!r} needs, and no more"
        text = text.replace(f"# {key} = [", f"{line}\n# {key} = [", 1)
    return text


def _entry(key: str, value: Any) -> str:
    """One line of a site file.

    Parameters
    ----------
    key : str
    value : object
    """
    return format_toml({"x": {key: value}}).strip().splitlines()[1]


def _own_names(study: Study, present: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The table's names of the study's columns that it lacks: those that are sure, and perhaps.

    Sure is a feature's name that differs in case and signs alone. The outcome is never: with it,
    a target would become a source.

    Parameters
    ----------
    study : Study
    present : list of str
        The table's columns.
    """
    outcome = study.outcome.name
    named = [*(feature.name for feature in study.features), outcome]
    free = [column for column in present if column not in named]
    sure: dict[str, str] = {}
    perhaps: dict[str, str] = {}
    for name in (name for name in named if name not in present):
        alike = [column for column in free if _bare(column) == _bare(name)]
        near = alike[0] if alike else nearest(name, free)
        if len(alike) == 1 and name != outcome:
            sure[name] = alike[0]
        elif near is not None and (alike or name != outcome):
            perhaps[name] = near
    taken = sure.values()
    return sure, {name: column for name, column in perhaps.items() if column not in taken}


def _bare(name: str) -> str:
    """The letters and digits of a name, in one case; a name without any stands for itself.

    >>> _bare("Age (years)") == _bare("age_years")
    True
    """
    return re.sub(r"[\W_]+", "", name.casefold()) or name


def _unknown_levels(study: Study, table: pa.Table, own: dict[str, str]) -> Iterator[str]:
    """A sentence for every column with levels that the study does not know.

    Parameters
    ----------
    study : Study
    table : pyarrow.Table
    own : dict of str to str
        The table's name of a column, by the study's.
    """
    import pyarrow.compute as pc

    known = {f.name: set(f.levels) for f in study.features if f.levels and not f.other}
    labels = set(map(level_text, study.outcome.levels))
    if labels and labels not in ({"0", "1"}, {"false", "true"}):  # flags have several spellings
        known[study.outcome.name] = labels
    missing = {*MISSING_VALUES, *study.missing_values}
    for name, levels in known.items():
        column = own.get(name, name)
        if column not in table.column_names:
            continue
        values = pc.unique(table.column(column).drop_null()).to_pylist()
        strange = sorted({level_text(value).strip() for value in values} - levels - missing)
        if strange:
            yield (
                f"Column {column!r} has levels that the study does not know: "
                f"{listed(strange, _MOST_LEVELS)}. Recode them, or ask the lead to agree on them."
            )
