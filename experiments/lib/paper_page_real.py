"""The real studies on the page."""

from __future__ import annotations

from lib.page import NAMES, Line, Results, number, short, table


def real(results: Results) -> str:
    rows = [
        (
            f"{x['data_set']}, {x['loss']} ({x['sites']})",
            NAMES[x["method"]],
            short(x["realised"]),
            _spread(x, "minus_default") if x["method"] != "default" else "",
            number(x["regret"]),
            x["best"] if x["method"] not in ("pooled", "reference") else "",
            short(x["promise_off"]),
            _spread(x, "promise_bias") if x["promise_bias"] else "–",
        )
        for x in results("real_studies")
    ]
    head = ("study, loss (sites)", "method", "realised risk", "minus the default's")
    return table((*head, "regret", "best at", "promise off by", "bias of the promise"), rows)


def _spread(line: Line, key: str) -> str:
    ends = ", ".join(short(line[f"{key}_{end}"]) for end in ("lower", "upper"))
    return f"{short(line[key])} [{ends}]"


def real_words(results: Results) -> str:
    """Who was best and whose promise was nearest, study by study."""
    told = []
    for study in dict.fromkeys((x["data_set"], x["loss"]) for x in results("real_studies")):
        lines = {x["method"]: x for x in results("real_studies", data_set=study[0], loss=study[1])}
        allowed = [x for name, x in lines.items() if name not in ("pooled", "reference")]
        best = min(allowed, key=lambda x: float(x["realised"]))
        nearest = min(
            (x for x in allowed if x["promise_off"]), key=lambda x: float(x["promise_off"])
        )
        told.append(
            f"- {study[0]}, {study[1]}: smallest mean realised risk {NAMES[best['method']]} "
            f"({short(best['realised'])}), nearest promise {NAMES[nearest['method']]} (off by "
            f"{short(nearest['promise_off'])}); the default's promise is "
            f"{_direction(lines['default'])}."
        )
    return "\n".join(told)


def _direction(line: Line) -> str:
    if not line["promise_bias"]:
        return "never given"
    if float(line["promise_bias_upper"]) < 0.0:
        return "clearly too low"
    return "clearly too high" if float(line["promise_bias_lower"]) > 0.0 else "not clearly biased"


def real_verdicts(results: Results) -> str:
    rows = [
        (
            f"{x['data_set']}, {x['loss']}",
            x["sites"],
            x["judged"],
            number(x["coverage"]),
            number(x["kept"]),
            f"{x['use_right']} of {x['use']}",
            f"{x['warned_right']} of {x['warned']}",
            _gap(results, x),
        )
        for x in results("real_studies", method="default")
    ]
    head = ("study, loss", "sites", "with an interval", "covered", "kept", "“use it” was right")
    return table((*head, "a warning was right", "promise off by, minus Naive's"), rows)


def _gap(results: Results, line: Line) -> str:
    wanted = {key: line[key] for key in ("data_set", "loss")}
    naive = results.one("real_studies", method="naive", **wanted)
    return _spread(naive, "gap") if naive["gap"] else "–"


def real_sites(results: Results) -> str:
    """One line a site, where the loss is Brier's."""
    methods = ("default", "naive", "fediwe", "feddae", "constant", "pooled", "reference")
    rows = [
        (
            f"{x['data_set']}: {x['site']} ({x['rows']})",
            x["verdict"],
            f"{number(x['promised_default'], 3)} {_ends(x)}",
            *(number(x[f"realised_{method}"], 3) for method in methods),
        )
        for x in results("real_sites", loss="brier")
    ]
    head = ("site (rows)", "verdict", "promised", *(NAMES[m] for m in methods))
    return table(head, rows) if rows else "No study with Brier loss was run."


def _ends(line: Line) -> str:
    if not line["lower"]:
        return "(no interval)"
    return f"[{number(line['lower'], 3)}, {number(line['upper'], 3)}]"
