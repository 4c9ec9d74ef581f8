"""``fedcsa convert MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fedcsa.cli.common import Output, argument, option, out_option, unbroken
from fedcsa.errors import StudyError


def convert(
    output: Output,
    model: Annotated[
        Path,
        argument(
            metavar="MODEL", help="Saved by XGBoost (.json) or LightGBM (.txt); or a result folder."
        ),
    ],
    out: Annotated[Path, out_option("FILE", "File to write.")],
    columns: Annotated[
        str | None,
        option(
            metavar="NAMES",
            help="Names of the model's columns in studies, in their order, separated by commas.",
        ),
    ] = None,
) -> None:
    """Convert a fitted model into our own format, which holds no code and may travel.

    For the owner of the model. A file is read as text, and neither library is needed; the trees
    predict the same but for rounding. A study names the written file in its model section.
    From a result folder, it writes the final linear model as a formula. Fitted scikit-learn models
    are converted in Python: fedcsa.convert(estimator, path, columns).

    Examples
    --------
    fedcsa convert booster.json --columns "age,sex=M,crp" --out model.json
    fedcsa convert lightgbm.txt --out model.json
    fedcsa convert result --out formula.toml
    """
    if out.exists():
        raise StudyError(f"{str(out)!r} already exists. Delete it or choose another name.")
    if model.is_dir():
        from fedcsa.answer.store import load_result
        from fedcsa.study.formula_file import write_formula

        formula = load_result(model).formula()
        with unbroken():
            write_formula(out, formula)
        n_columns = len({term.column for term in formula.terms})
    else:
        from fedcsa.models.foreign_trees import read_foreign
        from fedcsa.models.given import write_model

        names = None if columns is None else [name.strip() for name in columns.split(",")]
        found = read_foreign(model, names)
        with unbroken():
            write_model(out, found)
        n_columns = len(found.columns)
    content = {"file": str(out), "columns": n_columns}
    output.tell(content, f"Model of {n_columns} columns in {out}", out)
