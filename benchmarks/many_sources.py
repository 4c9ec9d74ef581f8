"""Many sources in one process against the sum of their own times, and what the target does alone.

A source's own time: to read the brief, to answer, to write its report; the same for its model, and
for its examination of the others' mixture.
All times are seconds of work on one core, so that they do not depend on what else the machine does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import (
    blas_threads,
    exponent,
    options,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.studies import outcomes, rows_of, source, target
from fedcsa import InProcess, Source, Target, run_study
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import ExaminationReport, ModelReport, RiskReport


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of sources and of candidates are those that bars are about."""

    sources: tuple[int, ...] = (10, 100, 1_000)
    candidates: tuple[int, ...] = (10, 100, 1_000, 10_000)
    rows: int = 200
    features: int = 10
    penalties: int = 101
    repeats: int = 3


QUICK = Settings(sources=(2, 4), candidates=(5, 10), rows=60, penalties=5, repeats=1)


def sites(count: int, rows: int, features: int) -> list[Source]:
    made = []
    for index in range(count):
        X = rows_of(rows, features, seed=1 + index)
        made.append(source(f"s{index:05d}", X, outcomes(X, seed=index)))
    return made


def together(settings: Settings, count: int) -> float:
    site_list = sites(count, settings.rows, settings.features)
    asking = target(settings.features, settings.penalties)
    return timed(lambda: run_study(asking, InProcess(site_list))).cpu


def _moved(model: ModelReport, by: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The model's arrays with other coefficients."""
    return {**model.arrays, "coefficients": model.arrays["coefficients"] + by}


def alone(settings: Settings, count: int) -> tuple[float, float]:
    """Sum of the sources' own times, and the time of the target between and after them."""
    site_list = sites(count, settings.rows, settings.features)
    asking = target(settings.features, settings.penalties)
    names = [site.name for site in site_list]
    own, asked = 0.0, 0.0
    messages: Mapping[str, Message] = dict.fromkeys(names, asking.brief(names))
    for step in (
        lambda came: dict.fromkeys(names, asking.choose(came)),
        asking.mix,
        asking.conclude,
    ):
        came, taken = _answers(site_list, {n: encode(each) for n, each in messages.items()})
        start = time.process_time()
        messages = step(came)
        own, asked = own + taken, asked + time.process_time() - start
    return own, asked


def _answers(
    site_list: Sequence[Source], wires: Mapping[str, bytes]
) -> tuple[dict[str, Message], float]:
    answers, total = {}, 0.0
    for site in site_list:
        start = time.process_time()
        answer = encode(site.answer(decode(wires[site.name])))
        total += time.process_time() - start
        answers[site.name] = decode(answer)
    return answers, total


def target_seconds(settings: Settings, count: int, candidates: int) -> float:
    """What the target does with the reports of `count` sources: one report, many names."""
    asking: Target = target(settings.features, candidates)
    names = [f"s{index:05d}" for index in range(count)]
    brief = asking.brief(names)
    [site] = sites(1, settings.rows, settings.features)
    report = site.answer(brief)
    if not isinstance(report, RiskReport):
        raise SystemExit("The source must answer the brief; it refused.")
    wires = [encode(replace(report, source=name)) for name in names]
    start = time.process_time()
    request = asking.choose({name: decode(w) for name, w in zip(names, wires, strict=True)})
    taken = time.process_time() - start
    model = site.answer(request)
    if not isinstance(model, ModelReport):
        raise SystemExit("The source must send its model; it refused.")
    noise = np.random.default_rng(0).normal(0.0, 0.01, (count, settings.features))
    wires = [
        encode(replace(model, source=name, arrays=_moved(model, noise[index])))
        for index, name in enumerate(names)
    ]
    start = time.process_time()
    mixtures = asking.mix({name: decode(w) for name, w in zip(names, wires, strict=True)})
    taken += time.process_time() - start
    found = site.answer(mixtures[names[0]])
    if not isinstance(found, ExaminationReport):
        raise SystemExit("The source must examine the mixture; it refused.")
    wires = [
        encode(replace(found, source=name, in_reply_to=digest(encode(mixtures[name]))))
        for name in names
    ]
    start = time.process_time()
    asking.conclude({name: decode(w) for name, w in zip(names, wires, strict=True)})
    return taken + time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    repeats = given.repeats or settings.repeats
    lines, scaling = [], []
    with blas_threads(1):
        for count in settings.sources:
            rounds = [(together(settings, count), *alone(settings, count)) for _ in range(repeats)]
            whole, own, asking = (statistics.median(column) for column in zip(*rounds, strict=True))
            lines.append(
                {
                    "sources": count,
                    "rows": settings.rows,
                    "candidates": settings.penalties,
                    "repeats": repeats,
                    "seconds": whole,
                    "sum_of_own": own,
                    "target": asking,
                    "ratio": statistics.median(a / b for a, b, _ in rounds),
                }
            )
        sizes = [(count, settings.candidates[1]) for count in settings.sources]
        sizes += [(settings.sources[1], count) for count in settings.candidates]
        for varied, (count, candidates) in zip(
            ["sources"] * len(settings.sources) + ["candidates"] * len(settings.candidates),
            sizes,
            strict=True,
        ):
            taken = [target_seconds(settings, count, candidates) for _ in range(repeats)]
            scaling.append(
                {
                    "varied": varied,
                    "sources": count,
                    "candidates": candidates,
                    "seconds": statistics.median(taken),
                }
            )
    for line in scaling:
        same = [other for other in scaling if other["varied"] == line["varied"]]
        line["exponent"] = exponent(
            [other[str(line["varied"])] for other in same], [other["seconds"] for other in same]
        )
    write_table(given.out, "many_sources", lines)
    write_table(given.out, "target", scaling)
    write_provenance(given.out, "many_sources", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
