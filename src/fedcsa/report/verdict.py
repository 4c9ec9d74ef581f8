"""The verdict in one sentence, and its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedcsa.findings import ADVICE, CATALOGUE, Advice, left_out, number
from fedcsa.report import words
from fedcsa.report.folder import Folder
from fedcsa.report.model import Reason, Verdict

_BROKEN = ("worse than promised", "better than promised")
_ORDER = ("danger", "warning", "note")
#: Places named under one kind of finding.
MOST_PLACES = 6


def verdict(folder: Folder) -> Verdict:
    """What to do with the model, and why."""
    content = folder.content
    if not content:
        return _kept_away(folder.federation)
    without = left_out(content.get("source_weights") or {})
    about = [
        item
        for item in content["findings"]
        if item["source"] in without and CATALOGUE[item["code"]][0] != "note"
    ]
    found = reasons([item for item in content["findings"] if item not in about])
    if "ended" in content:
        return _verdict("no", f"There is no model. {words.clean(content['ended']['text'])}", found)
    advice, why = content["verdict"]["advice"], content["verdict"]["sentence"]
    told = (folder.reconciliation or {}).get("conclusion")
    if told == "worse than promised":
        advice = "no"
    elif told == "better than promised" and advice == "use":
        advice = "care"
    came = f"Outcomes that arrived later are {told}. " if told in _BROKEN else ""
    shown = _verdict(advice, f"{came}{_sentence(why)} {_promise(content)}", found)
    if not about:
        return shown
    title = words.about_left_out([item["source"] for item in about])
    return replace(shown, apart=title, reasons_apart=reasons(about))


def _verdict(advice: Advice, sentence: str, found: tuple[Reason, ...] = ()) -> Verdict:
    word, sign = ADVICE[advice]
    return Verdict(advice, word, sign, sentence, found)


def _promise(content: Mapping[str, Any]) -> str:
    name, _ = words.loss(content["plan"]["loss"])
    risk = content["risk"]
    bound = "at most about" if risk is not None and risk["kind"] == "bound" else "about"
    text = f"At the target expect a {name} of {bound} {words.number(content['target_risk'])}"
    if content["interval"] is not None and risk is not None:
        text += f" ({risk['level']:.0%} interval {words.interval(*content['interval'])})"
    return f"{text}."


def _kept_away(federation: Mapping[str, Any]) -> Verdict:
    outcome = words.clean(federation.get("outcome", ""))
    if outcome == "done":
        sentence = "The study is done; the target keeps its result to itself. Ask there."
        return Verdict("care", "Ask the target", "?", sentence)
    return _verdict("no", f"There is no model: the study ended ({outcome}).")


def reasons(findings: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    """The findings by kind, gravest first."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for item in findings:
        kinds.setdefault(str(item["code"]), []).append(item)
    found = [_reason(code, items) for code, items in kinds.items()]
    return tuple(sorted(found, key=lambda reason: _ORDER.index(reason.severity)))


def _reason(code: str, items: Sequence[Mapping[str, Any]]) -> Reason:
    places = [place(item) for item in items]
    shown = tuple(text for text in places[:MOST_PLACES] if text)
    severity, meaning, advice = CATALOGUE[code]
    more = max(0, len(items) - MOST_PLACES)
    return Reason(severity, code, _sentence(meaning), shown, more, _sentence(advice))


def place(item: Mapping[str, Any]) -> str:
    """The source concerned, and the evidence."""
    evidence = {
        key: number(value).replace("-", "−") if isinstance(value, float) else words.clean(value)
        for key, value in item["evidence"].items()
    }
    facts = ", ".join(f"{words.clean(key)} {value}" for key, value in evidence.items())
    return ": ".join(part for part in (words.clean(item["source"]), facts) if part)


def _sentence(text: str) -> str:
    first = text[0] if text.startswith("p(") else text[0].upper()
    return f"{first}{text[1:]}."
