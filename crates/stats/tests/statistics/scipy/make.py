"""Expected values of every function of `stats`, by NumPy and SciPy: the fixture of
`tests/statistics/scipy.rs`. Run by hand, in an environment that has both:

    python3 make.py > expected.json

It computes; it doesn't copy formulas of `stats`. Where neither library has the thing
(Holm's correction, Geyer's sequence, the drift's segments), it is written down from
the source that `stats` names, over NumPy arrays, and `by_definition` says so.
"""

import json
import sys

import numpy as np
import scipy
from scipy import stats


def samples():
    """Named inputs: skewed, tied, tiny, huge, far from 0, and of every small size."""
    rng = np.random.default_rng(20261121)
    block = rng.lognormal(0.0, 0.2, 5)
    course = np.zeros(200)
    for i in range(1, 200):
        course[i] = 0.6 * course[i - 1] + rng.normal()
    named = {
        "skewed": rng.lognormal(3.0, 0.8, 101),
        "even": rng.lognormal(0.0, 0.3, 100),
        "tied": rng.integers(1, 9, 60).astype(float),
        "tiny": rng.lognormal(-20.0, 1.0, 25),
        "huge": 1e15 * rng.lognormal(0.0, 1e-3, 40),
        "offset": 1e9 + rng.normal(0.0, 1.0, 50),
        "negative": rng.normal(-3.0, 2.0, 33),
        "large": rng.lognormal(15.0, 0.5, 1000),
        "autoregressive": np.exp(0.1 * course),
        "alternating": np.array([1.0, 2.0] * 12),
        "trend": np.arange(1.0, 25.0),
        "blocks_a": 100.0 * block * rng.lognormal(0.0, 0.02, 5),
        "blocks_b": 103.0 * block * rng.lognormal(0.0, 0.02, 5),
        "blocks_c": 200.0 * block * rng.lognormal(0.0, 0.3, 5),
        "blocks_tiny": 1e-12 * block * rng.lognormal(0.0, 0.1, 5),
        "two": np.array([3.0, 4.5]),
        "three": np.array([2.0, 2.0, 7.25]),
        "ten_a": rng.lognormal(1.0, 0.1, 10),
        "ten_b": rng.lognormal(1.02, 0.1, 10),
    }
    return {name: np.asarray(values) for name, values in named.items()}


def describe(x):
    return {
        "mean": np.mean(x),
        "stddev": np.std(x, ddof=1),
        "median": np.median(x),
        "mad": stats.median_abs_deviation(x, scale=1),
        "min": np.min(x),
        "max": np.max(x),
    }


def mean_interval(x):
    return stats.t.interval(0.95, len(x) - 1, loc=np.mean(x), scale=stats.sem(x))


def paired_ratio(a, b):
    test = stats.ttest_rel(np.log(a), np.log(b))
    interval = test.confidence_interval(0.95)
    return {
        "ratio": stats.gmean(a / b),
        "low": np.exp(interval.low),
        "high": np.exp(interval.high),
        "p": test.pvalue,
    }


def holm(p):
    """By definition (Holm 1979), in the form of R's p.adjust."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate((len(p) - np.arange(len(p))) * np.asarray(p)[order])
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def cliffs_delta(a, b):
    u = stats.mannwhitneyu(a, b, method="asymptotic").statistic
    return 2.0 * u / (len(a) * len(b)) - 1.0


def autocovariances(x):
    """At all lags, with divisor n."""
    centred = x - np.mean(x)
    return np.correlate(centred, centred, mode="full")[len(x) - 1 :] / len(x)


def integrated_time(x):
    """By definition (Geyer 1992, § 3.3): initial monotone sequence."""
    rho = autocovariances(x)
    rho = rho / rho[0]
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    pairs = pairs[: ends[0]] if len(ends) else pairs
    return 2.0 * np.minimum.accumulate(pairs).sum() - 1.0


def drift(invocations):
    """By definition: the first fifth over the last half, by a paired t-test."""
    early = [np.median(x[: int(np.ceil(len(x) * 0.2))]) for x in invocations]
    late = [np.median(x[len(x) - int(np.ceil(len(x) * 0.5)) :]) for x in invocations]
    return paired_ratio(np.array(early), np.array(late))


def usl(loads, throughputs):
    """Weighted linear least squares of N/X on 1, N − 1 and N(N − 1)."""
    n, x = np.asarray(loads, float), np.asarray(throughputs)
    design = np.column_stack([np.ones_like(n), n - 1.0, n * (n - 1.0)])
    weight = x / n
    c, *_ = np.linalg.lstsq(design * weight[:, None], (n / x) * weight, rcond=None)
    return {"lambda": 1.0 / c[0], "sigma": c[1] / c[0], "kappa": c[2] / c[0]}


def fixture():
    named = samples()
    positive = [name for name, x in named.items() if np.all(x > 0)]
    pairs = [
        ("blocks_a", "blocks_b"),
        ("blocks_a", "blocks_c"),
        ("blocks_b", "blocks_tiny"),
        ("ten_a", "ten_b"),
    ]
    deltas = pairs + [("tied", "tied"), ("skewed", "tied"), ("even", "ten_a")]
    families = [
        [0.01, 0.04, 0.03, 0.005],
        [0.5],
        [0.02, 0.02, 0.9, 1.0, 0.0],
        list(np.random.default_rng(7).uniform(0.0, 0.2, 22)),
    ]
    courses = ["skewed", "even", "tied", "large", "autoregressive", "alternating", "trend"]
    rng = np.random.default_rng(11)
    loads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    law = [40.0 * n / (1.0 + 0.05 * (n - 1.0) + 3e-4 * n * (n - 1.0)) for n in loads]
    throughputs = [list(law * rng.lognormal(0.0, 0.03, len(loads))) for _ in range(4)]
    drifting = [[list(rng.lognormal(0.0, 0.05, n)) for _ in range(5)] for n in (20, 23, 100)]
    ranked = [[1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 9.0], [5.0], [2.0, 2.0], [1.0, 2.0, 3.0]]
    return {
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "samples": named,
        "describe": [{"of": name, **describe(x)} for name, x in named.items()],
        "percentile": [
            {"of": name, "p": p, "value": np.percentile(x, p)}
            for name, x in named.items()
            for p in (0.0, 1.0, 12.5, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0)
        ],
        "quantiles": [
            {"of": name, "values": np.quantile(x, np.linspace(0.0, 1.0, 160))}
            for name, x in named.items()
            if len(x) > 160
        ],
        "t_quantile": [
            {"p": p, "df": df, "value": stats.t.ppf(p, df)}
            for p in (0.005, 0.025, 0.3, 0.5, 0.9, 0.95, 0.975, 0.995, 0.9995)
            for df in (1, 2, 3, 4, 5, 9, 19, 99, 999)
        ],
        "t_two_sided_p": [
            {"t": t, "df": df, "value": 2.0 * stats.t.sf(abs(t), df)}
            for t in (0.0, 1e-6, 0.3, -1.0, 2.776, -5.0, 12.0, 80.0)
            for df in (1, 2, 3, 4, 5, 9, 19, 99, 999)
        ],
        "mean_interval": [
            dict(zip(("of", "low", "high"), (name, *mean_interval(x))))
            for name, x in named.items()
        ],
        "cv": [{"of": name, "value": stats.variation(named[name], ddof=1)} for name in positive],
        "paired_ratio": [
            {"a": a, "b": b, **paired_ratio(named[a], named[b])} for a, b in pairs
        ],
        "holm": [{"p": p, "adjusted": holm(p)} for p in families],
        "cliffs_delta": [
            {"a": a, "b": b, "value": cliffs_delta(named[a], named[b])} for a, b in deltas
        ],
        "ranks": [{"values": v, "ranks": stats.rankdata(v, method="min")} for v in ranked],
        "autocorrelation": [
            {
                "of": name,
                "lag1": autocovariances(named[name])[1] / autocovariances(named[name])[0],
                "autocovariance_7": autocovariances(named[name])[7],
                "integrated_time": integrated_time(named[name]),
            }
            for name in courses
        ],
        "drift": [
            {"invocations": i, **drift([np.array(x) for x in i])} for i in drifting
        ],
        "usl": [{"loads": loads, "throughputs": x, **usl(loads, x)} for x in throughputs],
        "by_definition": ["holm", "integrated_time", "drift"],
    }


def plain(value):
    """NumPy's numbers as JSON's; a float keeps every digit."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (str, int)):
        return value
    return float(value)


if __name__ == "__main__":
    json.dump(plain(fixture()), sys.stdout, separators=(",", ":"))
    print()
