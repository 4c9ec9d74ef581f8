"""One real exchange, from which the tests here make messages of every kind."""

import dataclasses
import functools
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.core.overlap import overlap
from fedcsa.core.risk import RiskMoments
from fedcsa.protocol.codec import PROTOCOL_VERSION, digest, encode
from fedcsa.protocol.messages import MESSAGES, Conclusion, Refusal
from fedcsa.protocol.policy import Policy
from fedcsa.roles.plan import Plan
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target

PREFIX = struct.Struct("<4sHI")


@functools.cache
def exchange(n_candidates=2, n_features=2, kind="embedding", n_target=40, method="feddae"):
    """Every message of a small study: brief, report, request, model and a refusal."""
    rng = np.random.default_rng(5)
    plan = Plan(
        features=tuple(f"x{i}" for i in range(n_features)),
        model={"name": "ridge"},
        candidates=tuple({"penalty": float(k)} for k in range(n_candidates)),
        method=method,
        exchange=kind,
    )
    target = Target(rng.normal(size=(n_target, n_features)), plan, policy=Policy.open())
    X = rng.normal(size=(24, n_features))
    y = X.sum(axis=1) + 0.3 * rng.normal(size=24)
    source = Source("a", X, y, policy=Policy.open())
    brief = target.brief(["a"])
    report = source.answer(brief)
    request = target.choose({"a": report})
    model = source.answer(request)
    refusal = Refusal("study", "a", digest(encode(brief)), "min_fold_rows")
    return SimpleNamespace(
        brief=brief, report=report, request=request, model=model, refusal=refusal
    )


def crafted(ratios, losses):
    """The report of an honest source with these ratios (rows,) and losses (rows, 3)."""
    ratios, losses = np.asarray(ratios, dtype=float), np.asarray(losses, dtype=float)
    report = exchange().report
    moments = RiskMoments.of(ratios, losses)
    numbers = overlap(ratios, np.zeros((len(ratios), 2)), 1.0)
    names = ("ratio_mean", "ratio_m2", "loss_mean", "loss_m2", "product_mean", "product_m2")
    return dataclasses.replace(
        report,
        n_rows=3 * len(ratios),
        n_validation=len(ratios),
        effective_rows=numbers.effective_rows,
        largest_share=numbers.largest_share,
        co_moment=moments.co_moment,
        **{name: getattr(moments, name) for name in names},
    )


#: Values for messages that are nothing but a few single values.
SIMPLE = {"text": "Ulm", "whole": 7, "number": 0.123456, "flag": True}


def all_messages():
    """One message of every kind, both sorts of brief, report and model among them."""
    small = exchange()
    packed = dataclasses.replace(
        small.model,
        format="skops",
        intercept=0.0,
        coefficients=np.empty(0),
        packed=np.arange(256, dtype=np.uint8),
    )
    made = {
        "brief": small.brief,
        "brief-rows": exchange(kind="rows").brief,
        "risk-report": small.report,
        "risk-report-guarded": exchange(method="guarded").report,
        "model-request": small.request,
        "model-report": small.model,
        "model-report-packed": packed,
        "refusal": small.refusal,
        "conclusion": Conclusion("study", "done", {"a": "answered"}, "", np.arange(9, dtype="u1")),
    }
    for name, cls in MESSAGES.items():
        if name not in made:
            fields = dataclasses.fields(cls)
            made[name] = cls(**{item.name: SIMPLE[item.metadata["kind"]] for item in fields})
    return made


KINDS = [*MESSAGES, "brief-rows", "risk-report-guarded", "model-report-packed"]


def split(wire):
    """Header as a dictionary, and the bytes of the arrays."""
    _, _, length = PREFIX.unpack_from(wire)
    body = PREFIX.size + length
    return json.loads(wire[PREFIX.size : body]), wire[body:]


def join(header, payload, *, magic=b"FCSA", version=PROTOCOL_VERSION, length=None):
    """Bytes of a message from any header, a dictionary or bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(magic, version, len(text) if length is None else length) + text + payload


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(
        exchange=exchange, crafted=crafted, split=split, join=join, prefix=PREFIX
    )


@pytest.fixture(scope="session")
def messages():
    return all_messages()


@pytest.fixture(params=KINDS)
def message(request, messages):
    return messages[request.param]
