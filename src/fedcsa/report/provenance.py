"""The sections about the making: what left each site, and how the answer came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedcsa.protocol.ledger import FieldRecord, LedgerEntry
from fedcsa.report import words
from fedcsa.report.folder import Folder
from fedcsa.report.model import Section, Table

#: Fields listed one by one; a larger study's are shown by `fedcsa ledger`.
MOST_FIELDS = 4000
_MIXTURE = (
    "R = F − (chance) + (the rest) · (1 + A)/(1 − A), with F = Σ aⱼ fⱼ(θ̂), A = Σ aⱼ², and the "
    "disagreement of the models on the target's rows split into chance and the rest (squared and "
    "Brier loss; bounds for the others)"
)
_FORMULAS = {
    "guarded": (
        "rⱼ(x) ≈ p_T(x) / pⱼ(x), from averages of the target alone",
        "fⱼ(θ) = Σ rⱼ(xᵢ) L(θ; xᵢ, yᵢ) / Σ rⱼ(xᵢ), on rows that neither ratio nor model has seen",
        "1/mⱼ = 1/ESSⱼ + min(δⱼ², 1)² + ιⱼ²/2, with δⱼ² the kernel imbalance, ιⱼ the imbalance",
        "f(θ) = Σ mⱼ fⱼ(θ) / Σ mⱼ; θ̂ minimises f + ½ γ · standard error, for training weights r^γ",
        _MIXTURE,
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
        text = (
            "This folder holds no ledger. Every site keeps its own, and shows it with: "
            "fedcsa ledger SITE"
        )
        return Section("ledger", title, (text,))
    groups = [
        (site, group) for site, entries in folder.ledgers.items() for group in _grouped(entries)
    ]
    rows = tuple(
        (
            words.clean(site),
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
    sentences = [
        "Every message stood in its site's ledger before it went. No field can hold a row"
        + (
            "."
            if folder.content["plan"]["exchange"] != "rows"
            else ", but the target's brief does."
        ),
        "Every field is listed in the folded tables, which a print leaves out.",
    ]
    hashes = Table(
        "Hashes of the ledgers", ("site", "SHA-256"),
        tuple(
            (words.clean(site), folder.hashes.get(f"ledger of {site}", "—"))
            for site in folder.ledgers
        ),
        (0, 1),
    )  # fmt: skip
    fields, left_out = _fields(groups)
    if left_out:
        sentences.append(
            f"The fields of {words.counted(left_out, 'message')} are not listed here; "
            "fedcsa ledger RESULT --fields shows them."
        )
    return Section(
        "ledger", title, tuple(sentences), table=table, folded=(_rules(groups), *fields, hashes)
    )


def _rules(groups: Sequence[tuple[str, list[LedgerEntry]]]) -> Table:
    """Which rules of a site's policy a message has passed, sites with the same ones together."""
    sites: dict[tuple[str, str], list[str]] = {}
    for site, group in groups:
        sites.setdefault((group[0].message, group[0].rules), []).append(site)
    rows = tuple(
        (message, words.clean(rules) or "none on record", words.listed(names))
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
            f"Every field that left {words.clean(site)}", headings, tuple(rows), (0, 1, 2, 4),
            printed=False,
        )
        for site, rows in tables.items()
    ]  # fmt: skip
    return made, left_out


def _shape(item: FieldRecord) -> str:
    return " × ".join(str(size) for size in item.shape) or "1"


def making(folder: Folder, version: str) -> Section:
    """Study, versions, seed, hashes, formulas, citations."""
    content = folder.content
    rows = [("study", words.clean(content.get("study") or folder.federation.get("study", "")))]
    if content:
        rows += _design(content)
    rows += [(f"SHA-256 of {name}", value) for name, value in folder.hashes.items() if "." in name]
    rows.append(("this page", f"fedcsa {version}; it computes nothing and holds no row"))
    shown = tuple((key, words.clean(value)) for key, value in rows)
    table = Table("Design", ("", ""), shown, (0, 1), (1,))
    sentences = (_PAPER, _SOFTWARE.format(version=version))
    formulas = _FORMULAS.get(content.get("method", ""), ())
    return Section("making", "How it was made", sentences, table=table, formulas=formulas)


def _design(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    plan = content["plan"]
    model = plan["model"]
    name = model.get("class") or model.get("name", "") if isinstance(model, Mapping) else model
    classes = plan["classes"]
    return [
        ("method", f"{plan['method']}, combined by {plan['combine']}"),
        ("model", str(name)),
        ("loss", words.loss(plan["loss"])[0]),
        ("candidates", words.count(len(plan["candidates"]))),
        ("features", words.listed(plan["features"], 12)),
        *([("classes", words.listed([str(label) for label in classes], 12))] if classes else []),
        ("target", words.counted(content["n_target_rows"], "row")),
        ("exchange", f"{plan['exchange']}, {plan['scheme']}, folds {plan['folds']}"),
        ("level", f"{plan['level']:.0%}"),
        ("seed", str(plan["seed"])),
        ("computed by", f"fedcsa {content['fedcsa']}"),
    ]
