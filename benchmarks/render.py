"""Write the tables of docs/benchmarks.md, docs/federation.md and docs/large-tables.md.

What was measured is never typed by hand. Only what stands between ``<!-- begin:NAME -->`` and
``<!-- end:NAME -->`` is rewritten.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.bars import BARS, Bar, Line, Results
from benchmarks.harness import RESULTS, ROOT

DOCS = ROOT / "docs"
NOT_YET = "*Not measured yet.*"
#: The seconds of a federated study, part by part.
PARTS = (
    "login", "start", "greet", "announce", "risk", "choose", "model", "mix", "examine",
    "conclude", "rest",
)  # fmt: skip


def number(text: str | None, digits: int = 3) -> str:
    return f"{float(text):.{digits}g}" if text else "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(name: str, words: str) -> str:
    return f"\n\n![{words}](generated/figures/{name}.svg)"


# Blocks -------------------------------------------------------------------------------------


def criteria(results: Results) -> str:
    """Every bar beside what was measured."""
    rows = []
    for bar in BARS:
        value = bar.measured(results)
        shown = "–" if value is None else f"{value:.3g}{bar.unit}"
        rows.append((bar.what, f"≤ {bar.limit:g}{bar.unit}", shown, bar.verdict(results), bar.how))
    drawn = figure("bench-bars", "Every bar's measured share of what is allowed.")
    return table(("what", "bar", "measured", "", "how"), rows) + drawn


def lost(results: Results) -> str:
    """Where a bar is missed, with the profile that says why; where a peer is better."""
    said = [
        f"- Missed: {bar.what} takes {bar.measured(results) or 0.0:.3g}{bar.unit} instead of "
        f"{bar.limit:g}{bar.unit}.{why(results, bar)}"
        for bar in BARS
        if bar.is_missed(results)
    ]
    said += [f"- Not measured: {b.what}." for b in BARS if b.measured(results) is None]
    for who, lines in _peers(results).items():
        better = []
        for key, words in COMPARED.items():
            pairs = [(line[key], _ours(results, line)[key]) for line in lines]
            won = sum(float(theirs) < float(ours) for theirs, ours in pairs if theirs and ours)
            if won:
                better.append(f"{words} in {won}")
        if better:
            ours = _ours(results, lines[0])["shown"]
            told = ", ".join(better)
            said.append(f"- {who}, against {ours}: {told} of {len(lines)} families.")
    return "\n".join(said) or "No bar is missed, and no peer is faster or nearer to the truth."


def why(results: Results, bar: Bar) -> str:
    """Where the time of a bar's work goes, as far as it was measured."""
    told = ""
    if bar.table == "stream" and bar.column == "peak_mb":
        [line] = results(bar.table, **bar.where)
        told = f"{number(line.get('peak_mb_before'))} MB are Python and its libraries, before"
    elif bar.profile == "federation":
        [line] = results(bar.table, **bar.where)
        steps = ", ".join(f"{number(line[part], 2)} s {part}" for part in PARTS)
        told = f"{steps}; an empty job of the engine takes {number(line['empty_job'])} s"
    elif shares := _shares(results, bar.profile):
        told = ", ".join(shares)
    return f" Of it {told}." if told else ""


def _shares(results: Results, name: str) -> list[str]:
    """The functions in which a piece of work spends most of its time, with their shares."""
    return [
        f"{100.0 * float(line['share']):.0f} % {_quoted(line['function'])}"
        for line in results("profiles", name=name)
    ]


def _quoted(function: str) -> str:
    return function if " " in function or "." not in function else f"`{function}`"


BASE = {"judge": "fedcsa-table", "choose": "fedcsa-fit"}
COMPARED = {
    "cpu_seconds": "faster",
    "auroc_error": "nearer to the true AUROC",
    "risk_error": "nearer to the true risk",
    "chosen_risk": "a better model",
}


def _peers(results: Results) -> dict[str, list[Line]]:
    """Lines of everybody but us, by who it is."""
    found: dict[str, list[Line]] = {}
    for line in _at_errors(results):
        if line["version"]:
            found.setdefault(line["shown"], []).append(line)
    return found


def _ours(results: Results, line: Line) -> Line:
    """Our line for the same work."""
    same = {key: line[key] for key in ("family", "rows")}
    return results("peers", what=BASE[line["task"]], **same)[0]


def _at_errors(results: Results) -> list[Line]:
    """Lines of the size at which all families were drawn."""
    lines = results("peers")
    several = {line["rows"] for line in lines if line["family"] != lines[0]["family"]}
    return [line for line in lines if line["rows"] in several]


def profiles(results: Results) -> str:
    """The functions in which commands spend most of their time."""
    work = {line["name"]: line["work"] for line in results("profiles") if "`" in line["work"]}
    rows = [(shown, ", ".join(_shares(results, name))) for name, shown in work.items()]
    return table(("command", "where its time goes"), rows)


def peers(results: Results) -> str:
    """Time and error of everybody; errors family by family."""
    found: dict[str, list[Line]] = {}
    for line in _at_errors(results):
        found.setdefault(line["what"], []).append(line)

    def rows(task: str, keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
        for lines in found.values():
            first = lines[0]
            if first["task"] == task:
                times = [float(line["cpu_seconds"]) for line in lines]
                cells = [" / ".join(number(line[key], 2) for line in lines) for key in keys]
                who = f"{first['shown']} {first['version']}".strip()
                yield who, first["needs"], f"{sum(times) / len(times):.2g}", *cells

    families = " / ".join(line["family"] for line in next(iter(found.values())))
    head = ("", "needs its", "CPU seconds")
    judged = rows("judge", ("auroc_error", "risk_error", "ratio_error"))
    chosen = rows("choose", ("risk_error", "chosen_risk"))
    first = table((*head, f"error of AUROC: {families}", "of log Brier", "of the ratio"), judged)
    second = table((*head, f"error of log risk: {families}", "true risk of its choice"), chosen)
    left_out = [f"- {line['what']}: {line['why']}" for line in results("peers_left_out")]
    told = "\n\nLeft out:\n\n" + "\n".join(left_out) if left_out else ""
    drawn = figure("bench-peers", "CPU seconds against rows a side, on logarithmic axes.")
    return f"{first}\n\n{second}{drawn}{told}"


def trees(results: Results) -> str:
    own = {(x["rows"], x["estimator"]): x for x in results("trees", what="scikit-learn")}
    rows = [
        (
            f"`{line['estimator']}`",
            line["rows"],
            number(own[line["rows"], line["estimator"]]["cpu_seconds"]),
            number(line["cpu_seconds"]),
            number(line["cpu_ratio"]),
        )
        for line in results("trees", what="walk")
    ]
    head = ("100 trees", "rows", "CPU seconds, scikit-learn", "CPU seconds, ours")
    return table((*head, "× scikit-learn"), rows)


def machine(results: Results) -> str:
    """What everything was measured on, and how long and how undisturbed every script ran."""
    runs = {line["script"]: line for line in results("runs")}
    told = {name: results.provenance(name) for name in results.provenances()}
    if not told:
        return NOT_YET
    first = next(iter(told.values()))
    computer, packages = first["machine"], first["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in ("numpy", "scipy", "scikit-learn"))
    commits = {_short(one.get("commit", "")) for one in told.values()}
    words = f"Measured at commit {', '.join(sorted(commits))}. "
    words += f"{computer['processor']}, {computer['cores']} cores, {computer['memory_gb']} GB; "
    words += f"Python {computer['python']}, {versions}. Load is the machine's average over a "
    words += "minute; a script adds to it itself. *Taken* is the part of all cores that the host "
    words += "gave to others meanwhile."
    apart = [number(line.get("peer_wall_ratio")) for line in results("fits")]
    words += " What two cores are here: two processes that fit scikit-learn's models at once, one "
    words += f"for each of two sources, need {', '.join(apart)} × the seconds of both on one core."
    rows = [
        (
            f"`{name}`",
            number(runs.get(name, {}).get("seconds")),
            f"{one['machine']['load_before']:g}",
            f"{one['machine']['load_average']:g}",
            _percent(runs.get(name, {}).get("stolen")),
        )
        for name, one in told.items()
    ]
    return f"{words}\n\n" + table(("script", "seconds", "load before", "load after", "taken"), rows)


def _percent(share: str | None) -> str:
    return "–" if not share else f"{100.0 * float(share):.1f} %"


def _short(commit: str) -> str:
    head, _, mark = commit.partition("-")
    return "-".join(filter(None, (head[:12] or "unknown", mark)))


def federation(results: Results) -> str:
    told = results.provenance("federation")
    computer, packages = told["machine"], told["packages"]
    before, after = computer["load_before"], computer["load_average"]
    words = (
        f"{told['settings']['rows']} rows a site, nvflare {packages['nvflare']}, "
        f"{computer['processor']}, {computer['cores']} cores; "
        f"load {before:g} at the beginning, {after:g} at the end."
    )
    keys = ("connect", "study", *PARTS, "empty_job", "megabytes", "in_process")
    rows = [
        (
            line["sources"],
            *(number(line[key]) for key in keys),
            f"{100.0 * float(line['engine_share']):.1f} %",
        )
        for line in results("federation")
    ]
    head = ("sources", "sites connected", "submit to result", *PARTS, "an empty job", "MB")
    head = (*head, "in one process")
    return words + "\n\n" + table((*head, "engine's share"), rows)


def long_tables(results: Results) -> str:
    """CPU seconds and memory of commands on a table of many rows."""
    sizes = results.provenance("long_tables")["settings"]
    words = f"{sizes['rows']:,} rows of an id and {sizes['features']} numbers; two sources of "
    words += f"{sizes['source_rows']:,} rows:"
    ways: dict[str, dict[str, str]] = {}
    for line in results("long_tables"):
        told = f"{number(line['cpu_seconds'], 2)} s, {float(line['peak_mb']):.0f} MB"
        ways.setdefault(line["way"], {})[line["kind"]] = told
    rows = [
        (f"`fedcsa {way}`", told["parquet"], told.get("csv", "–")) for way, told in ways.items()
    ]
    return f"{words}\n\n" + table(("command", "Parquet", "CSV"), rows)


# Pages --------------------------------------------------------------------------------------

Block = Callable[[Results], str]
#: name -> the block, and the table that it needs, if any
Blocks = dict[str, tuple[Block, str]]


def of_tables(*blocks: Block) -> Blocks:
    """Blocks that are named like the table that they show."""
    return {block.__name__: (block, block.__name__) for block in blocks}


PAGES: dict[str, Blocks] = {
    "benchmarks.md": {
        "criteria": (criteria, ""),
        "lost": (lost, ""),
        "machine": (machine, ""),
        **of_tables(profiles, peers, trees),
    },
    "federation.md": of_tables(federation),
    "large-tables.md": of_tables(long_tables),
}


def render(text: str, blocks: Blocks, results: Results) -> str:
    """The page with every marked block written anew."""
    for name, (block, needed) in blocks.items():
        begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"The page must have one block {name!r}.")
        told = block(results) if not needed or results(needed) else NOT_YET
        content = f"{begin}\n\n{told}\n\n{end}"
        text = pattern.sub(lambda _, content=content: content, text)
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")
    given = parser.parse_args(arguments)
    results = Results(given.results)
    for name, blocks in PAGES.items():
        before = (given.docs / name).read_text(encoding="utf-8")
        after = render(before, blocks, results)
        if not given.check:
            (given.docs / name).write_text(after, encoding="utf-8")
        elif before != after:
            sys.exit(f"{name} must be rendered anew: python -m benchmarks.render")


if __name__ == "__main__":
    main()
