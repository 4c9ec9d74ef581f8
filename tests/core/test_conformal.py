"""Limits from histograms equal those of slow loops over rows, and grow where they must."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from fedcsa.core.conformal import (
    BAND_SCALE,
    LOGIT_SCALE,
    PLACES,
    RESIDUAL_LOG_SCALE,
    SMALLEST_SPREAD,
    class_limit,
    half_widths,
    split_limit,
)
from fedcsa.core.random_effects import held_in, new_site
from fedcsa.core.scores import (
    BANDS,
    FAR_END,
    RESIDUAL_ENDS,
    RESIDUAL_SHAPE,
    ScoreDesign,
    ScoreSums,
    distance_band,
    residual_sums,
    told_by,
    told_residuals,
)


def _source(seed, n=200, size=1.0, grows=0.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    residual = size * rng.normal(size=n) * (1.0 + grows * np.square(z).mean(axis=1))
    w = rng.exponential(size=n)
    return z, residual, w / w.sum()


def _slow_split(scores, weights, own, level):
    """Weighted split conformal, one row at a time; the new row's score is infinite."""
    total = sum(weights) + own
    reached = 0.0
    for score, weight in sorted(zip(scores, weights, strict=True)):
        reached += weight / total
        if reached >= level - 1e-12:
            return score
    return math.inf


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_a_limit_is_that_of_a_slow_loop_over_rows_with_the_new_row_at_infinity(level):
    rng = np.random.default_rng(0)
    for n in (1, 5, 12, 80):
        scores, weights = rng.normal(size=n).round(1), rng.exponential(size=n)
        rows = float(weights.sum() ** 2 / (weights**2).sum())
        own = float(weights.sum()) / rows  # 1/(rows + 1) of everything
        expected = _slow_split(scores.tolist(), weights.tolist(), own, level)
        assert split_limit(scores, weights, rows, level) == expected


def _slow_told(z, residual, w, min_rows):
    """The told histogram by loops; the farthest bands first."""
    features = z.shape[1]
    cuts = [chi2.ppf(q / BANDS, features) / features for q in range(1, BANDS)]
    rows = [[] for _ in range(BANDS)]
    for x, r, weight in zip(z, residual, w, strict=True):
        band = sum(float(np.mean(x**2)) > cut for cut in cuts)
        at = next(b for b, end in enumerate(RESIDUAL_ENDS) if abs(r) <= end)
        rows[band].append((at, float(weight), min(abs(float(r)), 2 * RESIDUAL_ENDS[-2])))

    def enough(some):
        return len(some) >= min_rows and 2 * max(u for _, u, _ in some) <= sum(
            u for _, u, _ in some
        )

    told, carried = {}, []
    for band in reversed(range(BANDS)):
        carried = carried + rows[band]
        if enough(carried):
            told[band], carried = carried, []
    nearest = min(told, default=0)
    told[nearest] = told.get(nearest, []) + carried
    shares = np.zeros(RESIDUAL_SHAPE)
    for band, some in told.items():
        mean = sum(u * size for _, u, size in some) / sum(u for _, u, _ in some)
        below = [math.erf(end / (mean * math.sqrt(math.pi))) for end in RESIDUAL_ENDS]
        normal = [max(b - a, 1e-300) for a, b in zip([0.0, *below], below, strict=False)]
        cells, cell, inside = [], [], []
        for b in range(len(RESIDUAL_ENDS)):
            cell.append(b)
            inside += [row for row in some if row[0] == b]
            if inside and enough(inside):
                cells.append(cell)
                cell, inside = [], []
        if cell and cells:
            cells[-1] += cell
        elif cell:
            cells.append(cell)
        for cell in cells:
            mass = sum(u for at, u, _ in some if at in cell)
            for b in cell:
                shares[band, b] = mass * normal[b] / sum(normal[c] for c in cell)
    return shares / sum(u for some in told.values() for _, u, _ in some)


@pytest.mark.parametrize("n", [3, 9, 60, 200])
@pytest.mark.parametrize("min_rows", [2, 5, 20])
def test_what_is_told_is_that_of_a_slow_loop(n, min_rows):
    z, residual, w = _source(n, n)
    found = told_residuals(*residual_sums(z, residual, w), min_rows)
    np.testing.assert_allclose(found, _slow_told(z, residual, w, min_rows), atol=1e-12)


def test_unjoined_shares_are_the_weights_in_every_bin():
    z, residual, w = _source(1)
    found = told_residuals(*residual_sums(z, residual, w), 1)
    expected = np.zeros(RESIDUAL_SHAPE)
    for band, r, weight in zip(distance_band(z), residual, w, strict=True):
        expected[band, np.searchsorted(RESIDUAL_ENDS, abs(r))] += weight
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_batches_tell_what_all_rows_tell():
    z, residual, w = _source(2)
    parts = [slice(0, 70), slice(70, 71), slice(71, 200)]
    counts = [residual_sums(z[p], residual[p], w[p]) for p in parts]
    sums, heaviest = zip(*counts, strict=True)
    merged = np.sum(sums, axis=0), np.max(heaviest, axis=0)
    whole = residual_sums(z, residual, w)
    np.testing.assert_allclose(told_residuals(*merged, 5), told_residuals(*whole, 5), rtol=1e-12)


def test_the_largest_residual_moves_no_cell():
    z, residual, w = _source(3)
    residual[np.argmax(np.abs(residual))] *= 1.2  # same band, another bin
    before = residual_sums(z, residual, w)
    residual[np.argmax(np.abs(residual))] *= 1.2
    after = residual_sums(z, residual, w)
    assert not np.array_equal(told_residuals(*before, 1), told_residuals(*after, 1))
    cells = [told_residuals(*counts, 5) > 0.0 for counts in (before, after)]
    np.testing.assert_array_equal(*cells)


def test_one_heavy_row_is_never_told_alone():
    z, residual, w = _source(4, 100)
    heavy = int(np.argmax(np.abs(residual) < 0.5))
    w[heavy] = 0.3
    counts = residual_sums(z, residual, w / w.sum())
    band, at = distance_band(z)[heavy], np.searchsorted(RESIDUAL_ENDS, abs(residual[heavy]))
    joined, alone = (told_residuals(*counts, min_rows)[band, at] for min_rows in (5, 1))
    assert joined < 0.2 < alone


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e12])
def test_residuals_beyond_the_bins_are_counted_in_the_first_or_the_last(size):
    z, _, w = _source(5, 40)
    told = told_residuals(*residual_sums(z, np.full(40, size), w), 1)
    assert told[:, -1 if size > 1.0 else 0].sum() == pytest.approx(1.0)
    found = half_widths(told[None], np.array([40.0]), np.ones(1), 0.9)
    assert np.isinf(found).all() if size > 1.0 else (found < 0.05).all()


def _told(*sources, min_rows=1):
    return np.array([told_residuals(*residual_sums(*source), min_rows) for source in sources])


def _slow_half_widths(residuals, rows, weights, level):
    """Bands, sources, bins and places of a new site, one by one."""
    sources, ends = range(len(rows)), [*RESIDUAL_ENDS[:-1], 2 * RESIDUAL_ENDS[-2]]
    cells = [(q, b) for q in range(BANDS) for b in range(len(ends))]
    own = [sum(residuals[j][q][b] * ends[b] for q, b in cells) for j in sources]
    factors = []
    for q in range(BANDS):
        mass = [weights[j] * residuals[j][q].sum() for j in sources]
        share, effective = sum(mass), 0.0
        first = second = 0.0
        for j in sources:
            for b, end in enumerate(ends):
                first += weights[j] * residuals[j][q][b] * end / own[j] / share
                second += weights[j] * residuals[j][q][b] * (end / own[j]) ** 2 / share
            effective += (mass[j] / share) ** 2 / (rows[j] * residuals[j][q].sum())
        variance = max(second / first**2 - 1.0, SMALLEST_SPREAD) * effective
        factors.append(first ** (BAND_SCALE**2 / (BAND_SCALE**2 + variance)))
    places, variances = [], []
    for j in sources:
        mean = sum(residuals[j][q][b] * ends[b] / factors[q] for q, b in cells)
        square = sum(residuals[j][q][b] * (ends[b] / factors[q]) ** 2 for q, b in cells)
        places.append(math.log(mean))
        variances.append(max(square / mean**2 - 1.0, SMALLEST_SPREAD) / max(rows[j] - 1.0, 0.5))
    limit = _slow_new_site(
        [
            (math.log(ends[b] / factors[q]), j, weights[j] * residuals[j][q][b])
            for j in sources
            for q, b in cells
            if residuals[j][q][b] > 0.0
        ],
        places, variances, RESIDUAL_LOG_SCALE, weights, rows, level,
    )  # fmt: skip
    return [factor * math.exp(limit) for factor in factors]


def _slow_new_site(points, places, variances, scale, weights, rows, level):
    places, variances = np.array(places), np.array(variances)
    site = new_site(held_in(places, variances, scale), variances, scale)
    scores, mass = [], []
    for k in range(PLACES):
        moved = site.quantile((k + 0.5) / PLACES)
        for score, j, weight in points:
            scores.append(score + moved - places[j])
            mass.append(weight)
    effective = 1.0 / sum(a * a / n for a, n in zip(weights, rows, strict=True))
    return _slow_split(scores, mass, sum(mass) / effective, level)


@pytest.mark.parametrize("level", [0.6, 0.9])
def test_half_widths_are_those_of_a_slow_loop(level):
    told = _told(_source(6, grows=0.5), _source(7, 80, 1.3), _source(8, 120, 0.7))
    rows, weights = np.array([90.0, 40.0, 66.0]), np.array([0.5, 0.2, 0.3])
    found = half_widths(told, rows, weights, level)
    np.testing.assert_allclose(found, _slow_half_widths(told, rows, weights, level), rtol=1e-9)


def test_of_one_kind_of_row_the_limit_is_the_residual_at_the_upper_end_of_its_bin():
    z, _, w = _source(9, 400)
    told = _told((z, np.full(400, 1.0), w))
    end = RESIDUAL_ENDS[np.searchsorted(RESIDUAL_ENDS, 1.0)]
    found = half_widths(told, np.array([400.0]), np.ones(1), 0.5)
    np.testing.assert_allclose(found, end, rtol=0.02)  # the middle of where a new site may lie
    assert (half_widths(told, np.array([400.0]), np.ones(1), 0.9) > end).all()


def test_intervals_are_wider_where_sites_disagree():
    rows, weights = np.full(4, 150.0), np.full(4, 0.25)
    alike = _told(*(_source(k, 600, 1.0) for k in range(4)))
    apart = _told(*(_source(k, 600, size) for k, size in enumerate((0.5, 1.0, 1.0, 2.0))))
    wide, narrow = (half_widths(told, rows, weights, 0.9) for told in (apart, alike))
    assert (wide > 1.15 * narrow).all()
    closer = half_widths(_told(*(_source(0, 600, 1.0) for _ in range(4))), rows, weights, 0.9)
    assert (closer < wide).all()


def test_intervals_are_wider_far_out_where_residuals_grow():
    found = half_widths(_told(_source(1, 2000, grows=1.0)), np.array([2000.0]), np.ones(1), 0.9)
    assert (np.diff(found) > 0.0).all()
    flat = half_widths(_told(_source(1, 2000)), np.array([2000.0]), np.ones(1), 0.9)
    assert flat.max() / flat.min() < 1.15


def test_a_band_that_nobody_told_of_is_as_wide_as_the_next_one_inwards():
    told = _told(_source(1, 500, grows=1.0))
    told[0, 1] += told[0, 3]
    told[0, [0, 3]] = 0.0
    told /= told.sum()
    found = half_widths(told, np.array([500.0]), np.ones(1), 0.9)
    assert found[0] == found[1]
    assert found[3] == found[2] != found[1]


def test_too_few_rows_promise_nothing():
    assert np.isinf(half_widths(_told(_source(1, 8)), np.array([8.0]), np.ones(1), 0.9)).all()
    assert np.isfinite(half_widths(_told(_source(1, 9)), np.array([9.5]), np.ones(1), 0.9)).all()


@pytest.mark.parametrize("lie", ["none err", "all are far off", "a fifth is far off"])
def test_one_lying_source_of_five_moves_intervals_little(lie):
    honest = _told(*(_source(k, 300) for k in range(5)))
    rows, weights = np.full(5, 120.0), np.full(5, 0.2)
    lies = honest.copy()
    lies[4] = 0.0
    lies[4, :, 0] = {"none err": 0.25, "all are far off": 0.0, "a fifth is far off": 0.2}[lie]
    lies[4, :, -1] = 0.25 - lies[4, :, 0]
    ratio = half_widths(lies, rows, weights, 0.9) / half_widths(honest, rows, weights, 0.9)
    assert ((ratio > 0.75) & (ratio < 1.6)).all()


def test_coverage_of_new_rows_is_as_asked_for():
    hits = []
    for seed in range(10):
        sources = [_source(1000 * seed + k, 150) for k in range(3)]
        rows = np.array([1.0 / float(w @ w) for _, _, w in sources])
        found = half_widths(_told(*sources, min_rows=5), rows, rows / rows.sum(), 0.9)
        z, residual, _ = _source(1000 * seed + 9, 500)
        hits.append(np.mean(np.abs(residual) <= found[distance_band(z)]))
    assert 0.88 <= np.mean(hits) <= 0.94


def _table(seed, n, n_classes, min_rows=1):
    """Rows of a classifier, and what their source tells."""
    rng = np.random.default_rng(seed)
    design = ScoreDesign(n_classes, thresholds=(0.2, 0.7))
    p = rng.dirichlet(np.full(n_classes, 1.5), n)
    y = np.array([rng.choice(n_classes, p=row) for row in p]).astype(float)
    w = rng.exponential(size=n)
    w /= w.sum()
    inside = np.ones((n, 1), dtype=bool)
    sums = ScoreSums.of_rows(design, y, p, w, np.arange(n) % 20, inside)
    return p, y, w, told_by(design, *sums.told(min_rows)[:2])[0]


def _lower_end(design, p, of_class):
    """−logit of the lower end of the bin that a row's probability lies in."""
    if of_class in design.classes:
        below = [edge for edge in design.edges if edge <= p[of_class]]
        return -math.log(below[-1] / (1 - below[-1])) if below else math.inf
    above = [edge for edge in design.edges if edge > p[1]]
    return math.log(above[0] / (1 - above[0])) if above else math.inf


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("level", [0.6, 0.9])
def test_the_limit_of_a_class_is_that_of_a_slow_loop_over_rows(level, n_classes):
    sources = [_table(seed, n, n_classes) for seed, n in ((1, 200), (2, 80), (3, 150))]
    given = [0.5, 0.2, 0.3]
    for c in range(n_classes):
        points, places, variances, rows, mass = [], [], [], [], []
        for j, (p, y, w, told) in enumerate(sources):
            here = [i for i in range(len(y)) if y[i] == c]
            total = sum(w[i] for i in here)
            ends = {i: _lower_end(told.design, p[i], c) for i in here}
            finite = {i: FAR_END if math.isinf(end) else end for i, end in ends.items()}
            mean = sum(w[i] * finite[i] for i in here) / total
            spread = sum(w[i] * (finite[i] - mean) ** 2 for i in here) / total
            rows.append(total**2 / sum(w[i] ** 2 for i in here))
            places.append(mean)
            variances.append(max(spread, SMALLEST_SPREAD) / (rows[j] - 1.0))
            mass.append(given[j] * total)
            points += [(finite[i], j, given[j] * w[i]) for i in here]
        a = [m / sum(mass) for m in mass]
        expected = _slow_new_site(points, places, variances, LOGIT_SCALE, a, rows, level)
        found = class_limit([told for *_, told in sources], np.array(given), c, level)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_class_of_which_too_little_is_known_is_in_every_set():
    p, _, _, told = _table(1, 200, 2)
    inside, groups = np.ones((200, 1), dtype=bool), np.arange(200) % 20
    for events, known in ((0, False), (8, False), (30, True)):
        y = np.zeros(200)
        y[:events] = 1.0
        sums = ScoreSums.of_rows(told.design, y, p, np.full(200, 1 / 200), groups, inside)
        source = told_by(told.design, *sums.told(1)[:2])[0]
        found = [class_limit([source], np.ones(1), c, 0.9) for c in (0, 1)]
        assert math.isfinite(found[0])
        assert math.isfinite(found[1]) == known


@pytest.mark.parametrize("p_event", [0.0, 1.0])
def test_one_lying_source_of_five_moves_sets_little(p_event):
    sources = [_table(seed, 200, 2) for seed in range(5)]
    told = [source[3] for source in sources]
    _, y, w, _ = sources[4]
    inside, groups = np.ones((200, 1), dtype=bool), np.arange(200) % 20
    p = np.tile([1.0 - p_event, p_event], (200, 1))
    sums = ScoreSums.of_rows(told[0].design, y, p, w, groups, inside)
    lie = told_by(told[0].design, *sums.told(1)[:2])[0]
    for c in (0, 1):
        honest, lied = (
            class_limit(some, np.full(5, 0.2), c, 0.9) for some in (told, [*told[:4], lie])
        )
        assert lied == pytest.approx(honest, abs=1.0)


def test_merged_cells_of_a_score_table_move_limits_little():
    whole, merged = ([_table(s, 300, 2, m)[3] for s in range(3)] for m in (1, 5))
    for c in (0, 1):
        limits = [class_limit(told, np.full(3, 1 / 3), c, 0.9) for told in (whole, merged)]
        assert limits[0] == pytest.approx(limits[1], abs=0.3)
