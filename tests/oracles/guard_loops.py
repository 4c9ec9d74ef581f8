"""The guarded rule, written down a second time: plain loops, one formula after the other.

Slow on purpose, and written from the formulas (the rule's page in the docs), not from the package:
no eigendecomposition, no shared helper, no vectorised shortcut over rows, folds or sources. Only
a linear system is left to numpy. Squared loss and ridge regression.
"""

import math

import numpy as np
from scipy.stats import t as student

LAMBDAS = [10.0 ** (-4.0 + 0.5 * step) for step in range(10)]


def announce(rows, seed):
    """What the target says of its rows: means, sds, centres, h, trace, n_T."""
    n, d = rows.shape
    mean = [sum(rows[i, c] for i in range(n)) / n for c in range(d)]
    sd = []
    for c in range(d):
        variance = sum((rows[i, c] - mean[c]) ** 2 for i in range(n)) / n
        sd.append(math.sqrt(variance) if variance > 0.0 else 1.0)
    count = min(100, max(10, n * d // 3 - 2 * d - 1))
    centres = np.random.default_rng(seed).standard_normal((count, d))
    brief = {"mean": np.array(mean), "sd": np.array(sd), "centres": centres, "n": n}
    psi = [bumps(row, brief) for row in rows]
    h = np.array([math.fsum(p[k] for p in psi) / n for k in range(count)])
    trace = math.fsum(math.fsum((p[k] - h[k]) ** 2 for p in psi) / (n - 1) for k in range(count))
    return {**brief, "h": h, "trace": trace}


def bumps(x, brief):
    """ψ(x): one Gaussian bump around every centre, in the target's units."""
    z = (x - brief["mean"]) / brief["sd"]
    d, count = len(z), len(brief["centres"])
    width = 0.7 * math.sqrt(d)
    values = []
    for centre in brief["centres"]:
        distance = sum((z[c] - centre[c]) ** 2 for c in range(d))
        values.append(math.exp(-distance / (2.0 * width**2)) / math.sqrt(count))
    return np.array(values)


def gram(psi):
    """H: the mean of ψψᵀ."""
    total = np.zeros((psi.shape[1], psi.shape[1]))
    for row in psi:
        total += np.outer(row, row)
    return total / len(psi)


def penalised_solve(H, lam, right):
    """(H + λI)⁻¹ right."""
    return np.linalg.solve(H + lam * np.eye(len(H)), right)


def choose_lambda(psi, folds, brief):
    """The λ of smallest score, and H without every fold."""
    n, h = len(psi), brief["h"]
    without, scores = [], [0.0] * len(LAMBDAS)
    for fold in folds:
        held = set(fold.tolist())
        others = [i for i in range(n) if i not in held]
        H = gram(psi[others])
        without.append((others, H))
        C = H / np.trace(H) * brief["trace"] / brief["n"]
        for position, lam in enumerate(LAMBDAS):
            alpha = penalised_solve(H, lam, h)
            judged = sum(float(psi[i] @ alpha) ** 2 for i in fold) / len(fold)
            correction = float(np.trace(penalised_solve(H, lam, C)))
            scores[position] += len(fold) / n * (0.5 * judged - float(h @ alpha) + correction)
    return LAMBDAS[scores.index(min(scores))], without


def ridge(X, y, weights, theta):
    """Intercept and slopes of the weighted mean squared error plus θ‖b‖²."""
    share = [w / sum(weights) for w in weights]
    d = X.shape[1]
    x_mean = sum(s * x for s, x in zip(share, X, strict=True))
    y_mean = sum(s * value for s, value in zip(share, y, strict=True))
    left, right = theta * np.eye(d), np.zeros(d)
    for s, x, value in zip(share, X, y, strict=True):
        left = left + s * np.outer(x - x_mean, x - x_mean)
        right = right + s * (x - x_mean) * (value - y_mean)
    slopes = np.linalg.solve(left, right)
    return float(y_mean - x_mean @ slopes), slopes


def power(ratios, gamma):
    """Training weights r^γ, no ratio below a thousandth of the mean."""
    floor = 1e-3 * max(sum(ratios) / len(ratios), 1e-12)
    return [max(r, floor) ** gamma for r in ratios]


def report(X, y, folds, brief, candidates):
    """Everything that one source says, and the models that it would send."""
    n = len(y)
    psi = np.array([bumps(x, brief) for x in X])
    lam, without = choose_lambda(psi, folds, brief)
    r, L = np.zeros(n), np.zeros((n, len(candidates)))
    guesses = [[] for _ in candidates]  # of every row, by every model that misses a fold
    for fold, (others, H) in zip(folds, without, strict=True):
        alpha = penalised_solve(H, lam, brief["h"])
        for i in fold:
            r[i] = max(0.0, float(psi[i] @ alpha))
        on_others = [max(0.0, float(psi[i] @ alpha)) for i in others]
        for c, (gamma, theta) in enumerate(candidates):
            b0, b = ridge(X[others], y[others], power(on_others, gamma), theta)
            guesses[c].append([b0 + float(x @ b) for x in X])
            for i in fold:
                L[i, c] = (guesses[c][-1][i] - y[i]) ** 2
    w = [value / math.fsum(r) for value in r]
    ess = 1.0 / math.fsum(value**2 for value in w)
    weighted = sum(w[i] * psi[i] for i in range(n))
    distance = float(((weighted - brief["h"]) ** 2).sum())
    delta2 = max(0.0, distance / brief["trace"] - 1.0 / ess - 1.0 / brief["n"])
    z = [(x - brief["mean"]) / brief["sd"] for x in X]
    differences = [math.fsum(w[i] * z[i][c] for i in range(n)) for c in range(X.shape[1])]
    iota = sum(value**2 for value in differences) / len(differences)
    terms = {"f": [], "v": [], "V": [], "Vx": []}
    for c in range(len(candidates)):
        for key, value in _terms(L[:, c], w, ess, psi, folds, without, lam).items():
            terms[key].append(value)
    models = [ridge(X, y, power(r.tolist(), gamma), theta) for gamma, theta in candidates]
    return {
        "n": n, "ess": ess, "delta2": delta2, "iota": iota, "mean_ratio": math.fsum(r) / n,
        "models": models, "s2": [_chance(each, w) for each in guesses], **terms,
    }  # fmt: skip


def _chance(guesses, w):
    """s²: the delete-group jackknife variance of the predictions, over the weighted rows."""
    K, total = len(guesses), 0.0
    for i, weight in enumerate(w):
        mean = math.fsum(model[i] for model in guesses) / K
        total += weight * (K - 1) / K * math.fsum((model[i] - mean) ** 2 for model in guesses)
    return total


def _terms(L, w, ess, psi, folds, without, lam):
    """f, v, V and Vx of one candidate."""
    n = len(L)
    f = math.fsum(w[i] * L[i] for i in range(n))
    spread = math.fsum(w[i] * (L[i] - f) ** 2 for i in range(n))
    squared = math.fsum(w[i] ** 2 * (L[i] - f) ** 2 for i in range(n))
    v = max(squared, spread / ess) * ess / max(ess - 1.0, 0.5)
    mean = math.fsum(L) / n
    plain = math.fsum((value - mean) ** 2 for value in L) / n
    left = 0.0
    for fold, (others, H) in zip(folds, without, strict=True):
        level = math.fsum(L[i] for i in others) / len(others)
        moment = sum((L[i] - level) * psi[i] for i in others) / len(others)
        slope = penalised_solve(H, max(lam, 1e-2), moment)
        for i in fold:
            left += w[i] * (L[i] - level - float(psi[i] @ slope)) ** 2
    return {"f": f, "v": v, "V": min(plain, spread), "Vx": max(0.0, spread - left)}


def worth(item):
    """m_j, in rows of the target."""
    return 1.0 / (1.0 / item["ess"] + min(item["delta2"], 1.0) ** 2 + item["iota"] ** 2 / 2.0)


def mixed(row, a):
    """h̄ of one row."""
    return math.fsum(share * value for share, value in zip(a, row, strict=True))


def weigh(m, outputs):
    """a_j: m_j times Huber weights on the distance from the ensemble, for three or more."""
    a = [value / math.fsum(m) for value in m]
    if len(m) < 3:
        return a
    for _ in range(30):
        distances = []
        for j in range(len(m)):
            squares = [(row[j] - mixed(row, a)) ** 2 for row in outputs]
            distances.append(math.sqrt(math.fsum(squares) / len(squares)))
        reached, middle = 0.0, None
        for j in sorted(range(len(m)), key=lambda k: distances[k]):
            reached += m[j]
            if middle is None and reached >= 0.5 * math.fsum(m):
                middle = distances[j]
        b = [m[j] * min(1.0, 1.5 * middle / max(distances[j], 1e-12)) for j in range(len(m))]
        a = [0.5 * old + 0.5 * new / math.fsum(b) for old, new in zip(a, b, strict=True)]
    return a


def verdict(imbalance, ambiguity, average, kernel, rows):
    """The first that applies."""
    if imbalance > 1.0:
        return "no overlap"
    if ambiguity > 0.15 * average:
        return "sources disagree"
    return "weak overlap" if kernel > 0.10 or rows < 10.0 else "ok"


def conclude(reports, c, outputs, level=0.95, first=False):
    """Weights, risk, interval and verdict at candidate `c`; `outputs` is (rows, sources)."""
    K, n = len(reports), len(outputs)
    a = weigh([worth(item) for item in reports], outputs)

    def total(key, power_of_a=1):
        return math.fsum(a[j] ** power_of_a * reports[j][key] for j in range(K))

    per_row = []
    for row in outputs:
        centre = mixed(row, a)
        per_row.append(math.fsum(a[j] * (row[j] - centre) ** 2 for j in range(K)))
    amb = math.fsum(per_row) / n
    amb_variance = math.fsum((value - amb) ** 2 for value in per_row) / n
    F = math.fsum(a[j] * reports[j]["f"][c] for j in range(K))
    low = max(F - amb, F / 4.0, 1e-9)
    A = math.fsum(share**2 for share in a)
    factor = min(3.0, (1.0 + A) / max(1.0 - A, 0.1))
    worst = F + amb * factor
    se2 = amb_variance / n
    for j in range(K):
        v, V, Vx, ess = (*(reports[j][key][c] for key in ("v", "V", "Vx")), reports[j]["ess"])
        se2 += a[j] ** 2 * (v + V * reports[j]["delta2"])
        if first:
            se2 += a[j] ** 2 * V / n + a[j] * Vx / n
        else:
            se2 += a[j] * min(V, Vx + V / math.sqrt(max(ess, 1.0))) / n
    se = math.sqrt(se2)
    if first:
        risk, high, high_se, site = low, worst, se, None
    else:
        chance = math.fsum(a[j] * (1.0 - a[j]) * reports[j]["s2"][c] for j in range(K))
        site = max(0.0, amb - chance)
        risk = high = max(low, F - amb + site + site * factor)
        high_se = math.sqrt(se2 + 2.0 * (site * factor) ** 2)
    own = [a[j] ** 2 * reports[j]["v"][c] for j in range(K)]
    below = math.fsum(own[j] ** 2 / max(reports[j]["ess"] - 1.0, 1.0) for j in range(K))
    q = student.ppf(0.5 + level / 2.0, max(2.0, math.fsum(own) ** 2 / (below + 1e-300)))
    rows = 1.0 / math.fsum(
        a[j] ** 2 * (1.0 / reports[j]["ess"] + reports[j]["delta2"]) for j in range(K)
    )
    return {
        "weights": a, "risk": risk, "average": F, "ambiguity": amb, "se": se, "worst": worst,
        "lower": low * math.exp(-min(q * se / low, 6.0)),
        "upper": high * math.exp(min(q * high_se / high, 6.0)),
        "site": site,
        "target_rows": rows, "kernel": total("delta2"), "iota": total("iota"),
        "status": verdict(total("iota"), amb, F, total("delta2"), rows),
    }  # fmt: skip


def cautious(curve, reports, m, candidates):
    """Risk of every candidate, and half a standard error for every whole γ above the least."""
    least = min(gamma for gamma, _ in candidates)
    handicapped = []
    for c, (gamma, _) in enumerate(candidates):
        se2 = math.fsum(
            (value / math.fsum(m)) ** 2 * (item["v"][c] + item["V"][c] * item["delta2"])
            for value, item in zip(m, reports, strict=True)
        )
        handicapped.append(curve[c] + 0.5 * (gamma - least) * math.sqrt(se2))
    return handicapped


def run(sources, target, candidates, folds, seed, level=0.95, first=False):
    """The whole rule; the `first` one chooses without caution and takes all ambiguity for chance.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    candidates : list of (γ, θ)
    folds : mapping of str to list of arrays
        Rows that are held out together, for every source.
    """
    brief = announce(target, seed)
    names = sorted(sources)
    reports = [report(*sources[name], folds[name], brief, candidates) for name in names]
    m = [worth(item) for item in reports]
    curve = [
        math.fsum(m[j] * reports[j]["f"][c] for j in range(len(names))) / math.fsum(m)
        for c in range(len(candidates))
    ]
    judged = curve if first else cautious(curve, reports, m, candidates)
    chosen = judged.index(min(judged))
    models = [item["models"][chosen] for item in reports]

    def outputs(X):
        return [[b0 + float(x @ b) for b0, b in models] for x in X]

    found = conclude(reports, chosen, outputs(target), level, first)
    a = found["weights"]
    return {
        **found, "reports": dict(zip(names, reports, strict=True)), "curve": curve,
        "chosen": chosen, "m": m, "predict": lambda X: [mixed(row, a) for row in outputs(X)],
    }  # fmt: skip
