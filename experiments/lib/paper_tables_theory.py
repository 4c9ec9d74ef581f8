"""Tables of the theorems and of the bound, for docs/reproduction-tables.md."""

from __future__ import annotations

from lib.page import Results, number, table
from lib.paper_tables import Section


def bound_terms(results: Results) -> str:
    """Every term of (13)."""
    keys = ("empirical_error", "half_divergence", "optimal_error", "last_term", "bound")
    rows = [
        (
            f"{x['example']}, {x['target']}",
            x["weights"],
            x["n"],
            *(number(x[key]) for key in (*keys, "true_error", "constant_error")),
        )
        for x in results("bound_terms")
    ]
    head = ("example, target", "weights", "n", "empirical error", "½ divergence", "optimal model")
    return table((*head, "last term", "bound", "true error", "a constant's error"), rows)


SECTIONS: dict[str, Section] = {
    "bound_terms": Section(
        "The bound (13), term by term",
        "The share of wrong answers lies between 0 and 1; a bound above 1 says nothing.",
        bound_terms,
    ),
}
