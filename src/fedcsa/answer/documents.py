"""What lies beside a report: the model card, the checklists, and the numbers as CSV files."""

from __future__ import annotations

from pathlib import Path

from fedcsa.answer.card import card_markdown
from fedcsa.answer.checklists.filled import checklists_markdown
from fedcsa.answer.csv_tables import CSV_TABLES, write_csv_tables
from fedcsa.answer.store import CARD_FILE, CHECKLISTS_FILE, TABLES_FOLDER
from fedcsa.answer.view import View


def write_documents(view: View, folder: Path) -> None:
    """Write the model card, the checklists and the tables of an answer into its result folder.

    Parameters
    ----------
    view : View
    folder : Path
    """
    (folder / CARD_FILE).write_text(card_markdown(view), encoding="utf-8")
    (folder / CHECKLISTS_FILE).write_text(checklists_markdown(view), encoding="utf-8")
    tables = folder / TABLES_FOLDER
    tables.mkdir(exist_ok=True)
    for name in CSV_TABLES:
        (tables / f"{name}.csv").unlink(missing_ok=True)
    write_csv_tables(view, tables)
