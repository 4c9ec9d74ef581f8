"""The parts of a study file that describe the table, the sites and the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fedcsa.data.columns import Feature, Outcome, describe_column
from fedcsa.errors import ParameterError, StudyError, hint
from fedcsa.messages.policy import Policy
from fedcsa.study.toml import Section, raise_all


def read_features(section: Mapping[str, Any], where: str, problems: list[str]) -> list[Feature]:
    """The features, in the order of the file."""
    features = []
    here = Section(section, where, problems)
    for name, value in section.items():
        try:
            features.append(describe_column(name, value))
        except ParameterError as error:
            here.say(f"{name!r}: {error}")
    return features


def write_features(features: Sequence[Feature]) -> dict[str, Any]:
    """What `read_features` reads."""
    section: dict[str, Any] = {}
    for feature in features:
        options: dict[str, Any] = {
            item.name: getattr(feature, item.name)
            for item in dataclasses.fields(Feature)
            if item.name != "name" and getattr(feature, item.name) != item.default
        }
        if "levels" in options:
            options.pop("kind")
        short = set(options) <= {"kind"}
        section[feature.name] = feature.kind if short else options
    return section


def read_outcome(values: Mapping[str, Any], where: str, problems: list[str]) -> Outcome | None:
    """The outcome, or None if something is wrong with it."""
    section = Section(values, where, problems)
    name, levels = section.take("name", "str"), section.take("levels", "labels", [])
    section.close()
    if "levels" in values and levels == []:
        section.say("'levels' must be two or more, or left out for a number.")
    try:
        return None if name is None else Outcome(name, tuple(levels))
    except ParameterError as error:
        section.say(str(error))
        return None


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """What `read_outcome` reads."""
    levels = {"levels": list(outcome.levels)} if outcome.levels else {}
    return {"name": outcome.name, **levels}


def build_policy(rules: Mapping[str, Any]) -> Policy:
    """The policy of every site of a simulation.

    Parameters
    ----------
    rules : mapping
        The section ``[policy]``: ``preset``, ``"open"`` unless told, and fields of `Policy`
        to change. Where a field may be None, the text ``"none"`` says so.
    """
    preset, changes = read_policy(rules)
    try:
        return dataclasses.replace(Policy() if preset == "site" else Policy.open(), **changes)
    except ParameterError as error:
        raise StudyError(f"[policy] {error}") from None


def read_policy(rules: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The preset and the changed fields, or a `StudyError` about a key or a type."""
    problems: list[str] = []
    section = Section(rules, "[policy]", problems)
    preset = section.take("preset", "str", "open")
    if preset not in ("open", "site"):
        meant = hint(preset, ("open", "site"))
        section.say(f'\'preset\' must be "open" or "site". {meant}')
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(Policy):
        rule = str(item.type).removesuffix(" | None")
        if rule != item.type and rules.get(item.name) == "none":
            section.skip(item.name)
            changes[item.name] = None
            continue
        value = section.take(item.name, rule, None)
        if value is not None:
            changes[item.name] = tuple(value) if isinstance(value, list) else value
    section.close()
    raise_all(problems)
    return preset, changes
