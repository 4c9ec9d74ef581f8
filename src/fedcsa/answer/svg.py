"""A drawing as part of the page: colours that follow it, marks that can be read and reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from fedcsa.answer.charts.drawing import Chart

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"#([\w-]+)")
_DROPPED = ("stroke-linejoin", "stroke-linecap", "font-family", "font")


def inline(chart: Chart, prefix: str) -> str:
    """The chart as an element of the page, its names starting with `prefix`."""
    from fedcsa.answer.charts import drawing as base

    variables = {
        getattr(base, name): f"var(--{name.lower()})"
        for name in ("INK", "MUTED", "FAINT", "ACCENT", "DANGER")
    }
    root = ET.fromstring(base.svg(chart.figure))  # noqa: S314 - drawn by ourselves
    _without_styles(root)
    used = {
        name
        for element in root.iter()
        for value in element.attrib.values()
        for name in _REFERENCE.findall(value)
    }
    first = True
    for element in root.iter():
        _plain(element, variables)
        _rename(element, prefix, {*used, *chart.titles})
        title = chart.titles.get(element.get("id", "").removeprefix(f"{prefix}-"))
        if title is not None:
            _speak(element, title, reachable=first)
            first = False
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    kind = "chart small" if chart.small else "chart"
    root.attrib.update({"class": kind, "role": "group", "aria-label": chart.label})
    ET.register_namespace("", _SVG.strip("{}"))
    return ET.tostring(root, encoding="unicode")


def _without_styles(root: ET.Element) -> None:
    """The page's policy allows one style sheet, which is not this one; nor is metadata wanted."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{_SVG}style", f"{_SVG}metadata"):
                parent.remove(child)


def _plain(element: ET.Element, variables: Mapping[str, str]) -> None:
    """Attributes instead of a style, which the page's policy would refuse."""
    for part in element.attrib.pop("style", "").split(";"):
        key, _, value = (piece.strip() for piece in part.partition(":"))
        if key == "font" and (size := re.match(r"([\d.]+)px", value)):
            element.set("font-size", size.group(1))
        if key and key not in _DROPPED:
            element.set(key, value.removesuffix("px") if key == "font-size" else value)
    for key in ("fill", "stroke"):
        value = element.get(key, "")
        if value in variables:
            element.set(key, variables[value])
    if element.tag == f"{_SVG}text" and not element.get("fill"):
        element.set("fill", "var(--ink)")


def _rename(element: ET.Element, prefix: str, used: set[str]) -> None:
    if _LINK in element.attrib:
        element.set("href", element.attrib.pop(_LINK))
    name = element.attrib.pop("id", "")
    if name in used:
        element.set("id", f"{prefix}-{name}")
    for key in ("href", "clip-path"):
        if key in element.attrib:
            element.set(key, _REFERENCE.sub(rf"#{prefix}-\1", element.attrib[key]))


def _speak(element: ET.Element, text: str, *, reachable: bool) -> None:
    """A mark's number: for the pointer, for the keyboard, for a screen reader."""
    title = ET.Element(f"{_SVG}title")
    title.text = text
    element.insert(0, title)
    attributes = {"class": "mark", "role": "img", "aria-label": text}
    element.attrib.update({**attributes, "tabindex": "0" if reachable else "-1"})
