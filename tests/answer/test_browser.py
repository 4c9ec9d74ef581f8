"""The report in a real browser: what a reader sees, reaches, prints, and what never leaves."""

import functools
import json
import re
from contextlib import contextmanager

import pytest

from fedcsa.words import number

SECTIONS = [
    "sources",
    "balance",
    "backtest",
    "candidates",
    "ledger",
    "card",
    "checklists",
    "making",
]
#: Sections that not every report has: kind -> name -> the one that it follows
FURTHER = {
    "small": {"measures": "verdict", "calibration": "measures", "compared": "sources"},
    "two classes": {
        "measures": "verdict",
        "calibration": "measures",
        "decision": "calibration",
        "subgroups": "decision",
    },
    "paper": {"compared": "sources"},
    "every finding": {"findings": "sources"},
    "nasty names": {"findings": "sources"},
}
CHARTS = {
    "two classes": 7, "small": 6, "one source": 4, "two sources": 4, "paper": 2, "no overlap": 2,
    "100 sources": 5,    "300 features": 4, "every finding": 5, "nasty names": 4, "all refused": 0,
}  # fmt: skip
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def tabs(browser):
    """A tab for each kind of browser: to start one takes longer than to load a report into it."""

    @functools.cache
    def tab(scripts, bypass):
        context = browser.new_context(java_script_enabled=scripts, bypass_csp=bypass)
        page = context.new_page()
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: page.complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: page.asked.append(request.url))
        return page

    return tab


@contextmanager
def opened(tabs, folder, *, width=1280, scheme="light", scripts=True, bypass=False):
    """The report, loaded anew; complaints and requests are gathered."""
    page = tabs(scripts, bypass)
    page.goto("about:blank")  # whatever the last report still says is not about this one
    page.complaints, page.asked = [], []
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="null", color_scheme=scheme)
    page.mouse.move(0, 0)
    page.goto((folder / "report.html").as_uri())
    yield page


@pytest.mark.parametrize("kind", CHARTS)
def test_every_report_is_whole_quiet_and_fits_the_screen(tabs, results, kind):
    folder = results(kind)
    with opened(tabs, folder) as page:
        shown = page.locator("main > section[id]").evaluate_all("all => all.map(s => s.id)")
        expected = ["verdict", *SECTIONS]
        for name, before in FURTHER.get(kind, {}).items():
            expected.insert(expected.index(before) + 1, name)
        if kind == "all refused":
            expected = ["verdict", "sources", "findings", "ledger", "card", "checklists", "making"]
        assert shown == expected
        names = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
        assert len(names) == len(set(names))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            boxes = page.locator("svg.chart").evaluate_all(
                "all => all.map(c => c.getBoundingClientRect()).map(b => [b.width, b.height])"
            )
            assert len(boxes) == CHARTS[kind]
            assert all(across > 300 and down > 50 for across, down in boxes)
            sizes = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert sizes[0] <= sizes[1] == width
        assert page.complaints == []
        assert page.asked == [(folder / "report.html").as_uri()]


CUT = """() => { document.querySelectorAll('details').forEach(d => d.open = true);
return [...document.querySelectorAll('.scroll')].filter(box => box.querySelector('table'))
.filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel) }"""


@pytest.mark.parametrize("kind", CHARTS)
def test_no_table_is_cut_on_a_wide_screen(tabs, results, kind):
    with opened(tabs, results(kind)) as page:
        assert page.locator("table").count() > 3
        assert page.evaluate(CUT) == []


@pytest.mark.parametrize("kind", ["small", "every finding", "nasty names", "two classes"])
def test_nobody_is_shut_out(tabs, results, kind):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    colours = {"runOnly": ["cat.color"]}  # nothing else differs in the dark
    with opened(tabs, results(kind), bypass=True) as page:
        for scheme, rules, least in (("light", {}, 10), ("dark", colours, 0)):
            page.emulate_media(color_scheme=scheme)
            found = axe.run(page, options={"resultTypes": ["violations"], **rules}).response
            assert len(found["passes"]) > least  # it really looked
            grave = [
                (item["id"], item["nodes"][0]["html"][:200])
                for item in found["violations"]
                if item["impact"] in ("serious", "critical")
            ]
            assert grave == []


def test_dark_follows_the_reader(tabs, results):
    colours = {}
    for scheme in ("light", "dark"):
        with opened(tabs, results("small"), scheme=scheme) as page:
            colours[scheme] = page.evaluate(
                "[getComputedStyle(document.body).backgroundColor,"
                " getComputedStyle(document.querySelector('svg.chart text')).fill]"
            )
    for light, dark in zip(colours["light"], colours["dark"], strict=True):
        assert light != dark


def test_without_scripts_everything_is_there(tabs, results):
    with opened(tabs, results("small"), scripts=False) as page:
        text = page.locator("main").inner_text()
        for word in ("Use it", "north", "a new site", "Back-test", "What left each site"):
            assert word in text
        assert page.locator("svg.chart .mark title").count() > 30
        assert page.locator("#tip").is_hidden()


def test_pointing_at_a_mark_shows_its_number_and_leaving_hides_it(tabs, results):
    content = json.loads((results("small") / "adaptation.json").read_text(encoding="utf-8"))
    with opened(tabs, results("small")) as page:
        page.locator("#sources .mark[aria-label^='a new site']").first.hover()  # of the loss
        tip = page.locator("#tip")
        assert tip.is_visible()
        risk, *ends = (number(x**0.5) for x in (content["target_risk"], *content["interval"]))
        shown = f"a new site: {risk} ({ends[0]} to {ends[1]})"
        assert tip.inner_text() == shown
        page.mouse.move(1, 1)
        assert tip.is_hidden()


def test_the_keyboard_reaches_every_mark(tabs, results):
    with opened(tabs, results("small")) as page:
        marks = page.locator("#sources svg .mark")
        assert page.locator("#sources svg .mark[tabindex='0']").count() == 1
        marks.first.focus()
        seen = [page.locator("#tip").inner_text()]
        for _ in range(marks.count() - 1):
            page.keyboard.press("ArrowRight")
            assert page.locator("#tip").is_visible()
            seen.append(page.locator("#tip").inner_text())
        assert seen == marks.evaluate_all("all => all.map(m => m.getAttribute('aria-label'))")
        assert page.locator("#sources svg .mark[tabindex='0']").count() == 1
        page.keyboard.press("Escape")
        assert page.locator("#tip").is_hidden()


def test_a_screen_as_narrow_as_a_phone_keeps_the_tip_inside(tabs, results):
    with opened(tabs, results("small"), width=390) as page:
        page.locator("#sources-mark-0").focus()
        box = page.locator("#tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


@pytest.mark.parametrize(("kind", "most"), [("small", 9), ("100 sources", 20), ("all refused", 3)])
def test_it_prints_on_a_sane_number_of_pages(tabs, results, kind, most):
    with opened(tabs, results(kind)) as page:
        pdf = page.pdf(format="A4")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 1 <= pages <= most
    assert len(pdf) > 10_000


@pytest.mark.parametrize("kind", ["small", "every finding", "two classes"])
def test_every_table_fits_on_the_paper(tabs, results, kind):
    with opened(tabs, results(kind), width=680) as page:  # A4 between its margins
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_printing_unfolds_the_tables(tabs, results):
    with opened(tabs, results("100 sources")) as page:
        row = page.locator("#sources tbody tr").last
        assert not row.is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert row.is_visible()
    with opened(tabs, results("100 sources"), scripts=False) as page:
        page.emulate_media(media="print")
        assert page.locator("#sources tbody tr").last.bounding_box()["height"] > 5


def test_foreign_names_are_text(tabs, results, making):
    with opened(tabs, results("nasty names")) as page:
        assert page.complaints == []
        assert page.locator("script").count() == 1
        assert page.locator("img").count() == 0
        tables = page.locator("#sources table").inner_text()
        charts = page.locator("#sources svg").text_content()
        for name in making.NASTY[:4]:
            assert name in tables
            assert name[:20] in charts
        assert page.locator("h1").inner_text() == making.NASTY[1]
        heard = page.locator("#balance .mark").first.get_attribute("aria-label")
        assert any(f"{name} column" in heard for name in making.NASTY[:4]) or "�" in heard


@pytest.mark.parametrize("kind", ["small", "one source", "no overlap", "two classes"])
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_first_screen_says_whether_how_well_and_why(tabs, results, kind, size):
    with opened(tabs, results(kind), width=size[0]) as page:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        parts = ["#verdict h2", "#verdict .why", "#verdict .promised"]
        parts += [] if kind == "no overlap" else ["#verdict .whom", "#first svg"]
        parts += [".legs li:last-child"] if kind != "no overlap" and size[0] > 400 else []
        for part in parts:
            box = page.locator(part).bounding_box()
            assert box["y"] + box["height"] <= size[1], part


def test_the_verdict_is_told_by_words_and_not_by_colour_alone(tabs, results):
    words = {"small": "Use it", "every finding": "Do not use it", "all refused": "Do not use it"}
    for kind, word in words.items():
        with opened(tabs, results(kind)) as page:
            assert page.locator("#verdict h2").inner_text().split(" ", 1)[1].startswith(word)


def test_a_study_without_a_model_says_who_refused_under_which_rule(tabs, results):
    with opened(tabs, results("all refused")) as page:
        verdict = page.locator("#verdict").inner_text()
        assert "all refused" in verdict
        rows = page.locator("#sources tbody tr").all_inner_texts()
        assert len(rows) == 3
        assert all("refused: min_fold_rows" in row for row in rows)


def test_every_kind_of_finding_is_there_with_what_to_do(tabs, results):
    from fedcsa.findings import CATALOGUE

    with opened(tabs, results("every finding")) as page:
        text = page.locator("#findings").text_content()
    for code, (_, meaning, advice) in CATALOGUE.items():
        assert code in text
        assert meaning[1:] in text
        assert advice[1:] in text


def test_the_first_screen_of_two_classes_is_in_units_that_people_use(tabs, results):
    with opened(tabs, results("two classes")) as page:
        text = page.locator("#verdict").inner_text()
        assert text.index("AUROC") < text.index("Brier")
        for words in ("Events per 100 patients", "events for 100 predicted", "not enough patients"):
            assert words in text
        lines = page.locator("#first .mark").evaluate_all(
            "all => all.map(m => m.getAttribute('aria-label').split(':')[0])"
        )
        assert lines[-3:] == ["a new site", "over 0", "far <b>out</b>"]
        assert "threshold 10 %" in " ".join(
            page.locator("#decision .mark").evaluate_all(
                "all => all.map(m => m.getAttribute('aria-label'))"
            )
        )
