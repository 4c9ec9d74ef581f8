"""Every relative link in the documentation leads somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if not {"_build", "generated"} & set(page.parts)]
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.M | re.S)


def named(page):
    return str(page.relative_to(ROOT))


def prose(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """Names that a link may follow: explicit ones, and the headings'."""
    text = prose(page)
    explicit = set(re.findall(r"^\(([^)\s]+)\)=\s*$", text, re.M))
    explicit |= set(re.findall(r"<a (?:name|id)=\"([^\"]+)\"", text))
    headings = re.findall(r"^#{1,6}\s+(.*?)\s*#*$", text, re.M)
    slugs = set()
    for heading in headings:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[^\w\s-]", "", plain.lower()).strip()
        slugs.add(re.sub(r"\s", "-", plain))
    return explicit | slugs


def test_there_are_pages_to_check():
    assert ROOT / "README.md" in PAGES
    assert len(PAGES) > 3


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_lead_somewhere(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        known = anchors(target) if target.suffix == ".md" and target.exists() else {anchor.lower()}
        if not target.exists() or (anchor and anchor.lower() not in known):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_of_a_table_of_contents_exist(page):
    for block in TOCTREE.findall(page.read_text(encoding="utf-8")):
        entries = [line for line in block.splitlines() if line.strip() and line[0] != ":"]
        for entry in entries:
            name = re.sub(r".*<(.*)>", r"\1", entry.strip())
            found = [page.parent / f"{name}{ending}" for ending in (".md", ".rst", "")]
            assert any(path.is_file() for path in found), entry
