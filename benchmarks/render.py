"""Write the tables of docs/benchmarks.md, and the table of docs/federation.md.

What was measured is never typed by hand. Only what stands between ``<!-- begin:NAME -->`` and
``<!-- end:NAME -->`` is rewritten.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.bars import Results, bars
from benchmarks.harness import RESULTS, ROOT

DOCS = ROOT / "docs"
NOT_YET = "*Not measured yet.*"


def number(text: str, digits: int = 3) -> str:
    return f"{float(text):.{digits}g}" if text else "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(name: str, words: str) -> str:
    return f"\n\n![{words}, on logarithmic axes.](generated/figures/{name}.svg)"


# Blocks -------------------------------------------------------------------------------------


def machine(results: Results) -> str:
    """Where and with what each script was run."""
    rows = []
    for name in results.provenances():
        told = results.provenance(name)
        computer, packages = told["machine"], told["packages"]
        blas = (computer["blas"] or [{"internal_api": "unknown", "version": ""}])[0]
        library = f"{blas['internal_api']} {blas['version']}"
        versions = ", ".join(f"{key} {packages[key]}" for key in ("numpy", "scipy"))
        rows.append(
            (
                f"`{name}`",
                f"{computer['processor']}, {computer['cores']} cores",
                f"Python {computer['python']}, {versions}, {library}",
                f"{computer['load_average']:g}",
            )
        )
    return table(("script", "machine", "versions", "load at its end"), rows)


def criteria(results: Results) -> str:
    """Every bar beside what was measured."""
    return table(
        ("what", "bar", "measured", ""),
        [(bar.what, bar.bar, bar.measured, bar.verdict) for bar in bars(results)],
    )


def ratio(results: Results) -> str:
    names = {
        "floor": "floor: nine kernel and Gram matrices",
        "ulsif": "`ULSIF`, 9 × 9",
        "ulsif-exact": "`ULSIF(score_rows=None)`, exact leave-one-out",
    }
    rows = [
        (
            line["rows"],
            line["blas_threads"],
            names[line["what"]],
            number(line["seconds"]),
            number(line["cpu_seconds"]),
            number(line["ratio"]),
            number(line["cpu_ratio"]),
        )
        for line in results("ratio")
    ]
    head = ("rows a side", "BLAS threads", "", "seconds", "CPU seconds", "× floor")
    drawn = figure("bench-ratio", "Seconds against rows a side")
    return table((*head, "× floor, CPU"), rows) + drawn


def peers(results: Results) -> str:
    rows = [
        (
            line["rows"],
            f"{line['what']} {line['version']}".strip(),
            number(line["cpu_seconds"]),
            number(line["times_ours"]),
            number(line["times_exact"]),
            number(line["import_seconds"], 2),
            number(line["exponent"], 2),
        )
        for line in results("peers")
    ]
    head = ("rows a side", "", "CPU seconds", "× ours", "× ours, exact", "import, seconds")
    return table((*head, "exponent in rows"), rows)


def ridge(results: Results) -> str:
    names = {"path": "coefficients", "models": "models"}
    rows = [
        (
            line["rows"],
            names[line["what"]],
            line["candidates"],
            *(number(line[key]) for key in ("seconds", "ratio", "cpu_ratio")),
        )
        for line in results("ridge")
    ]
    return table(("rows", "what", "candidates", "seconds", "× one", "× one, CPU"), rows)


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


def source(results: Results) -> str:
    rows = [
        (
            *(line[key] for key in ("rows", "blas_threads", "candidates", "what")),
            *(number(line[key]) for key in ("seconds", "ratio", "cpu_ratio")),
            number(line["exponent"], 3),
        )
        for line in results("source")
    ]
    head = ("rows", "BLAS threads", "candidates", "", "seconds", "× floor", "× floor, CPU")
    drawn = figure("bench-source", "Seconds against rows of a source")
    return table((*head, "exponent"), rows) + drawn


def stream(results: Results) -> str:
    rows = [
        (
            {"stream": "batches", "memory": "in memory"}[line["kind"]],
            line["rows"],
            *(number(line[key]) for key in ("seconds", "microseconds_per_row", "peak_mb")),
            number(line["times_memory_per_row"]),
            number(line["exponent"]) if line["kind"] == "stream" else "–",
        )
        for line in results("stream")
    ]
    head = ("source", "rows", "seconds", "µs a row", "peak memory, MB", "× in memory, a row")
    return table((*head, "exponent"), rows)


def many_sources(results: Results) -> str:
    keys = ("seconds", "sum_of_own", "target", "ratio")
    rows = [
        (line["sources"], line["rows"], line["candidates"], *(number(line[key]) for key in keys))
        for line in results("many_sources")
    ]
    head = ("sources", "rows each", "candidates", "all, CPU seconds", "sum of their own")
    return table((*head, "the target", "all / sum"), rows)


def target(results: Results) -> str:
    rows = [
        (
            *(line[key] for key in ("varied", "sources", "candidates")),
            number(line["seconds"]),
            number(line["exponent"], 2),
        )
        for line in results("target")
    ]
    drawn = figure("bench-sources", "Seconds of the target against the number of sources")
    drawn += figure("bench-candidates", "Seconds of the target against the number of candidates")
    return table(("varied", "sources", "candidates", "CPU seconds", "exponent"), rows) + drawn


def table1(results: Results) -> str:
    rows = [
        (
            line["runs"],
            *(number(line[key]) for key in ("seconds", "cpu_seconds")),
            line["all_runs"],
            number(line["all_runs_on_two_cores"]),
        )
        for line in results("table1")
    ]
    head = ("runs", "seconds", "CPU seconds", "runs in all", "these on two free cores, seconds")
    shares = [
        (line["part"], f"{100.0 * float(line['share']):.0f} %")
        for line in results("table1_profile")
    ]
    return table(head, rows) + "\n\n" + table(("part (one may contain another)", "share"), shares)


def imports(results: Results) -> str:
    rows = [
        (f"`{line['statement']}`", number(line["seconds"]), number(line["ratio"]))
        for line in results("imports")
    ]
    return table(("in a fresh process", "seconds", "× numpy and scipy.linalg"), rows)


def messages(results: Results) -> str:
    keys = ("rows", "candidates", "bytes", "bytes_per_candidate", "other_bytes")
    rows = [tuple(line[key] for key in keys) for line in results("messages")]
    return table(("rows", "candidates", "bytes", "for each candidate", "all else"), rows)


def federation(results: Results) -> str:
    told = results.provenance("federation")
    computer, packages = told["machine"], told["packages"]
    before, after = computer["load_before"], computer["load_average"]
    words = (
        f"{told['settings']['rows']} rows a site, nvflare {packages['nvflare']}, "
        f"{computer['processor']}, {computer['cores']} cores; "
        f"load {before:g} at the beginning, {after:g} at the end."
    )
    steps = ("announce", "risk", "choose", "model", "mix", "examine", "conclude")
    keys = ("connect", "study", *steps, "megabytes", "in_process")
    rows = [
        (
            line["sources"],
            *(number(line[key]) for key in keys),
            f"{100.0 * float(line['engine_share']):.1f} %",
        )
        for line in results("federation")
    ]
    head = ("sources", "sites connected", "submit to result", *steps, "MB", "in one process")
    return words + "\n\n" + table((*head, "engine's share"), rows)


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
        "machine": (machine, ""),
        **of_tables(
            ratio,
            peers,
            ridge,
            trees,
            source,
            stream,
            many_sources,
            target,
            table1,
            imports,
            messages,
        ),
    },
    "federation.md": of_tables(federation),
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
