"""The sections about the making: what left each site, and how the answer came about."""

from __future__ import annotations

from collections.abc import Sequence

from fedcsa import words
from fedcsa.answer.folder import Folder
from fedcsa.answer.page_parts import Section, Table
from fedcsa.answer.view import loss_in_words
from fedcsa.messages.ledger import FieldRecord, LedgerEntry
from fedcsa.plan import Plan
from fedcsa.words import number, percent

#: Fields listed one by one; a larger study's are shown by `fedcsa ledger`.
MOST_FIELDS = 4000
_FORMULAS = {
    "validated": (
        "w(x) ∝ exp(λᵀC(x)), Σ w = 1: weights under which a source's rows match the target's table",
        "fⱼ(θ) = Σ w L(θ; x, y), on rows that the model has not seen",
        "mⱼ = 1/(1/ESSⱼ + ιⱼ + ιⱼ²/2), with ESSⱼ the effective rows and ιⱼ the imbalance",
        "f(θ) = Σ mⱼ fⱼ(θ) / Σ mⱼ; θ̂ minimises f + ½ γ · standard error, for training weights w^γ",
        "log fⱼ of the others' mixture ~ N(μ + uⱼ, vⱼ), uⱼ ~ N(0, τ²), τ half-normal(0.2)",
        "promise: the distribution of exp(μ + u) at a new site",
    ),
    "naive": ("f(θ) = Σ nⱼ mean(L)ⱼ / Σ nⱼ",),
    "fediwe": ("f(θ) = Σ nⱼ mean(r L)ⱼ / Σ nⱼ, the paper's eq. (04)",),
    "feddae": (
        "fⱼ(θ) = mean(r L + η (r − 1)), the paper's eq. (07)",
        "f(θ) = Σ αⱼ fⱼ(θ) with αⱼ ∝ nⱼ / Divⱼ(θ), the paper's eq. (09) and (10)",
    ),
    "fedle": ("f(θ) = Σ αⱼ fⱼ(θ) with weights αⱼ given",),
}
_PAPER = (
    "Y. Xu, W. Cui, J. Xu, H. Cheng: Federated Covariate Shift Adaptation for Missing Target "
    "Output Values."
)
_SOFTWARE = "The fedcsa developers: fedcsa {version}, federated covariate shift adaptation."


def ledger(folder: Folder) -> Section:
    """What left each site."""
    title = "What left each site"
    if not folder.ledgers:
        return Section("ledger", title, folded=_told(folder))
    groups = [
        (site, group) for site, entries in folder.ledgers.items() for group in _grouped(entries)
    ]
    rows = tuple(
        (
            words.printable(site),
            group[0].message,
            words.listed([entry.recipient for entry in group]),
            words.count(group[0].n_numbers),
            words.count(group[0].n_bytes),
            group[0].time[:19].replace("T", " "),
            group[0].sha256[:12],
        )
        for site, group in groups
    )
    headings = ("site", "message", "to", "numbers", "bytes", "time (UTC)", "SHA-256")
    table = Table("Messages", headings, rows, (0, 1, 2, 5, 6), (2,))
    hashes = Table(
        "Hashes of the ledgers", ("site", "SHA-256"),
        tuple(
            (words.printable(site), folder.hashes.get(f"ledger of {site}", "—"))
            for site in folder.ledgers
        ),
        (0, 1),
    )  # fmt: skip
    fields, left_out = _fields(groups)
    which = f"The fields of {words.counted(left_out, 'message')} are not listed here"
    told = (f"{which}; fedcsa ledger RESULT --fields shows them.",) if left_out else ()
    folded = (*_told(folder), _rules(groups), *fields, hashes)
    return Section("ledger", title, told, table=table, folded=folded)


def _told(folder: Folder) -> tuple[Table, ...]:
    """The target's Table 1, which every source has seen."""
    a = folder.adaptation
    if a is None or a.plan.exchange == "rows":
        return ()
    told = a.table
    rows = tuple(
        (
            words.printable(name),
            "share" if flag else "mean",
            number(mean),
            "—" if flag else number(sd),
        )
        for name, flag, mean, sd in zip(
            told.features, told.flags, told.mean.tolist(), told.sd.tolist(), strict=True
        )
    )
    caption = f"Table 1 of the target, as it was told: {words.counted(told.n_rows, 'row')}"
    return (Table(caption, ("feature", "", "value", "sd"), rows, (0, 1)),)


def _rules(groups: Sequence[tuple[str, list[LedgerEntry]]]) -> Table:
    """Which rules of a site's policy a message has passed, sites with the same ones together."""
    sites: dict[tuple[str, str], list[str]] = {}
    for site, group in groups:
        sites.setdefault((group[0].message, group[0].rules), []).append(site)
    rows = tuple(
        (message, words.printable(rules) or "none on record", words.listed(names))
        for (message, rules), names in sites.items()
    )
    return Table("Under which rules", ("message", "rules", "sites"), rows, (0, 1, 2), (1, 2))


def _grouped(entries: Sequence[LedgerEntry]) -> list[list[LedgerEntry]]:
    """The same message to several recipients is one line."""
    groups: dict[tuple[str, str], list[LedgerEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.message, entry.sha256), []).append(entry)
    return list(groups.values())


def _fields(
    groups: Sequence[tuple[str, list[LedgerEntry]]],
) -> tuple[list[Table], int]:
    """Every field of every message, one table a site, as far as there is room."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    room, left_out = MOST_FIELDS, 0
    for site, group in groups:
        entry = group[0]
        room -= len(entry.fields)
        if room < 0:
            left_out += 1
            continue
        tables.setdefault(site, []).extend(
            (entry.message, item.name, _shape(item), words.count(item.n_bytes), item.sha256[:12])
            for item in entry.fields
        )
    headings = ("message", "field", "shape", "bytes", "SHA-256")
    made = [
        Table(
            f"Every field that left {words.printable(site)}", headings, tuple(rows), (0, 1, 2, 4),
            printed=False,
        )
        for site, rows in tables.items()
    ]  # fmt: skip
    return made, left_out


def _shape(item: FieldRecord) -> str:
    return " × ".join(str(size) for size in item.shape) or "1"


def making(folder: Folder, version: str) -> Section:
    """Study, versions, seed, hashes, formulas, citations.

    Parameters
    ----------
    folder : Folder
    version : str
        Of fedcsa.
    """
    answer = folder.answer
    rows = [("study", folder.study)]
    if answer is not None:
        rows += _design(answer.plan, answer.n_target_rows)
        rows.append(("computed by", f"fedcsa {folder.made_with}"))
    rows += [(f"SHA-256 of {name}", value) for name, value in folder.hashes.items() if "." in name]
    rows.append(("this page", f"fedcsa {version}; it computes nothing and holds no row"))
    shown = tuple((key, words.printable(value)) for key, value in rows)
    table = Table("Design", ("", ""), shown, (0, 1), (1,))
    sentences = (_PAPER, _SOFTWARE.format(version=version))
    formulas = () if answer is None else _FORMULAS[answer.plan.method]
    return Section("making", "How it was made", sentences, table=table, formulas=formulas)


def _design(plan: Plan, n_target_rows: int) -> list[tuple[str, str]]:
    classes = [str(label) for label in plan.classes]
    return [
        ("method", f"{plan.method}, combined by {plan.combine}"),
        ("model", str(plan.model.get("class") or plan.model.get("name", ""))),
        ("loss", loss_in_words(plan.loss)[0]),
        ("candidates", words.count(len(plan.candidates))),
        ("features", words.listed(plan.features, 12)),
        *([("classes", words.listed(classes, 12))] if classes else []),
        *([("rows of one patient", plan.group)] if plan.group else []),
        ("target", words.counted(n_target_rows, "row")),
        ("exchange", f"{plan.exchange}, {plan.scheme}, folds {plan.folds}"),
        ("level", percent(plan.level)),
        ("seed", str(plan.seed)),
    ]
