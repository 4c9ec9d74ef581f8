"""The functions of `scipy.special` that are used here, each loaded when it is first called.

Loading them takes a quarter of a second, and `fedcsa check` computes nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any


class _SpecialFunction:
    """A function of `scipy.special`, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self._function(*values, **options)

    @cached_property
    def _function(self) -> Any:
        from scipy import special

        return getattr(special, self._name)


bdtrc = _SpecialFunction("bdtrc")
betainc = _SpecialFunction("betainc")
betaincc = _SpecialFunction("betaincc")
betaincinv = _SpecialFunction("betaincinv")
chdtri = _SpecialFunction("chdtri")
erf = _SpecialFunction("erf")
expit = _SpecialFunction("expit")
gammaln = _SpecialFunction("gammaln")
logit = _SpecialFunction("logit")
ndtr = _SpecialFunction("ndtr")
ndtri = _SpecialFunction("ndtri")
softmax = _SpecialFunction("softmax")
stdtr = _SpecialFunction("stdtr")
stdtrit = _SpecialFunction("stdtrit")
