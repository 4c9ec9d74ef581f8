"""What a target believes of another site: an answer that cannot be honest is refused by name.

`accept` and `open_models` hold every bound. They serve a study in one process and one between
sites alike: in one process a refusal is raised, at a desk it costs that source its part. Every
number is held against an inequality that all data satisfy, with a little slack: numbers may be
rounded to a few digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import BOUNDED, CLASSIFICATION, LOG_FLOOR, REGRESSION
from fedcsa.core.measures import NOT_ESTIMABLE, least_variance, measure_columns, measure_values
from fedcsa.core.random_effects import SMALLEST_VARIANCE
from fedcsa.core.scores import (
    RESIDUAL_SHAPE,
    TABLE_COLUMNS,
    ScoreDesign,
    Told,
    complement,
    over,
    told_by,
)
from fedcsa.core.units import CONVERSIONS, DIRECTIONS
from fedcsa.errors import BindingError, FedCSAError, MessageError, ModelError
from fedcsa.findings import FROM_SOURCES
from fedcsa.messages.codec import digest_of
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    SLACK,
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
    RiskReport,
    Rules,
)
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.fitted import FittedModel
from fedcsa.models.model import predicted_or_why_not
from fedcsa.target.estimate import Reported, wild_models
from fedcsa.target.search import check_same_rows

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: No hospital has more rows; a larger claim is meant to outweigh the others.
MAX_ROWS = 100_000_000
#: Names of exceptions and classes are shorter; a longer text could carry rows.
LONGEST_NAME = 60
#: Products of numbers this small may have underflowed.
TINY_PRODUCT = 1e-150
#: Sums of rounded numbers of either sign differ by this share of their size at most.
ROUNDED_SUMS = 0.01
#: Rows far from the target may weigh so little that a sum of their weights has one digit left.
_LAST_DIGIT = float(np.finfo(np.float64).smallest_subnormal)
#: What to do about a source whose numbers cannot be.
_ASK = "Ask the source which version of fedcsa it runs, or leave it out."
#: What answers which question, unless the source refuses.
_ANSWERS: Mapping[type[Message], type[Message]] = {
    Brief: RiskReport, MoreCandidates: RiskReport, ModelRequest: ModelReport,
    Examination: ExaminationReport,
}  # fmt: skip
#: Told of a source whose answer is not accepted, and why.
Refuse = Callable[[str, FedCSAError], None]


def raise_refusal(source: str, error: FedCSAError) -> None:  # noqa: ARG001
    """End the study: in one process a source that lies is a mistake, and no other site's doing.

    Parameters
    ----------
    source : str
        Not used.
    error : FedCSAError
    """
    raise error


def accept(
    answer: Message, source: str, question: Message, brief: Brief, said: RiskReport | None = None
) -> None:
    """Raise a `ProtocolError` unless an honest source could answer `question` with this.

    A model is opened after that, by `open_models`.

    Parameters
    ----------
    answer : Message
        As it came; a refusal of the source's own is an answer too.
    source : str
        Name of the source.
    question : Brief, MoreCandidates, ModelRequest or Examination
    brief : Brief
        With the candidates that the question is about.
    said : RiskReport, optional
        What the source reported before; none when it is asked for its first report.
    """
    kind = _ANSWERS[type(question)]
    if not isinstance(answer, kind | Refusal):
        text = f"Source {source!r} must answer with a {kind.name}; a {answer.name} came."
        raise BindingError("phase_order", text)
    assert isinstance(answer, RiskReport | ModelReport | ExaminationReport | Refusal)  # noqa: S101
    if (answer.study, answer.source) != (brief.study, source):
        raise BindingError("wrong_sender", f"The answer of source {source!r} must be its own.")
    if answer.in_reply_to != digest_of(question):
        raise BindingError("replayed", f"Source {source!r} must answer this very question.")
    if isinstance(answer, RiskReport):
        _hold(f"The report of source {source!r}", _report_rules(answer, brief))
        if said is not None:  # in an earlier round of a search
            check_same_rows(answer, said)
    elif isinstance(answer, ModelReport):
        assert isinstance(question, ModelRequest)  # noqa: S101 - for the type checker
        assert said is not None  # noqa: S101 - else it was not asked
        if answer.candidate != question.candidate:
            raise MessageError(f"Source {source!r} must send the candidate asked for. {_ASK}")
        if answer.n_rows > said.n_rows or (brief.refit and answer.n_rows != said.n_rows):
            raise MessageError(
                f"The model of source {source!r} must be of the rows that its report was on. {_ASK}"
            )
    elif isinstance(answer, ExaminationReport):
        assert isinstance(question, Examination)  # noqa: S101 - for the type checker
        rules = _examination_rules(answer, question, brief, said)
        _hold(f"The examination of source {source!r}", rules)


def _hold(what: str, rules: Rules) -> None:
    """Raise a `MessageError` about the first rule that does not hold.

    Parameters
    ----------
    what : str
        Subject of the sentence that a rule ends.
    rules : iterator of tuple of object and str
    """
    try:
        with np.errstate(over="ignore"):  # an infinite square holds to no bound
            for holds, text in rules:
                if not holds:
                    raise MessageError(f"{what} {text}")
    except ArithmeticError:  # a square that no float holds
        raise MessageError(f"{what} must have numbers of a possible size. {_ASK}") from None


def _report_rules(report: RiskReport, brief: Brief) -> Rules:
    """The bounds of a report that need the brief; its own it has checked when it was made.

    Parameters
    ----------
    report : RiskReport
    brief : Brief
    """
    shares, bounded = report.outcome_mean, brief.loss in BOUNDED
    k, d, classes = len(brief.candidates), len(brief.features), len(brief.classes)
    yield report.n_rows <= MAX_ROWS, f"must be on at most {MAX_ROWS} rows."
    covers = (len(report.risk), len(report.difference_after)) == (k, d)
    yield covers, f"must cover the study's {k} candidates and {d} features."
    once = brief.scheme != "cross-fit" or report.n_judged == report.n_rows
    yield once, "must judge every row once."
    yield report.n_folds <= brief.n_folds, "must have the study's folds, or fewer."
    yield (len(report.loss_mean) > 0) == brief.moments, "must have moments if the study asks."
    yield len(shares) == max(classes, 1), "must be on the study's outcome."
    yield not (classes and report.outcome_sd), f"must have no sd of classes. {_ASK}"
    whole = (shares >= 0.0).all() and 1 / SLACK <= shares.sum() <= SLACK
    yield whole or not classes, f"must have shares that sum to 1. {_ASK}"
    if report.findings or report.failed:
        yield from _word_rules(report, brief)
    if brief.loss not in (*REGRESSION, *CLASSIFICATION):
        return
    # Built-in losses are not negative, and some are at most 1; their variances follow.
    yield not (report.risk < 0.0).any(), f"has a negative risk. {_ASK}"
    if bounded:
        yield not (report.risk > SLACK).any(), f"has a risk above 1. {_ASK}"
        # Σw²(L − f)² ≤ max w · Σw(L − f)², and losses in [0, 1] vary most if all are 0 or 1.
        rows = max(report.effective_rows, 1.0)
        share = max(report.largest_share, 1.0 / rows) * rows / max(rows - 1.0, 0.5)
        most = SLACK**2 * share * _of_two_values(report.risk) + TINY_PRODUCT
        yield not (report.variance > most).any(), f"has an impossible variance. {_ASK}"
    if brief.moments:
        yield from _moment_rules(report, bounded=bounded)


def _examination_rules(
    report: ExaminationReport, question: Examination, brief: Brief, said: RiskReport | None
) -> Rules:
    """Risks and variances above 0, and at most 1 where the loss is; one risk per member.

    Parameters
    ----------
    report : ExaminationReport
    question, brief, said
        As for `accept`.
    """
    classes, impossible = len(brief.classes), f"has an impossible risk. {_ASK}"
    silent = bool(report.reason) and report.reason != "mixture_failed"
    members = 0 if silent else len(question.weights)
    yield len(report.member_risk) == members, "must be of every single model."
    yield silent or min([report.constant_risk, *report.member_risk.tolist()]) >= 0.0, impossible
    if report.reason:
        return
    levels = 1 if classes in (0, 2) else classes
    yield len(report.level) == levels, "must be of the study's outcome."
    told = [report.level_variance, report.member_variance]
    least = min(report.risk_variance, report.ratio_variance, *np.concatenate(told).tolist())
    yield min(report.risk, report.constant_risk) > 0.0, impossible
    yield least >= SMALLEST_VARIANCE / SLACK, impossible
    yield brief.loss not in BOUNDED or max(report.risk, report.constant_risk) <= SLACK, impossible
    # The explained part of V/f² is at most V/f², of which the variance is at least 1/ESS.
    rows = 1.0 if said is None else max(said.effective_rows, 1.0)
    yield report.explained <= SLACK**3 * rows * report.risk_variance, impossible
    for holds, text in score_rules(report, brief.score_bins(question.centre, question.unit), said):
        yield holds, f"has {text}. {_ASK}"


def _word_rules(report: RiskReport, brief: Brief) -> Rules:
    """A source may say only what it alone can know, in numbers and in names of classes.

    A column in another unit is a number of the study, and the conversion a known one.

    Parameters
    ----------
    report : RiskReport
    brief : Brief
    """
    texts, told = list(report.failed.values()), []
    for item in report.findings:
        code, evidence = item["code"], item["evidence"]
        own = code in FROM_SOURCES and set(evidence) == set(FROM_SOURCES[code])
        yield own, f"must hold findings of a source's own. {_ASK}"
        texts += [text for text in evidence.values() if isinstance(text, str)]
        if code == "other-unit":
            told.append(evidence)
    named = all(text.isidentifier() and len(text) <= LONGEST_NAME for text in texts)
    yield named, f"must give reasons by name, not in words. {_ASK}"
    numbers = {float(i) for i, flag in enumerate(brief.flags) if not flag}
    known = len({item["column"] for item in told}) == len(told) and all(
        item["column"] in numbers
        and item["conversion"] in CONVERSIONS
        and item["direction"] in DIRECTIONS
        for item in told
    )
    yield known, f"must name columns and conversions that there are. {_ASK}"


def _moment_rules(report: RiskReport, *, bounded: bool) -> Rules:
    """What the moments for the paper's formulas must satisfy besides.

    Parameters
    ----------
    report : RiskReport
    bounded : bool
        Whether the loss lies in [0, 1].
    """
    n, mean, product, ratio = (
        report.n_judged, report.loss_mean, report.product_mean, report.ratio_mean
    )  # fmt: skip
    if ratio > 1e-100:  # below, second moments may underflow
        expected = n / (1.0 + report.ratio_m2 / ratio / ratio / n)
        follow = expected / SLACK <= report.effective_rows <= SLACK * expected
        yield follow, f"must have effective rows that follow from its ratio. {_ASK}"
    yield not ((mean < 0.0).any() or (product < 0.0).any()), f"has a negative risk. {_ASK}"
    # Σ rL ≤ max r · ΣL, with max r = largest share · Σr
    ceiling = report.largest_share * n * ratio * mean
    heavy = product > SLACK * ceiling + 1e-300
    yield not heavy.any(), f"has an impossible weighted risk. {_ASK}"
    above = (mean > SLACK).any() or (product > SLACK * ratio).any()
    yield not (bounded and above), f"has a risk above 1. {_ASK}"
    # Losses that are not negative vary most if all of them but one are zero.
    with np.errstate(over="ignore"):  # then nothing is too large
        largest = {
            "loss_m2": n * _of_two_values(mean) if bounded else n * (n - 1.0) * mean**2,
            "product_m2": n * (n - 1.0) * product**2,
        }
    for what, most in largest.items():
        rounding = 1e-12 * float(most.max())  # of nearly equal losses
        beyond = getattr(report, what) > SLACK**2 * most + rounding + TINY_PRODUCT
        yield not beyond.any(), f"has an impossible {what}. {_ASK}"


def _of_two_values(mean: Array) -> Array:
    """The largest variance of numbers in [0, 1] with about this mean: p(1 − p)."""
    nearest = np.clip(0.5, np.minimum(mean / SLACK, 1.0), np.minimum(mean * SLACK, 1.0))
    variance: Array = nearest * (1.0 - nearest)
    return variance


def open_models(
    sent: Mapping[str, ModelReport],
    reported: Reported,
    plan: Plan,
    seen: Iterable[Array],
    sd: Array,
) -> tuple[dict[str, FittedModel], dict[str, str], dict[str, FedCSAError]]:
    """Open every model whose report was accepted, and let it predict the target's rows.

    Those that can be used; of those that cannot predict the rows, the name of the reason; and of
    those that were not agreed, or that no honest source sends, what is wrong. A model may know
    nothing of a level that the target has; that is no lie.

    Parameters
    ----------
    sent : mapping of str to ModelReport
    reported : Reported
        What all sources told: how large an error typically is.
    plan : Plan
    seen : iterable of array of shape (rows, features)
        The target's rows in the models' units; its means alone, if it told only a table. Models
        are compared on the first array, and must be able to predict the others too.
    sd : array of shape (features,)
        The target's, as it told them.
    """
    models, unable, refused = dict[str, FittedModel](), dict[str, str](), dict[str, FedCSAError]()
    for name, report in sorted(sent.items()):
        try:
            told = report.form, report.arrays, plan, report.candidate
            models[name] = open_agreed(*told, sd, report.held)
        except ModelError as error:
            refused[name] = MessageError(f"The model of source {name!r} is refused. {error}")
    for place, rows in enumerate(seen):
        outputs = dict[str, Array]()
        for name in list(models):
            output, reason = predicted_or_why_not(models[name], rows)
            if output is None:
                unable[name] = reason
                del models[name]
            elif place == 0:
                outputs[name] = output
        for name in wild_models(outputs, reported, plan.loss) if outputs else ():
            del models[name]
            if name in reported.reaching:
                text = f"The model of source {name!r} predicts what no honest model would. {_ASK}"
                refused[name] = wild = MessageError(text)
                wild.rule = "wild_model"
            else:  # there an honest model may be far off
                unable[name] = "WildModel"
    return models, unable, refused


# Score tables, sums, variances and residuals of an examination ----------------------------------


def score_rules(report: ExaminationReport, design: ScoreDesign, said: RiskReport | None) -> Rules:
    """What must hold in what a source tells of scores, and in a few words what it has otherwise.

    Parameters
    ----------
    report : ExaminationReport
    design : ScoreDesign
        Of the study, in the units of the examination.
    said : RiskReport or None
        What the source reported before: its rows, and how heavy one can be.
    """
    residuals = report.residuals
    if residuals.size:
        agreed = not design.n_classes and residuals.shape == RESIDUAL_SHAPE
        yield agreed, "residuals of another study"
        whole = 1.0 / SLACK <= residuals.sum() <= SLACK and (residuals >= 0.0).all()
        yield whole, "residuals that are no shares"
    table, sums, variances = report.scores, report.score_sums, report.measure_variance
    if not len(table):
        return
    n, columns = 1 + design.n_subgroups, measure_columns(design)
    shapes = (n, len(design.sum_names)), (n + design.n_subgroups, len(columns))
    yield (sums.shape, variances.shape) == shapes, "sums or variances of another study"
    yield from _table_rules(table, design)
    told, known = told_by(design, table, sums), variances != NOT_ESTIMABLE
    untold = np.setdiff1d(np.arange(n), list(told))
    silent = (sums[untold], known[untold], known[untold + design.n_subgroups])
    yield not any(map(np.any, silent)), "numbers of a subgroup without a table"
    each = np.array([(c.smallest, c.smallest_gap, c.measure.binomial) for c in columns]).T
    floors = np.repeat(each[:2], (n, design.n_subgroups), axis=0)
    yield not (known & (variances < floors / SLACK)).any(), "a variance below its floor"
    for s, part in told.items():
        yield from _weight_rules(table[table[:, 0] == s], part, said, whole=s == 0)
        yield from _class_rules(part) if design.n_classes else _number_rules(part)
        if s:
            yield from _part_rules(told[0], part)
        _, effective, x = measure_values(part, columns)
        yield np.isfinite(x[known[s]]).all(), "a variance of a measure that has no value"
        # A variance is not below that of a binomial count, where the measure is a rate.
        rates = np.flatnonzero(known[s] & (each[2] > 0.0))
        least = [least_variance(columns[k].measure, x[k], effective[k]) for k in rates]
        yield not (variances[s, rates] * SLACK**3 < least).any(), "a variance below its floor"


def _table_rules(table: Array, design: ScoreDesign) -> Rules:
    """Of the cells of a table: their places, then the numbers in them.

    Parameters
    ----------
    table : array of shape (cells, 7)
    design : ScoreDesign
    """
    whole = table.shape[1] == len(TABLE_COLUMNS) and (table[:, :4] == np.floor(table[:, :4])).all()
    yield whole, "cells that are not whole numbers"
    ordered = np.array_equal(np.unique(table[:, :3], axis=0), table[:, :3])
    yield ordered, "cells out of order"
    told = set(table[:, 0].tolist())
    known = 0.0 in told and told <= set(range(design.n_subgroups + 1))
    yield known, "cells of unknown subgroups"
    yield set(table[:, 1].tolist()) == set(design.classes), "cells of unknown classes"
    for s in told:
        for c in design.classes:
            ends = table[(table[:, 0] == s) & (table[:, 1] == c), 2]
            reach = len(ends) and ends[0] >= 0 and ends[-1] == design.n_bins - 1
            yield reach, "cells that leave bins out"
    previous = np.concatenate([[-1.0], table[:-1, 2]])
    fresh = np.concatenate([[True], (table[1:, :2] != table[:-1, :2]).any(axis=1)])
    first, last = np.where(fresh, 0, previous + 1).astype(np.intp), table[:, 2].astype(int)
    rows, w, wy, wp = table[:, 3:].T
    counted = (rows >= 0.0).all() and (w >= 0.0).all() and not table[rows == 0.0, 4:].any()
    yield counted, "cells with impossible counts"
    floor, ceiling = (0.0, 1.0) if design.n_classes else (-np.inf, np.inf)
    edges = np.concatenate([[floor], design.edges, [ceiling]])
    lower, upper = edges[first], edges[last + 1]
    some, mean = w > 0.0, over(wp, w, 0.0)
    slack = ROUNDED_SUMS * np.maximum(np.abs(mean), np.minimum(np.abs(lower), np.abs(upper)))
    slack += rows * _LAST_DIGIT * (1.0 + np.abs(mean)) / np.where(some, w, 1.0)
    outside = some & ((mean < lower - slack) | (mean > upper + slack))
    yield not outside.any(), "predictions outside their cell"
    events = (wy < 0.0) | (wy > SLACK * w)
    yield not (design.n_classes and events.any()), "more events than rows"


def _part_rules(everybody: Told, part: Told) -> Rules:
    """Cells of a subgroup are unions of everybody's, and have no more weight.

    Parameters
    ----------
    everybody, part : Told
    """
    for of_all, ends in zip(everybody.ends, part.ends, strict=True):
        yield np.isin(ends, of_all).all(), "cells of a subgroup that are not everybody's"
    rest = complement(everybody, part)
    for cells, whole in zip(rest.cells, everybody.cells, strict=True):
        heavier = cells[:, 0] < -ROUNDED_SUMS * whole[:, 0].max()
        yield not heavier.any(), "a subgroup heavier than everybody"


def _weight_rules(rows: Array, told: Told, said: RiskReport | None, *, whole: bool) -> Rules:
    """No more rows than the source has, and no more weight than they can carry.

    Parameters
    ----------
    rows : array of shape (cells, 7)
        Of one subgroup.
    told : Told
        The same, with its sums.
    said : RiskReport or None
        Rows of the source, and the largest weight of one.
    whole : bool
        Whether it is everybody: then weights sum to one.
    """
    most_rows = np.inf if said is None else float(said.n_rows)
    heaviest = 1.0 if said is None else said.largest_share
    total, squares = float(told.sums["weight"]), float(told.sums["weight_squares"])
    one = 0.0 < total <= SLACK and not (whole and total < 1.0 / SLACK)
    yield one, "weights that do not sum to one"
    heavier = rows[:, 4] > SLACK**2 * heaviest * rows[:, 3] + TINY_PRODUCT
    yield not heavier.any(), "cells heavier than their rows"
    for c in told.design.classes:
        here = rows[rows[:, 1] == c]
        yield here[:, 3].sum() <= SLACK * most_rows, "more rows than the source has"
        summed = total / SLACK <= here[:, 4].sum() <= SLACK * total
        yield summed, "cells that do not sum to their total"
    # (Σw)²/n ≤ Σw² ≤ max w · Σw
    counted = float(rows[rows[:, 1] == told.design.classes[0], 3].sum())
    between = total**2 / SLACK**3 <= squares * counted and squares <= SLACK**2 * heaviest * total
    yield between, "impossible squares of weights"


def _class_rules(told: Told) -> Rules:
    """Sums agree with the cells, and with each other by Cauchy and Schwarz."""
    w = float(told.sums["weight"])
    brier, log_loss = float(told.sums["brier"]), float(told.sums["log_loss"])
    most = w if told.design.n_classes == 2 else 2.0 * w
    yield 0.0 <= brier <= SLACK * most, "impossible losses"
    yield 0.0 <= log_loss <= -SLACK * np.log(LOG_FLOOR) * w, "impossible losses"
    for c in told.design.classes:
        events, squares = float(told.sums[f"events_{c}"]), float(told.sums[f"event_squares_{c}"])
        _, wy, wp = told.table_of(c)
        for total, cells in ((events, wy), (float(told.sums[f"expected_{c}"]), wp)):
            low, high = total / SLACK - TINY_PRODUCT, SLACK * total + TINY_PRODUCT
            yield low <= cells.sum() <= high, "cells that do not sum to their total"
        most = SLACK * min(float(told.sums["weight_squares"]), events)
        yield 0.0 <= squares <= most, "impossible squares of weights"


def _number_rules(told: Told) -> Rules:
    """The same for an outcome of numbers."""
    w, _, y, yy, p, pp, py, absolute, squared = told.exact.tolist()  # see `NUMBER_SUMS`
    size, contradict = yy + pp + 2.0 * abs(py), "contradict Cauchy and Schwarz"
    for first, second in ((y, yy), (p, pp), (absolute, squared)):
        yield first**2 <= SLACK**2 * w * second + TINY_PRODUCT, f"sums that {contradict}"
    yield py**2 <= SLACK**2 * yy * pp + TINY_PRODUCT, f"sums that {contradict}"
    yield min(yy, pp, absolute, squared) >= 0.0, f"sums that {contradict}"
    follow = abs(yy + pp - 2.0 * py - squared) <= ROUNDED_SUMS * size + TINY_PRODUCT
    yield follow, "residuals that do not follow from outcomes and predictions"
    cell_w, cell_y, cell_p = told.cells[0].T
    for total, cells, squares in ((y, cell_y, yy), (p, cell_p, pp)):
        beyond = cells**2 > SLACK**2 * cell_w * squares + TINY_PRODUCT
        yield not beyond.any(), f"cells that {contradict}"
        summed = abs(total - cells.sum()) <= ROUNDED_SUMS * np.sqrt(w * squares) + TINY_PRODUCT
        yield summed, "cells that do not sum to their total"
