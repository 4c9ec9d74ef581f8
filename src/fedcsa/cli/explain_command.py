"""``fedcsa explain NAME``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from click.shell_completion import CompletionItem
from rich.text import Text

from fedcsa.cli.common import Output, Screen, argument
from fedcsa.errors import ParameterError, unknown
from fedcsa.findings import CATALOGUE, SEVERITIES
from fedcsa.glossary import glossary
from fedcsa.refusals import REFUSAL_RULES
from fedcsa.words import sentence


def _offered(context: object, parameter: object, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """What a shell offers after `begun`."""
    every = [(name, about["meaning"]) for key, about in _all().items() for name in _names(key)]
    offered = [(name, meaning) for name, meaning in every if name.startswith(begun)]
    return [CompletionItem(name, help=meaning) for name, meaning in offered]


def explain(
    output: Output,
    name: Annotated[
        str | None,
        argument(
            metavar="NAME",
            help="A finding, a rule or a word; without one, all.",
            shell_complete=_offered,
        ),
    ] = None,
) -> None:
    """Explain a finding, the rule of a refusal, or a word, and say what to do about it.

    A finding is a named danger of a result, such as other-unit. A rule is the one word by which
    a site, or an error, says why it refused, such as row_floors. Words are those of the
    glossary, such as promise; measures are those of a report. Without a name, all are listed.

    Examples
    --------
    fedcsa explain no-overlap
    fedcsa explain row_floors
    fedcsa explain "effective rows"
    fedcsa explain                      # all of them
    """
    known = _all()
    if name is None:
        output.answer(known, lambda screen: _list(screen, known))
        return
    found = {key: about for key, about in known.items() if _bare(name) in map(_bare, _names(key))}
    if name in known and name != _bare(name):  # spelled in full: that one alone
        found = {name: known[name]}
    if not found:
        raise ParameterError(_misspelt(name, known))
    output.answer(found, lambda screen: _print(screen, found))


def _names(key: str) -> list[str]:
    """The words of an entry; the glossary explains some together."""
    return key.split(", ")


def _bare(name: str) -> str:
    """A name without what people do not remember: case, dashes, underscores and blanks."""
    return re.sub(r"[-_\s]", "", name).lower()


def _all() -> dict[str, dict[str, str]]:
    """Findings, the gravest first, rules, words and measures: kind, meaning, perhaps advice."""
    found = sorted(CATALOGUE.items(), key=lambda item: SEVERITIES.index(item[1][0]))
    told = [*found, *((rule, ("rule", *words)) for rule, words in REFUSAL_RULES.items())]
    known = {
        name: {"kind": kind, "meaning": sentence(meaning), "advice": sentence(advice)}
        for name, (kind, meaning, advice) in told
    }
    for words, meaning in glossary().items():
        if words in known:  # a word that also names a finding or a rule
            known[words]["word"] = meaning
        else:
            known[words] = {"kind": "word", "meaning": meaning}
    from fedcsa.answer.measure_words import WORDS

    named = {_bare(word) for key in known for word in _names(key)}
    for measure in WORDS.values():
        if _bare(measure.title) not in named:
            known[measure.title] = {"kind": "measure", "meaning": sentence(measure.meaning)}
    return known


def _misspelt(name: str, known: dict[str, Any]) -> str:
    every = [word for key in known for word in _names(key)]
    said = unknown("finding, rule or word", name[:60], every)
    return (
        said if "Did you mean" in said else f"{said.partition('. Known')[0]}. All: fedcsa explain"
    )


def _print(screen: Screen, found: dict[str, dict[str, str]]) -> None:
    for place, (name, about) in enumerate(found.items()):
        screen.print(Text.assemble("\n" if place else "", (name, "bold"), f" ({about['kind']})"))
        screen.print(Text(about["meaning"]))
        for key, begin in (("advice", "What to do: "), ("word", "As a word: ")):
            if key in about:
                screen.print(Text(f"{begin}{about[key]}"))


def _list(screen: Screen, known: dict[str, dict[str, str]]) -> None:
    from fedcsa.answer.result_tables import Table
    from fedcsa.answer.terminal import print_table

    told = [(name, about["kind"], about["meaning"]) for name, about in known.items()]
    findings = [line for line in told if line[1] in SEVERITIES]
    rules = [(name, meaning) for name, kind, meaning in told if kind == "rule"]
    for table in (
        Table("Findings", ("name", "kind", "meaning"), findings, (0, 1, 2)),
        Table("Rules of refusals and errors", ("name", "meaning"), rules, (0, 1)),
    ):
        print_table(screen, table)
        screen.print()
    words = {
        word for key, about in known.items() if about["kind"] == "word" for word in _names(key)
    }
    screen.print(Text("Words", style="bold"))
    screen.print(Text(", ".join(sorted(words, key=str.lower))))
    screen.print(Text("\nWhat one of them means, and what to do: fedcsa explain NAME"))
