"""Algorithm 1 of the paper, written a second time from its text, in plain numpy.

Nothing of the package is used: folds, centres and ratio are made here. What the paper does not
say, the page about the preset does (docs/paper-algorithm.md): how rows are dealt, thirds, a penalty
beside the mean loss, a free intercept, and the values of σ and λ to choose from.
"""

import hashlib
from typing import NamedTuple

import numpy as np


def generator(seed, source, purpose):
    """A generator of every source's own: the seed, then SHA-256 of purpose, NUL and name."""
    digest = hashlib.sha256(purpose.encode() + b"\0" + source.encode()).digest()
    words = [int.from_bytes(digest[k : k + 4], "little") for k in range(0, 32, 4)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


# Step 3.1: three disjoint folds -------------------------------------------------------------------


def split(n, seed, source, shares):
    """Rows of D^de, D^tr and D^val: shuffled and cut, the largest remainders rounded up.

    Within a fold the rows keep the order of the table.
    """
    sizes = [int(n * share + 1e-9) for share in shares]
    remainders = [n * share - size for share, size in zip(shares, sizes, strict=True)]
    for k in sorted(range(3), key=lambda k: -remainders[k])[: n - sum(sizes)]:
        sizes[k] += 1
    order = generator(seed, source, "folds").permutation(n)
    return [np.sort(part) for part in np.split(order, [sizes[0], sizes[0] + sizes[1]])]


# Step 3.2: the ratio, Kanamori et al. (2009) ------------------------------------------------------


class Ratio(NamedTuple):
    centres: np.ndarray
    sigma: float
    coefficients: np.ndarray

    def __call__(self, X):
        return kernel(X, self.centres, self.sigma) @ self.coefficients


def distance(X, centres):
    return np.sqrt(((X[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2))


def kernel(X, centres, sigma):
    return np.exp(-(distance(X, centres) ** 2) / (2.0 * sigma**2))


def ulsif(D_de, D_T, seed, source):
    """r̂ = p_T/p_j; σ and λ by leaving out row i of both sides, for every i that both have."""
    picked = generator(seed, source, "ratio-0").choice(
        len(D_T), size=min(100, len(D_T)), replace=False
    )
    centres = D_T[picked]
    every = np.concatenate([distance(D_de, centres).ravel(), distance(D_T, centres).ravel()])
    median = np.median(every[every > 0.0])
    best = (np.inf, None, None)
    for sigma in median * 2.0 ** np.linspace(-2.0, 2.0, 9):
        phi, psi = kernel(D_de, centres, sigma), kernel(D_T, centres, sigma)
        for lam in 10.0 ** np.linspace(-3.0, 1.0, 9):
            score = leave_one_out(phi, psi, lam)
            if score < best[0]:
                best = (score, sigma, lam)
    _, sigma, lam = best
    phi, psi = kernel(D_de, centres, sigma), kernel(D_T, centres, sigma)
    H, h = phi.T @ phi / len(phi), psi.mean(axis=0)
    coefficients = np.linalg.solve(H + lam * np.eye(len(h)), h)
    return Ratio(centres, sigma, np.maximum(coefficients, 0.0))


def leave_one_out(phi, psi, lam):
    """Mean of ½ r(x^de_i)² − r(x^T_i), each r fitted without the two rows, and clipped."""
    n, size = min(len(phi), len(psi)), phi.shape[1]
    outer = phi[:n, :, None] * phi[:n, None, :]
    H = (phi.T @ phi - outer) / (len(phi) - 1)
    h = (psi.sum(axis=0) - psi[:n]) / (len(psi) - 1)
    alpha = np.linalg.solve(H + lam * np.eye(size), h[:, :, None])[:, :, 0]
    alpha = np.maximum(alpha, 0.0)
    at_source, at_target = (alpha * phi[:n]).sum(axis=1), (alpha * psi[:n]).sum(axis=1)
    return float(np.mean(0.5 * at_source**2 - at_target))


# Step 3.3: the model, (02) ------------------------------------------------------------------------


def ridge(X, y, theta, _r):
    """Intercept and slopes: argmin mean (y − b₀ − x'b)² + θ‖b‖²."""
    centre, level = X.mean(axis=0), y.mean()
    tall = np.vstack([X - centre, np.sqrt(len(X) * theta) * np.eye(X.shape[1])])
    slopes = np.linalg.lstsq(tall, np.r_[y - level, np.zeros(X.shape[1])], rcond=None)[0]
    return level - centre @ slopes, slopes


def flattened(X, y, theta, r):
    """Intercept and slopes: argmin Σ r^θ (y − b₀ − x'b)²."""
    root = np.sqrt(r**theta)
    design = np.column_stack([np.ones(len(X)), X])
    found = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    return found[0], found[1:]


# Steps 3.4 to 5 -----------------------------------------------------------------------------------


class Answer(NamedTuple):
    theta: float
    risk: np.ndarray  # f̂(θ), shape (candidates,)
    alpha: np.ndarray  # α̂_j, shape (sources,)
    predict: object


def algorithm1(D_T, sources, Theta, fit, seed, shares=(1 / 3, 1 / 3, 1 / 3), estimate="feddae"):
    """θ̂, f̂ and ĥ_T, with `sources` a mapping of names to (X, y) and the squared loss."""
    names = sorted(sources)
    n_val, f, div, models = [], [], [], []
    for name in names:
        X, y = sources[name]
        de, tr, val = split(len(X), seed, name, shares)
        r_hat = ulsif(X[de], D_T, seed, name)
        r_tr, r = r_hat(X[tr]), r_hat(X[val])
        n_val.append(len(val))
        fitted = [fit(X[tr], y[tr], theta, r_tr) for theta in Theta]
        losses = [(b0 + X[val] @ b - y[val]) ** 2 for b0, b in fitted]
        terms = [source_terms(r, L, estimate) for L in losses]
        f.append([value for value, _ in terms])
        div.append([spread for _, spread in terms])
        models.append(fitted)
    n, f, div = np.array(n_val, float)[:, None], np.array(f), np.array(div)
    if estimate == "feddae":
        weight = 1.0 / (div * (n / div).sum(axis=0))  # λ̂_j(θ), (10)
    else:
        weight = np.ones_like(f) / n.sum()  # 1/n^val
    risk = (weight * n * f).sum(axis=0)  # (09), or (04)
    best = int(np.argmin(risk))
    alpha = weight[:, best] * n[:, 0]

    def predict(X):
        parts = [fitted[best] for fitted in models]
        return sum(a * (b0 + X @ b) for a, (b0, b) in zip(alpha, parts, strict=True))

    return Answer(Theta[best], risk, alpha, predict)


def source_terms(r, L, estimate):
    """f̂_j(θ), and the estimate of Div_j(θ) as it is printed."""
    if estimate == "naive":
        return L.mean(), np.nan
    if estimate == "fediwe":
        return (r * L).mean(), np.nan  # (03)
    eta = -np.mean((r * L - np.mean(r * L)) * (r - r.mean())) / np.mean((r - r.mean()) ** 2)
    corrected = r * L + eta * (r - 1.0)
    return corrected.mean(), np.mean(corrected**2) - np.mean(corrected) ** 2  # (07), definition 3
