"""The default method once more, in plain loops over lists, as its rule is written.

Nothing here is shared with the package but the seeds of its generators. A *site* is a dictionary
of what its rows say; a *model* is a function from a row to a number or to a list of probabilities.
"""

import hashlib
import math

import numpy as np

SCALES = {"risk": 0.2, "residual": 0.2, "rate": 0.4}
SIZES = {"risk": 0.2, "residual": 0.2, "rate": 0.3}


# Keyed hashes -------------------------------------------------------------------------------

MASK = 2**64 - 1


def mixed(value):
    """The finaliser of splitmix64."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def key_of(seed, name, purpose):
    digest = hashlib.sha256(f"{purpose}\0{name}".encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    return int(np.random.default_rng(np.random.SeedSequence([seed, *words])).integers(1 << 63))


def dealt(n_rows, n_parts, key, groups=None):
    """Part of every row: neighbours apart, rows of one group together."""
    if groups is not None:
        return [mixed(mixed(int(group)) ^ key) % n_parts for group in groups]
    labels = []
    for start in range(0, n_rows, n_parts):
        hashes = [mixed(mixed(start + k) ^ key) for k in range(n_parts)]
        labels += sorted(range(n_parts), key=hashes.__getitem__)
    return labels[:n_rows]


# 1. The table -------------------------------------------------------------------------------


def table_of(X, flags, public_sd=None):
    """Table 1 of rows, rounded; a public sd of None is none."""
    n, d = len(X), len(flags)
    public_sd = public_sd or [None] * d
    means, sds = [], []
    for k in range(d):
        column = [float(row[k]) for row in X]
        mean = math.fsum(column) / n
        if flags[k]:
            sd = public_sd[k] or 0.5
            step = 0.01
        else:
            sd = math.sqrt(math.fsum((x - mean) ** 2 for x in column) / n)
            sd = float(f"{max(sd, 0.3 * (public_sd[k] or 0.0)):.2g}")
            step = 0.01 * sd
        means.append(round(mean / step) * step)
        sds.append(sd)
    R = None
    if not any(flags) and d <= 10 and 2 * d + d * (d - 1) / 2 <= n / 10:
        Z = [[(row[k] - means[k]) / sds[k] for k in range(d)] for row in X]
        R = [[round(math.fsum(z[i] * z[j] for z in Z) / n, 2) for j in range(d)] for i in range(d)]
    return {"n": n // 10 * 10 if n >= 10 else n, "mean": means, "sd": sds, "flags": flags, "R": R}


# 2. Weights ---------------------------------------------------------------------------------


def balanced(z, table):
    """C(x) of one row."""
    d = len(z)
    found = [*z, *(z[k] ** 2 - 1.0 for k in range(d) if not table["flags"][k])]
    if table["R"] is not None:
        found += [z[i] * z[j] - table["R"][i][j] for i in range(d) for j in range(i + 1, d)]
    return [min(max(value, -30.0), 30.0) for value in found]


def solve(matrix, right):
    """Gauss's elimination with pivots."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, size):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    found = [0.0] * size
    for k in reversed(range(size)):
        rest = math.fsum(rows[k][j] * found[j] for j in range(k + 1, size))
        found[k] = (rows[k][size] - rest) / rows[k][k]
    return found


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def tilt(C, penalty=1e-3):
    """Weights w ∝ exp(λ'C) and λ, by Newton's method with halved steps."""
    size = len(C[0])

    def at(lam):
        u = [dot(lam, row) for row in C]
        top = max(u)
        e = [math.exp(value - top) for value in u]
        total = math.fsum(e)
        value = top + math.log(total / len(C)) + penalty * dot(lam, lam)
        return [value_ / total for value_ in e], value

    lam = [0.0] * size
    w, value = at(lam)
    for _ in range(100):
        mean = [math.fsum(w[i] * C[i][k] for i in range(len(C))) for k in range(size)]
        slope = [mean[k] + 2.0 * penalty * lam[k] for k in range(size)]
        if max(map(abs, slope)) < 1e-14:
            break
        curve = [
            [
                math.fsum(w[i] * C[i][k] * C[i][m] for i in range(len(C)))
                - mean[k] * mean[m]
                + (2.0 * penalty if k == m else 0.0)
                for m in range(size)
            ]
            for k in range(size)
        ]
        step = solve(curve, slope)
        length = 1.0
        while length > 1e-9:
            new = [lam[k] - length * step[k] for k in range(size)]
            w_new, lower = at(new)
            if lower <= value + 1e-15 * abs(value):
                break
            length /= 2.0
        else:
            break
        lam, w, value = new, w_new, lower
    return w, lam


def weigh(name, X, y, table, groups=None):
    """A site: its rows in the target's units, their weights, and what they are worth."""
    d = len(table["mean"])
    z = [[(float(row[k]) - table["mean"][k]) / table["sd"][k] for k in range(d)] for row in X]
    C = [balanced(row, table) for row in z]
    w, lam = tilt(C)
    ess = 1.0 / math.fsum(value**2 for value in w)
    left = [math.fsum(w[i] * z[i][k] for i in range(len(z))) for k in range(d)]
    iota = math.fsum(value**2 for value in left) / d
    return {
        "name": name, "z": z, "y": [float(value) for value in y], "groups": groups, "C": C, "w": w,
        "lambda": lam, "ess": ess, "largest": max(w), "left": left, "iota": iota,
        "worth": 1.0 / (1.0 / ess + iota + iota**2 / 2.0),
        "before": [math.fsum(row[k] for row in z) / len(z) for k in range(d)],
    }  # fmt: skip


# 3. Candidates ------------------------------------------------------------------------------


def squared(prediction, y):
    return (prediction - y) ** 2


def absolute(prediction, y):
    return abs(prediction - y)


def brier(prediction, y):
    return 0.5 * math.fsum((p - (k == y)) ** 2 for k, p in enumerate(prediction))


def log(prediction, y):
    return -math.log(max(prediction[int(y)], 1e-15))


def zero_one(prediction, y):
    return float(max(range(len(prediction)), key=prediction.__getitem__) != y)


LOSSES = {
    "squared": squared, "absolute": absolute, "brier": brier, "log": log, "zero-one": zero_one,
}  # fmt: skip


def ridge(z, y, weights, candidate):
    """Weighted mean squared error + θ|b|², the intercept free."""
    total = math.fsum(weights)
    t = [value / total for value in weights]
    n, d = len(z), len(z[0])
    centre = [math.fsum(t[i] * z[i][k] for i in range(n)) for k in range(d)]
    level = math.fsum(t[i] * y[i] for i in range(n))
    G = [
        [
            math.fsum(t[i] * (z[i][k] - centre[k]) * (z[i][m] - centre[m]) for i in range(n))
            + (candidate["penalty"] if k == m else 0.0)
            for m in range(d)
        ]
        for k in range(d)
    ]
    c = [
        math.fsum(t[i] * (z[i][k] - centre[k]) * (y[i] - level) for i in range(n)) for k in range(d)
    ]
    b = solve(G, c)
    return lambda row: level + dot(b, [row[k] - centre[k] for k in range(d)])


def train(site, rows, candidate, fit):
    """A model of some rows with training weights max(r, 10⁻³)^γ, r = n·w."""
    power, n = candidate.get("ratio_power", 0.0), len(site["w"])
    t = [max(n * site["w"][i], 1e-3) ** power for i in rows]
    return fit([site["z"][i] for i in rows], [site["y"][i] for i in rows], t, candidate)


def sampling(values, w):
    """f = Σ w v, its spread V, and the sampling variance of f."""
    ess = 1.0 / math.fsum(weight**2 for weight in w)
    f = dot(w, values)
    V = math.fsum(weight * (value - f) ** 2 for weight, value in zip(w, values, strict=True))
    own = math.fsum(weight**2 * (value - f) ** 2 for weight, value in zip(w, values, strict=True))
    return f, V, max(own, V / ess) * ess / max(ess - 1.0, 0.5)


def judge(site, candidates, fit, loss, seed, n_folds=5):
    """Adds to a site, for every candidate: held-out predictions, f and v; None where it failed."""
    n = len(site["y"])
    folds = dealt(n, n_folds, key_of(seed, site["name"], "folds"), site["groups"])
    site |= {"held_out": [], "f": [], "v": []}
    for candidate in candidates:
        predictions = [None] * n
        try:
            for fold in range(n_folds):
                model = train(site, [i for i in range(n) if folds[i] != fold], candidate, fit)
                for i in range(n):
                    if folds[i] == fold:
                        predictions[i] = model(site["z"][i])
        except ValueError:
            predictions, f, v = None, None, None
        else:
            losses = [loss(p, y) for p, y in zip(predictions, site["y"], strict=True)]
            f, _, v = sampling(losses, site["w"])
        for key, value in (("held_out", predictions), ("f", f), ("v", v)):
            site[key].append(value)
    return site


# 4. Choice and mixture ----------------------------------------------------------------------


def limited(weights, combine):
    """Shares; under a median none above a third, the rest in proportion."""
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    if combine != "median":
        return shares
    fixed = set()
    while True:
        over = {k for k, share in enumerate(shares) if share > 1 / 3 * (1 + 1e-12)}
        if not over:
            return shares
        fixed |= over
        rest = math.fsum(weights[k] for k in range(len(weights)) if k not in fixed)
        shares = [
            1 / 3 if k in fixed else (1 - len(fixed) / 3) * weights[k] / rest
            for k in range(len(weights))
        ]


def median(values, weights):
    """The first value, in order, at which half of the weight is reached."""
    reached, half = 0.0, 0.5 * math.fsum(weights) * (1.0 - 1e-12)
    for k in sorted(range(len(values)), key=values.__getitem__):
        reached += weights[k]
        if reached >= half:
            return values[k]
    raise AssertionError("weights are positive")


def choose(sites, candidates, combine="mean"):
    """Index of the chosen candidate, and the risk with its standard error of every one."""
    worth = [site["worth"] for site in sites]
    most = max(
        math.fsum(m for m, site in zip(worth, sites, strict=True) if site["f"][c] is not None)
        for c in range(len(candidates))
    )
    best, found = None, []
    for c, candidate in enumerate(candidates):
        here = [k for k, site in enumerate(sites) if site["f"][c] is not None]
        fewest = 3 if combine == "median" else 1
        if len(here) < fewest or math.fsum(worth[k] for k in here) < 0.5 * most:
            found.append(None)
            continue
        mu = limited([worth[k] for k in here], combine)
        f, v = ([sites[k][key][c] for k in here] for key in ("f", "v"))
        if combine == "median":
            risk, alike = median(f, mu), median(v, mu)
            se = math.sqrt(alike * math.fsum(a**2 for a in mu))
        else:
            risk = dot(mu, f)
            se = math.sqrt(math.fsum(a**2 * value for a, value in zip(mu, v, strict=True)))
        found.append((risk, se))
        power = candidate.get("ratio_power", 0.0)
        if power > 0.0 and math.fsum(worth) < 10.0:
            continue
        score = risk + 0.5 * power * se
        if best is None or score < best[0]:
            best = score, c
    return best[1], found


def as_list(prediction):
    return prediction if isinstance(prediction, list) else [prediction]


def distance(outputs, a, j):
    """Root mean squared distance of model j from the mixture over the target's rows."""
    total = []
    for row in outputs:
        for k in range(len(row[j])):
            mixture = math.fsum(a[i] * row[i][k] for i in range(len(a)))
            total.append((row[j][k] - mixture) ** 2)
    return math.sqrt(math.fsum(total) / len(outputs))


def model_weights(worth, models, rows, combine="mean"):
    """Weights a; from three models on less for one far from the others on the target's rows."""
    a = [m / math.fsum(worth) for m in worth]
    if len(worth) >= 3 and rows is not None:
        outputs = [[as_list(model(row)) for model in models] for row in rows]
        for _ in range(30):
            far = [distance(outputs, a, j) for j in range(len(a))]
            middle = sorted(far)
            half = len(far) // 2
            centre = middle[half] if len(far) % 2 else 0.5 * (middle[half - 1] + middle[half])
            b = [
                m * min(1.0, 1.5 * centre / max(apart, 1e-12))
                for m, apart in zip(worth, far, strict=True)
            ]
            a = [0.5 * x + 0.5 * y / math.fsum(b) for x, y in zip(a, b, strict=True)]
    return limited(a, combine)


# 5. Examination -----------------------------------------------------------------------------


def combined(parts, weights, combine):
    """Mean or median of predictions, each a number or a list of probabilities."""
    lists = [as_list(part) for part in parts]
    if combine == "median":
        middle = [median([row[k] for row in lists], weights) for k in range(len(lists[0]))]
        if isinstance(parts[0], list):
            middle = [value / math.fsum(middle) for value in middle]
    else:
        middle = [
            math.fsum(a * row[k] for a, row in zip(weights, lists, strict=True))
            for k in range(len(lists[0]))
        ]
    return middle if isinstance(parts[0], list) else middle[0]


def mixture_for(site, sites, models, a, candidate, combine):
    """The others' mixture on a site's rows; mostly its own: with its held-out predictions."""
    others = {k: a[k] for k in a if k != site["name"] and a[k] > 0.0}
    own = a.get(site["name"], 0.0)
    predictions = []
    for i, row in enumerate(site["z"]):
        parts, weights = [models[k](row) for k in others], list(others.values())
        if own > 0.5:
            parts, weights = [*parts, site["held_out"][candidate][i]], [*weights, own]
        total = math.fsum(weights)
        predictions.append(combined(parts, [weight / total for weight in weights], combine))
    by_name = {other["name"]: other for other in sites}
    shares = others or {site["name"]: 1.0}
    total = math.fsum(shares.values())
    constant = combined(
        [by_name[k]["outcome"] for k in shares],
        [share / total for share in shares.values()],
        "mean",
    )
    return predictions, constant


def log_odds(rate, ess):
    p = (ess * rate + 0.5) / (ess + 1.0)
    return math.log(p / (1.0 - p))


def jackknife(statistic, site, seed):
    """Variance of a statistic of (weights) by leaving out 20 keyed-hash groups in turn."""
    n = len(site["w"])
    groups = dealt(n, 20, key_of(seed, site["name"], "jackknife"), site["groups"])
    left_out = []
    for group in sorted(set(groups)):
        total = math.fsum(w for w, g in zip(site["w"], groups, strict=True) if g != group)
        left_out.append(
            statistic(
                [0.0 if g == group else w / total for w, g in zip(site["w"], groups, strict=True)]
            )
        )
    G = len(left_out)
    mean = math.fsum(left_out) / G
    return (G - 1) / G * math.fsum((value - mean) ** 2 for value in left_out)


def explained(losses, site):
    """The part of the loss's weighted variance that C explains, by ridge regression (0.01)."""
    w, C = site["w"], site["C"]
    size, n = len(C[0]), len(C)
    mean = [math.fsum(w[i] * C[i][k] for i in range(n)) for k in range(size)]
    f = dot(w, losses)
    G = [
        [
            math.fsum(w[i] * (C[i][k] - mean[k]) * (C[i][m] - mean[m]) for i in range(n))
            for m in range(size)
        ]
        for k in range(size)
    ]
    c = [
        math.fsum(w[i] * (C[i][k] - mean[k]) * (losses[i] - f) for i in range(n))
        for k in range(size)
    ]
    ridged = [[G[k][m] + (0.01 if k == m else 0.0) for m in range(size)] for k in range(size)]
    b = solve(ridged, c)
    part = math.fsum(b[k] * G[k][m] * b[m] for k in range(size) for m in range(size))
    return min(part, math.fsum(w[i] * (losses[i] - f) ** 2 for i in range(n)))


def examine(site, predictions, constant, loss, n_classes, seed):
    """Risk, variance of its log, explained part; constant's risk, variance of the log ratio;
    level of the outcomes with variances."""
    w, y, ess, iota = site["w"], site["y"], site["ess"], site["iota"]
    L = [loss(p, value) for p, value in zip(predictions, y, strict=True)]
    K = [loss(constant, value) for value in y]
    f, _, v = sampling(L, w)
    fk = dot(w, K)
    _, _, ratio = sampling([a / f - b / fk for a, b in zip(L, K, strict=True)], w)
    f_raw = f
    if loss is zero_one:  # a rate: no error in few rows does not mean none at all
        f, fk = ((ess * rate + 0.5) / (ess + 1.0) for rate in (f, fk))
        v = max(v, f * (1.0 - f) / (ess + 1.0))
    v = v / f**2
    if site["groups"] is not None:  # patients, not rows, are independent
        v = max(v, jackknife(lambda u: dot(u, L) / f_raw, site, seed))
        ratio = max(ratio, jackknife(lambda u: math.log(dot(u, L) / dot(u, K)), site, seed))
    level, spread = [], []
    if n_classes:
        for c in [1] if n_classes == 2 else range(n_classes):
            seen = [float(value == c) for value in y]
            expected = [p[c] for p in predictions]

            def gap(u, seen=seen, expected=expected):
                return log_odds(dot(u, seen), ess) - log_odds(dot(u, expected), ess)

            level.append(gap(w))
            spread.append(jackknife(gap, site, seed))
    else:
        residual = [value - p for p, value in zip(predictions, y, strict=True)]
        sd = math.sqrt(math.fsum(weight * r**2 for weight, r in zip(w, residual, strict=True)))
        mean, _, own = sampling([r / sd for r in residual], w)
        if site["groups"] is not None:
            own = max(own, jackknife(lambda u: dot(u, residual) / sd, site, seed))
        level, spread = [mean], [own]
    return {
        "risk": f, "risk_variance": v + iota**2, "explained": explained(L, site) / f**2,
        "constant_risk": fk, "ratio_variance": ratio + iota**2,
        "level": level, "level_variance": [value + iota for value in spread],
    }  # fmt: skip


# 6. The promise -----------------------------------------------------------------------------


ROOT = math.sqrt(2.0)


def normal_cdf(x):
    return 0.5 * math.erfc(-x / ROOT)


class NewSite:
    """The distribution at a new site: trapezoid over τ on 2,001 points."""

    def __init__(self, y, v, scale, extra=0.0):
        self.taus = [6.0 * scale * k / 2000 for k in range(2001)]
        self.mu, self.sd, logs = [], [], []
        for tau in self.taus:
            W = [1.0 / (value + tau**2) for value in v]
            total = math.fsum(W)
            mu = dot(W, y) / total
            misfit = math.fsum(a * (value - mu) ** 2 for a, value in zip(W, y, strict=True))
            logs.append(
                0.5 * (math.fsum(map(math.log, W)) - math.log(total) - misfit - (tau / scale) ** 2)
            )
            self.mu.append(mu)
            self.sd.append(math.sqrt(1.0 / total + tau**2 + extra))
        top = max(logs)
        p = [math.exp(value - top) for value in logs]
        p[0], p[-1] = p[0] / 2.0, p[-1] / 2.0
        whole = math.fsum(p)
        self.p = [value / whole for value in p]

    def below(self, x):
        """Σ p Φ((x − μ)/sd); this is most of what the loops cost, so Φ is written out."""
        widths = [ROOT * s for s in self.sd]
        parts = zip(self.p, self.mu, widths, strict=True)
        return 0.5 * math.fsum(p * math.erfc((m - x) / width) for p, m, width in parts)

    def quantile(self, q):
        low = min(m - 12.0 * s for m, s in zip(self.mu, self.sd, strict=True))
        high = max(m + 12.0 * s for m, s in zip(self.mu, self.sd, strict=True))
        at_low, at_high = self.below(low) - q, self.below(high) - q
        while high - low > 1e-13:  # regula falsi; an end that stays counts half (Illinois)
            middle = (low * at_high - high * at_low) / (at_high - at_low)
            at = self.below(middle) - q
            if at == 0.0 or middle in (low, high):
                return middle
            if at < 0.0:
                low, at_low, at_high = middle, at, 0.5 * at_high
            else:
                high, at_high, at_low = middle, at, 0.5 * at_low
        return 0.5 * (low + high)

    @property
    def tau(self):
        return dot(self.p, self.taus)

    def above(self, size):
        """P(τ > size); a point that is `size` itself counts half."""
        weighted = zip(self.p, self.taus, strict=True)
        return math.fsum(
            p * (0.5 if abs(tau - size) < 1e-12 else float(tau > size)) for p, tau in weighted
        )


def promise(found, a, n_target, n_classes, level=0.95):
    """From examinations by name, of sources that reach the target."""
    names = sorted(found)
    shares = [a.get(name, 0.0) for name in names]
    total = math.fsum(shares)
    shares = [s / total if total else 1.0 / len(names) for s in shares]
    y = [math.log(found[name]["risk"]) for name in names]
    v = [found[name]["risk_variance"] for name in names]
    own = dot(shares, [found[name]["explained"] for name in names]) / n_target
    site, bare = NewSite(y, v, SCALES["risk"], own), NewSite(y, v, SCALES["risk"])
    against = NewSite(
        [math.log(found[name]["risk"] / found[name]["constant_risk"]) for name in names],
        [found[name]["ratio_variance"] for name in names],
        SCALES["risk"],
    )
    kind = "rate" if n_classes else "residual"
    levels = [
        NewSite(
            [found[name]["level"][k] for name in names],
            [found[name]["level_variance"][k] for name in names],
            SCALES[kind],
        )
        for k in range(len(found[names[0]]["level"]))
    ]
    widest = max(levels, key=lambda item: item.above(SIZES[kind]))
    return {
        "risk": math.exp(site.quantile(0.5)),
        "lower": math.exp(site.quantile(0.5 - level / 2)),
        "upper": math.exp(site.quantile(0.5 + level / 2)),
        "between_sites": bare.tau,
        "ratio": math.exp(against.quantile(0.5)),
        "skill": against.below(0.0),
        "differs_risk": bare.above(SIZES["risk"]),
        "differs_level": widest.above(SIZES[kind]),
    }  # fmt: skip


# Everything ---------------------------------------------------------------------------------


def reaches(site):
    return site["ess"] >= 10.0 and site["iota"] <= 0.06


def study(sources, table, candidates, *, rows=None, fit=ridge, loss="squared", n_classes=0, seed=0,
          combine="mean"):  # fmt: skip
    """The whole study.

    Parameters
    ----------
    sources : mapping of str to (X, y) or (X, y, groups)
    table : dict, as `table_of` makes it
    candidates : list of dict
    rows : the target's, or None if it told only a table
    """
    sites = []
    for name in sorted(sources):
        X, y, *groups = sources[name]
        site = weigh(name, X, y, table, groups[0] if groups else None)
        judge(site, candidates, fit, LOSSES[loss], seed)
        codes = [[float(value == c) for value in site["y"]] for c in range(n_classes)]
        site["outcome"] = [dot(site["w"], c) for c in codes] or dot(site["w"], site["y"])
        sites.append(site)
    chosen, estimates = choose(sites, candidates, combine)
    senders = [site for site in sites if site["f"][chosen] is not None]
    models = {
        site["name"]: train(site, range(len(site["y"])), candidates[chosen], fit)
        for site in senders
    }
    d = len(table["mean"])
    seen = None if rows is None else [
        [(row[k] - table["mean"][k]) / table["sd"][k] for k in range(d)] for row in rows
    ]  # fmt: skip
    a = model_weights([site["worth"] for site in senders], list(models.values()), seen, combine)
    weights = dict(zip(models, a, strict=True))
    found = {}
    for site in sites:
        mixture = mixture_for(site, sites, models, weights, chosen, combine)
        found[site["name"]] = examine(site, *mixture, LOSSES[loss], n_classes, seed)
    reaching = {site["name"]: found[site["name"]] for site in sites if reaches(site)}
    return {
        "sites": {site["name"]: site for site in sites}, "chosen": chosen, "estimates": estimates,
        "weights": weights, "models": models, "examined": found, "reaching": sorted(reaching),
        "promise": promise(reaching, weights, table["n"], n_classes) if reaching else None,
    }  # fmt: skip
