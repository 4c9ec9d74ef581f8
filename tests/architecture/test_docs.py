"""Every link leads somewhere, every page can be reached, every public name is described."""

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest

import fedcsa
from fedcsa.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if not {"_build", "generated"} & set(page.parts)]
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
RST_TOCTREE = re.compile(r"^\.\. toctree::\n((?:   .*\n|\n)+)", re.M)
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
        if re.match(r"[a-z][a-z0-9+.-]*:|generated/figures/\w", link):
            continue  # of figures their own tests know whether they are drawn
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        known = anchors(target) if target.suffix == ".md" and target.exists() else {anchor.lower()}
        if not target.exists() or (anchor and anchor.lower() not in known):
            broken.append(link)
    assert broken == []


def source_of(entry, folder):
    """The file that an entry of a table of contents names; the build makes some of examples."""
    name = re.sub(r".*<(.*)>", r"\1", entry.strip())
    made = re.fullmatch(r"generated/(\w+)/(\w+)", name)
    if made:
        stem = {"index": "*.rst"}.get(made[2], f"{made[2]}.py")
        return next((ROOT / "examples" / made[1]).glob(stem), None)
    base = ROOT / "docs" if name.startswith("/") else folder
    found = [base / f"{name.lstrip('/')}{ending}" for ending in (".md", ".rst", ".py")]
    return next((path for path in found if path.is_file()), None)


def entries(page):
    text = page.read_text(encoding="utf-8")
    blocks = TOCTREE.findall(text) if page.suffix == ".md" else RST_TOCTREE.findall(text)
    return [s.strip() for b in blocks for s in b.splitlines() if s.strip() and s.strip()[0] != ":"]


def test_pages_of_a_table_of_contents_exist():
    found = [(page, entry) for page in PAGES for entry in entries(page)]
    assert len(found) > 20
    assert [(named(p), entry) for p, entry in found if not source_of(entry, p.parent)] == []


def test_every_page_is_in_a_table_of_contents():
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        if page.suffix in (".md", ".rst"):
            found = [source_of(entry, page.parent) for entry in entries(page)]
            waiting += [path for path in found if path and path not in reached]
    pages = {page for page in PAGES if page.parent == ROOT / "docs"} | {ROOT / "docs" / "api.rst"}
    tutorials = set((ROOT / "docs" / "tutorials").glob("*.rst"))
    assert pages | tutorials <= reached


def test_the_gallery_has_an_index():
    assert (ROOT / "examples" / "gallery" / "GALLERY_HEADER.rst").is_file()


def test_every_public_name_is_described_once():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    described = re.findall(r"^   (\w+)$", text, re.M)
    assert sorted(described) == sorted(name for name in fedcsa.__all__ if name != "__version__")


def written(pattern):
    """What stands in a page and matches, with the page."""
    found = [
        (page, word)
        for page in PAGES
        for word in re.findall(pattern, page.read_text(encoding="utf-8"))
    ]
    assert found
    return found


def test_links_to_pages_that_the_build_makes_lead_somewhere():
    links = written(r"\{doc\}`[^`]*<(generated/[^>]+)>`")
    assert [(named(p), entry) for p, entry in links if not source_of(entry, p.parent)] == []


def test_every_term_is_in_the_glossary():
    glossary = (ROOT / "src" / "fedcsa" / "glossary.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^(\w[^\n]*)\n  \S", glossary, re.M))
    assert [
        (named(p), term) for p, term in written(r"\{term\}`([^`]+)`") if term not in known
    ] == []


CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def shown_commands(page):
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for line in re.findall(r"^\$ (fedcsa (?:[^\\\n]|\\\n> )*)", block, re.M):
            plain = re.split(r"\s#|[|<>;&`]|\$\(", line.replace("\\\n> ", " "))[0]
            yield shlex.split(plain)[1:]


def unknown_words(words):
    """What of a command line `fedcsa` does not know: an option, or the name of a command."""
    command, rest = app, list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    told = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    no_command = rest[:1] if hasattr(command, "commands") and rest else []
    return sorted({*(told - {"--help", "-h"} - known), *(set(no_command) - told)})


def test_commands_and_options_of_a_page_exist():
    shown = [(named(page), words) for page in PAGES for words in shown_commands(page)]
    assert [(page, word) for page, words in shown for word in unknown_words(words)] == []


def test_a_command_or_option_that_does_not_exist_is_found():
    assert unknown_words(["run", "study.toml", "--nonsense"]) == ["--nonsense"]
    assert unknown_words(["study", "begin"]) == ["begin"]
    assert unknown_words(["nonsense"]) == ["nonsense"]
    assert sum(1 for page in PAGES for _ in shown_commands(page)) > 100
