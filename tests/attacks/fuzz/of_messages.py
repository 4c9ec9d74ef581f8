"""Every message of some studies, and whoever reads them."""

import dataclasses

import numpy as np
from changes import any_of, change_bytes, change_message
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fedcsa.messages.codec import decode, digest_of, encode
from fedcsa.messages.envelope import Envelope
from fedcsa.messages.messages import (
    MESSAGES,
    BacktestReport,
    Brief,
    Conclusion,
    Examination,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
    RiskReport,
)
from fedcsa.messages.policy import Policy
from fedcsa.models.description import given_description
from fedcsa.models.formats import open_model
from fedcsa.models.given import model_digest
from fedcsa.models.registry import default_candidates, model_description
from fedcsa.models.steps import _WORDS, FUNCTIONS
from fedcsa.plan import make_plan
from fedcsa.source.source import Source
from fedcsa.target.accept import accept, open_models
from fedcsa.target.estimate import Reported, estimates
from fedcsa.target.search import joined
from fedcsa.target.target import Target

#: A number that is missing where a flag is 1, and a text that the flag tells.
INPUTS = [
    {"name": "a", "kind": "number", "columns": [0, 1], "levels": [], "missing": True},
    {"name": "b", "kind": "levels", "columns": [1], "levels": ["u", "v"], "missing": False},
]
COLUMNS = make_pipeline(
    ColumnTransformer([("n", SimpleImputer(), ["a"]), ("t", OneHotEncoder(), ["b"])]), Ridge()
)
FOREST = RandomForestRegressor(3, max_depth=3, min_samples_leaf=10, random_state=0)
BOOSTING = HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4, min_samples_leaf=10)
EMPTY_TO_TREES = make_pipeline(
    ColumnTransformer([("n", "passthrough", ["a"]), ("t", OneHotEncoder(), ["b"])]), BOOSTING
)


# Given models ----------------------------------------------------------------------------------


def _whole(*values):
    return np.array(values, np.int32)


#: Kind of a step -> words and arrays of one that takes two columns.
PARTS = {
    "keep": ({}, {}),
    "affine": ({}, {"shift": np.ones(2), "scale": np.ones(2)}),
    "powers": ({}, {"powers": np.array([[1, 1], [2, 0]], np.int32)}),
    "levels": (
        {"codes": False, "unknown": "ignore"},
        {"levels": np.arange(4.0), "sizes": _whole(2, 2), "dropped": _whole(-1, 0)},
    ),
    "spline": ({"degree": 1, "bias": True}, {"knots": np.array([[0.0, 0.2, 0.5, 0.7, 1.0]] * 2)}),
    "clip": ({}, {"low": np.zeros(2), "high": np.ones(2)}),
    "bands": ({}, {"bounds": np.array([0.2, 0.5])}),
    "sum": ({}, {"weights": np.ones((2, 2))}),
    "gaps": ({}, {}),
    "places": ({"marked": False}, {}),
    "numbers": ({"marked": True}, {"levels": np.array([4.0, 7.0])}),
    "missing": ({}, {}),
    "constant": ({}, {"constant": np.zeros(2)}),
    "fill": ({}, {"fill": np.zeros(2)}),
    "mode": (
        {}, {"chosen": _whole(0, 1), "sizes": _whole(2, 2), "levels": np.arange(4.0)},
    ),
    **dict.fromkeys(FUNCTIONS, ({}, {})),
}  # fmt: skip
assert set(PARTS) == set(_WORDS)


def given_steps():
    """Words and arrays of steps: positive columns, all kinds side by side, no empty cell."""
    form, arrays = [[{"kind": "clip", "columns": [0, 1]}], []], {}
    arrays |= {"step0.0.low": np.full(2, 0.1), "step0.0.high": np.full(2, 0.9)}
    for kind, (words, own) in PARTS.items():
        columns = [0] if kind == "bands" else [0, 1]
        arrays |= {f"step1.{len(form[1])}.{name}": array for name, array in own.items()}
        form[1].append({"kind": kind, "columns": columns, **words})
    return form, arrays


def given_models():
    """A design and trees whose columns are made by steps of all kinds, on cuts of their own."""
    steps, arrays = given_steps()
    width = _width(steps, arrays)
    steps = [*steps, [{"kind": "constant", "columns": list(range(width))}]]
    arrays["step2.0.constant"] = np.zeros(width)
    line = {"coefficients": np.ones((1, width)), "intercept": np.zeros(1)}
    form = {"kind": "design", "link": "identity", "classes": [], "steps": steps}
    trees = {
        "cuts": np.ones(width, np.int32), "cut": np.full(width, 0.4), "base": np.zeros(1),
        "feature": _whole(0, 1, -1, -1, -1), "threshold": _whole(0, 0),
        "value": np.arange(3.0)[:, None], "missing_left": _whole(0, 1),
    }  # fmt: skip
    words = {"kind": "trees", "combine": "sum", "link": "identity", "classes": [], "steps": steps}
    return [
        open_model(form, {**line, **arrays}, 2, 0),
        open_model(words, {**trees, **arrays}, 2, 0),
    ]


def _width(steps, arrays):
    """How many columns the steps give: that many coefficients are asked for."""
    for width in range(1, 100):
        line = {"coefficients": np.ones((1, width)), "intercept": np.zeros(1)}
        form = {"kind": "design", "link": "identity", "classes": [], "steps": steps}
        try:
            open_model(form, {**line, **arrays}, 2, 0)
        except Exception:  # noqa: S112 - another width
            continue
        return width
    raise AssertionError


# Studies ---------------------------------------------------------------------------------------


def rows(seed, n=60, classes=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)
    return X, (y > 0.0).astype(int) if classes else y


class Exchange:
    """One study of two sources, every message of it, and whoever reads them."""

    def __init__(self, model="ridge", classes=(), inputs=None, search=False, given=None):
        described = model_description(model, inputs)
        if given is not None:
            described = given_description(sha256=model_digest(given))
        candidates = None if given else default_candidates(described, "validated", ())[:2]
        options = {}
        if search:
            candidates = {"penalty": {"low": 0.01, "high": 10.0, "log": True}}
            options = {"budget": {"candidates": 4, "rounds": 2}, "search": "random"}
        self.plan = make_plan(
            described, candidates, options, features=("x0", "x1"), classes=classes
        )  # fmt: skip
        self.classes, self.given = classes, given
        self.seen = rows(9)[0]
        self._run()
        brief = self.brief
        said = [message for pair in self.pairs for message in pair]
        said += [
            Refusal(brief.study, "a", digest_of(brief), "models"),
            BacktestReport(brief.study, "a", 1.0, 0.1, 1.0),
            Conclusion(brief.study, "done", {"a": "answered"}, "", np.arange(9, dtype="u1")),
        ]
        self.wires = [encode(message) for message in said]
        self.with_models = [
            k for k, m in enumerate(said) if isinstance(m, ModelReport | Examination)
        ]

    def _run(self):
        """Carry the study through; what source a was asked and answered."""
        target = Target(self.seen, self.plan, policy=Policy.open(), given=self.given)
        sites = {name: self.source(name) for name in "ab"}

        def ask(question):
            answers = {name: site.answer(question) for name, site in sites.items()}
            self.pairs.append((question, answers["a"]))
            return answers

        self.pairs = []
        self.brief = target.brief([*sites])
        self.reports = ask(self.brief)
        request = target.choose(self.reports)
        while isinstance(request, MoreCandidates):
            request = target.choose(ask(request))
        self.plan = target.plan
        models = {} if self.given else ask(request)
        asked = target.mix(models)["a"]
        self.pairs.append((asked, sites["a"].answer(asked)))

    def source(self, name):
        X, y = rows(ord(name), classes=len(self.classes))
        y = np.asarray(self.classes)[y] if self.classes else y
        return Source(name, X, y, policy=Policy.open())

    def read(self, wire):
        """What the target, or the source, does with a message."""
        message = decode(wire)
        if isinstance(message, Brief):
            self.source("a").answer(message)
        elif isinstance(message, MoreCandidates | ModelRequest | Examination):
            self._ask(message)
        elif not isinstance(message, BacktestReport | Conclusion):
            self._take(message)

    def _ask(self, message):
        """A source that was asked the questions before is asked this one."""
        site, brief = self.source("a"), self.brief
        if self.given is not None and isinstance(message, Examination):
            brief, message = self._agreed(message)
        later = [pair for pair in self.pairs if isinstance(pair[0], MoreCandidates)]
        if isinstance(message, MoreCandidates):
            later = [pair for pair in later if pair[0].round < message.round]
        site.recall(brief, self.reports["a"], later)
        site.answer(message)

    def _agreed(self, message):
        """As if the changed model had been agreed: a target chooses what it lets examine."""
        if not message.members:
            return self.brief, message
        model = open_model(*message.members[0], 2, len(self.classes))
        described = {**self.brief.model, "sha256": model_digest(model)}
        brief = dataclasses.replace(self.brief, model=described)
        return brief, dataclasses.replace(message, brief=digest_of(brief))

    def _take(self, message):
        """The target takes an answer, and goes on with it."""
        questions = {digest_of(question): question for question, _ in self.pairs}
        kind = type(message)
        own = [question for question, answer in self.pairs if isinstance(answer, kind)]
        question = questions.get(message.in_reply_to, (own or [self.brief])[0])
        first = isinstance(question, Brief)
        of = self.plan.candidates if not hasattr(question, "candidates") else question.candidates
        brief = dataclasses.replace(self.brief, candidates=of)
        said = None if first else self.reports["a"]
        accept(message, "a", question, brief, said)
        if isinstance(message, ModelReport):
            sent = {"a": message}
            told = open_models(
                sent, Reported.of(self.reports), self.plan, [self.seen], self.brief.sd
            )
            for error in told[2].values():
                raise error
        if isinstance(message, RiskReport) and not self.given and not first:
            whole = joined(self.reports["a"], message)
            estimates(self.plan, Reported.of({"a": whole}), range(len(whole.risk)))


def messages():
    """Functions that change one message and read it."""
    exchanges = [
        Exchange(), Exchange(FOREST), Exchange(LogisticRegression(), ("no", "yes")),
        Exchange(COLUMNS, inputs=INPUTS), Exchange(EMPTY_TO_TREES, inputs=INPUTS),
        Exchange(search=True), *(Exchange(given=model) for model in given_models()),
    ]  # fmt: skip
    envelope = Envelope("demo@1", "risk", "a", "b", "0" * 32, "", "0" * 64)
    outside = dataclasses.replace(envelope, key="0" * 64).to_bytes()
    everything = [wire for exchange in exchanges for wire in exchange.wires]
    assert {decode(wire).name for wire in everything} == set(MESSAGES)

    def one(rng):
        if rng.random() < 0.05:
            return "envelope", Envelope.from_bytes, change_bytes(rng, outside, outside)
        exchange = any_of(rng, exchanges)
        # Half of them are the messages that carry models.
        chosen = exchange.with_models if rng.random() < 0.5 else range(len(exchange.wires))
        at = any_of(rng, chosen)
        wire = change_message(rng, exchange.wires[at], any_of(rng, everything))
        return decode(exchange.wires[at]).name, exchange.read, wire

    for exchange in exchanges:  # the unchanged ones are read
        for wire in exchange.wires:
            exchange.read(wire)
    return one
