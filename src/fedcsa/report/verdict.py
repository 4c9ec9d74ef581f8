"""The verdict in one sentence, and its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedcsa.findings import CATALOGUE, VERDICTS
from fedcsa.report import words
from fedcsa.report.folder import Folder
from fedcsa.report.model import Reason, Verdict

WORDS = {"use": "Use it", "care": "Use it with care", "no": "Do not use it"}
_ORDER = ("danger", "warning", "note")
#: Places named under one kind of finding.
MOST_PLACES = 6


def verdict(folder: Folder) -> Verdict:
    """What to do with the model, and why."""
    content = folder.content
    if not content:
        return _kept_away(folder.federation)
    found = reasons(content["findings"])
    if "ended" in content:
        return Verdict("no", WORDS["no"], f"There is no model. {content['ended']['text']}", found)
    advice, meaning = VERDICTS[content["status"]]
    sentence = f"{meaning[0].upper()}{meaning[1:]}."
    if content["status"] == "ok":
        sentence = "The sources reach the target, and their models agree."
    for start in ("Use it with care: ", "Do not use it: "):
        if sentence.startswith(start):
            sentence = sentence[len(start)].upper() + sentence[len(start) + 1 :]
    told = (folder.reconciliation or {}).get("conclusion")
    if told == "worse than promised":
        advice = "no"
        sentence = f"Outcomes that arrived later are worse than promised. {sentence}"
    elif told == "better than promised":
        advice = "care" if advice == "use" else advice
        sentence = f"Outcomes that arrived later are better than promised. {sentence}"
    return Verdict(str(advice), WORDS[advice], f"{sentence} {_promise(content)}", found)


def _promise(content: Mapping[str, Any]) -> str:
    name, _ = words.loss(content["plan"]["loss"])
    risk = content["risk"]
    bound = "at most" if risk is not None and risk["kind"] == "bound" else "about"
    text = f"At the target expect a {name} of {bound} {words.number(content['target_risk'])}"
    if content["interval"] is not None and risk is not None:
        text += f" ({risk['level']:.0%} interval {words.interval(*content['interval'])})"
    return f"{text}."


def _kept_away(federation: Mapping[str, Any]) -> Verdict:
    outcome = words.clean(federation.get("outcome", ""))
    if outcome == "done":
        sentence = "The study is done; the target keeps its result to itself. Ask there."
        return Verdict("care", "Ask the target", sentence)
    return Verdict("no", WORDS["no"], f"There is no model: the study ended ({outcome}).")


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
        key: f"{value:.3g}".replace("-", "−") if isinstance(value, float) else words.clean(value)
        for key, value in item["evidence"].items()
    }
    facts = ", ".join(f"{words.clean(key)} {value}" for key, value in evidence.items())
    return ": ".join(part for part in (words.clean(item["source"]), facts) if part)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
