"""The report is one closed file whose numbers are those of the result, to the digits shown."""

import base64
import dataclasses
import hashlib
import json
import re
import shutil
import sys
from html.parser import HTMLParser

import pytest

from fedcsa.errors import MissingExtraError, ResultError
from fedcsa.report import words
from fedcsa.report.page import write_report
from fedcsa.result import load_result, save_result
from fedcsa.roles.backtest import Backtest, BacktestRow

MOST_BYTES = 2_000_000
KINDS = (
    "small", "one source", "100 sources", "300 features", "every finding", "nasty names",
    "all refused",
)  # fmt: skip


class Tables(HTMLParser):
    """Every table of a page by caption, as lists of texts; and the text of the page."""

    def __init__(self, html):
        super().__init__()
        self.tables, self.text, self._tag = {}, "", ""
        self._rows, self._caption = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self._tag = tag
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        self._tag = "" if tag in ("td", "th", "caption", "style", "script") else self._tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        if self._tag in ("td", "th", "span") and self._rows and self._rows[-1]:
            self._rows[-1][-1] += data
        if self._tag == "caption":
            self._caption += data
        if self._tag not in ("style", "script"):
            self.text += data


def page_of(folder):
    return Tables((folder / "report.html").read_text(encoding="utf-8"))


def content_of(folder):
    return json.loads((folder / "adaptation.json").read_text(encoding="utf-8"))


def edit(folder, change):
    content = content_of(folder)
    change(content)
    (folder / "adaptation.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def copied(results, tmp_path):
    return lambda kind: shutil.copytree(results(kind), tmp_path / "copy")


def as_number(text):
    return float(text.replace("−", "-").replace(",", "").replace("%", ""))


def close(text, value):
    """Whether `text` is `value` to the digits it shows."""
    digits = text.lstrip("−").rstrip("%")
    scaled = value * 100.0 if text.endswith("%") else value
    decimals = len(digits.partition(".")[2].partition("e")[0])
    exponent = int(digits.partition("e")[2].replace("−", "-") or 0)
    return abs(as_number(text) - scaled) <= 0.5000001 * 10.0 ** (exponent - decimals)


def test_the_check_of_digits_can_fail():
    assert close("2.05", 2.0501)
    assert not close("2.05", 2.0559)
    assert close("1.20e−07", 1.2e-7)
    assert not close("1.20e−07", 1.3e-7)
    assert not close("40.3%", 0.41)


# One closed file ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_small_and_refers_to_nothing(results, kind):
    html = (results(kind) / "report.html").read_text(encoding="utf-8")
    assert len(html.encode()) <= MOST_BYTES
    assert not re.search(r"<(link|iframe|object|embed|img|base)\b", html)
    assert not re.search(r"""\b(src|style|on\w+)\s*=\s*["']""", html.split("</style>")[1])
    links = re.findall(r"""href="([^"]*)""", html)
    assert all(link.startswith("#") for link in links)
    assert "http:" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "https:" not in html


def test_a_grid_however_fine_makes_no_large_page(making, tmp_path):
    penalties = [index / 6000 for index in range(6000)]
    save_result(making.adaptation_of("ab", ["x"], candidates=penalties), tmp_path / "r")
    write_report(tmp_path / "r")
    assert (tmp_path / "r" / "report.html").stat().st_size <= MOST_BYTES
    page = page_of(tmp_path / "r")
    chosen = words.candidate(content_of(tmp_path / "r")["candidate"])
    assert chosen in [row[0] for row in page.tables["Risk of every candidate"]]
    assert "The best 1,000 are in the table" in page.text


def test_the_policy_names_the_one_style_and_the_one_script_by_hash(results):
    html = (results("small") / "report.html").read_text(encoding="utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src &#39;none&#39;; ")
    for tag in ("style", "script"):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy


def test_the_script_is_short():
    from importlib.resources import files

    text = files("fedcsa.report").joinpath("script.js").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("kind", ["small", "nasty names"])
def test_the_same_result_gives_the_same_bytes(results, kind, tmp_path):
    again = write_report(results(kind), tmp_path / "again.html")
    assert again.read_bytes() == (results(kind) / "report.html").read_bytes()


# The numbers --------------------------------------------------------------------------------


def test_risk_and_yardsticks_are_those_of_the_result(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    rows = {row[0]: row[1:] for row in tables["Risk at the target"][1:]}
    assert set(rows) == {"this estimate", "naive", "fediwe", "feddae", "constant predictor"}
    risk, interval = rows["this estimate"][:2]
    assert close(risk, content["target_risk"])
    for shown, value in zip(interval.split(" to "), content["interval"], strict=True):
        assert close(shown, value)
    for method in ("naive", "fediwe", "feddae"):
        assert close(rows[method][0], content["estimates"][method]["target_risk"])
    assert close(rows["constant predictor"][0], content["constant_risks"]["guarded"])


def test_a_fifth_method_stands_in_table_and_chart(making, tmp_path):
    found = making.adaptation_of("ab", ["x"], fedle_weights={"a": 1.0, "b": 3.0})
    save_result(found, tmp_path / "r")
    write_report(tmp_path / "r")
    page, content = page_of(tmp_path / "r"), content_of(tmp_path / "r")
    rows = {row[0]: row[1:] for row in page.tables["Risk at the target"][1:]}
    assert close(rows["fedle"][0], content["estimates"]["fedle"]["target_risk"])
    html = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert f"fedle: {rows['fedle'][0]}" in html


@pytest.mark.parametrize("backtest", [False, True])
def test_sources_that_disagree_have_three_further_readings(making, tmp_path, backtest):
    found = making.adaptation_of("ab", ["x"], status="sources disagree")
    if backtest:  # one that fails lowers the verdict; the readings are wanted all the more
        rows = tuple(BacktestRow(n, 40, "ok", 1.0, 0.8, 1.3, 9.0, 0.1, 1.0) for n in "abcd")
        found = found.with_backtest(Backtest(rows, 0.95))
        assert found.status == "back-test failed"
    by_rows = dataclasses.replace(found.by_rows, risk=1.7)
    save_result(dataclasses.replace(found, by_rows=by_rows), tmp_path / "r")
    write_report(tmp_path / "r")
    table = page_of(tmp_path / "r").tables["Risk at the target"]
    assert [row[:2] for row in table[2:5]] == [
        ["if p(y|x) is shared", "0.900"],
        ["if p(y|x) differs by site", "1.40"],
        ["weighted by rows", "1.70"],
    ]


def test_every_candidate_has_its_risk_and_standard_error(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    found = content["estimates"]["guarded"]
    numbers = {
        words.candidate(content["plan"]["candidates"][index]): (risk, error)
        for index, risk, error in zip(
            content["kept"], found["risk"], found["standard_errors"], strict=True
        )
    }
    rows = tables["Risk of every candidate"][1:]
    assert len(rows) == len(numbers) == 15
    for name, risk, error in rows:
        assert close(risk, numbers[name][0])
        assert close(error, numbers[name][1])
    assert rows == sorted(rows, key=lambda row: numbers[row[0]][0])


@pytest.mark.parametrize("kind", ["small", "100 sources"])
def test_every_source_has_its_numbers_the_heaviest_first(results, kind):
    content, tables = content_of(results(kind)), page_of(results(kind)).tables
    rows = tables["Sources"][1:]
    assert len(rows) == len(content["reports"])
    shares = []
    for name, weight, n_rows, effective, ratio, imbalance, _ in rows:
        report = content["reports"][name]
        shares.append(content["source_weights"][name])
        after = report["difference_after"]
        assert close(weight, shares[-1])
        assert as_number(n_rows) == report["n_rows"]
        assert close(effective, report["effective_rows"])
        assert close(ratio, report["ratio_mean"])
        assert close(imbalance, sum(x * x for x in after) / len(after))
    assert shares == sorted(shares, reverse=True)


def test_balance_shows_the_largest_differences_and_says_what_is_left_out(results):
    content, page = content_of(results("300 features")), page_of(results("300 features"))
    head, *rows = page.tables["Standardised mean differences"]
    assert "280 features not shown" in page.text
    assert len(rows) == 20
    everything = page.tables["Every feature at every source"][1:]
    assert len(everything) == 900
    for source, feature, before, after in everything[::7]:
        index = content["plan"]["features"].index(feature)
        assert close(before, content["reports"][source]["difference_before"][index])
        assert close(after, content["reports"][source]["difference_after"][index])
    features = content["plan"]["features"]
    largest = {
        name: max(abs(r["difference_before"][i]) for r in content["reports"].values())
        for i, name in enumerate(features)
    }
    assert [row[0] for row in rows] == sorted(largest, key=lambda name: -largest[name])[:20]
    sources = [text.removesuffix(", before") for text in head[1::2]]
    for feature, *numbers in rows:
        index = features.index(feature)
        for position, source in enumerate(sources):
            report = content["reports"][source]
            assert close(numbers[2 * position], report["difference_before"][index])
            assert close(numbers[2 * position + 1], report["difference_after"][index])


def test_the_back_test_is_that_of_the_result(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    kept = [row[6] == "kept" for row in tables["Each source as the target"][1:]]
    assert f"allowed for: {sum(kept)} of {len(kept)} promises" in page_of(results("small")).text
    rows = {row[0]: row for row in tables["Each source as the target"][1:]}
    assert set(rows) == {row["source"] for row in content["backtest"]["rows"]}
    for item in content["backtest"]["rows"]:
        row = rows[item["source"]]
        realised, _, slack = row[4].partition(" ± ")
        for shown, key in ((row[2], "promised"), (realised, "realised"), (row[5], "reference")):
            assert (shown == "—") if item[key] is None else close(shown, item[key])
        assert close(slack, 1.959964 * item["standard_error"])


def test_every_field_that_left_is_listed_with_its_size(results):
    folder = results("small")
    tables = page_of(folder).tables
    for position, site in enumerate(content_of(folder)["sites"]):
        lines = (folder / "ledgers" / f"{position}.jsonl").read_text(encoding="utf-8").splitlines()
        sent = {entry["sha256"]: entry for entry in map(json.loads, lines)}
        expected = [
            [entry["message"], item["name"], words.count(item["n_bytes"])]
            for entry in sent.values()
            for item in entry["fields"]
        ]
        rows = tables[f"Every field that left {site}"][1:]
        assert [[row[0], row[1], row[3]] for row in rows] == expected
        hashed = dict(tables["Hashes of the ledgers"][1:])[site]
        whole = (folder / "ledgers" / f"{position}.jsonl").read_bytes()
        assert hashed == hashlib.sha256(whole).hexdigest()


def test_outcomes_that_arrived_stand_beside_the_promise_and_lower_the_verdict(copied):
    folder = copied("small")
    told = {
        "realised": 1.2345, "lower": 1.1, "upper": 1.4, "n_rows": 90, "promised": 1.0,
        "promised_lower": 0.8, "promised_upper": 1.05, "level": 0.95, "status": "ok",
        "conclusion": "worse than promised", "moved": True,
    }  # fmt: skip
    (folder / "reconciliation.json").write_text(json.dumps(told), encoding="utf-8")
    write_report(folder)
    page = page_of(folder)
    rows = {row[0]: row[1:] for row in page.tables["Risk at the target"][1:]}
    assert rows["realised"][:2] == ["1.23", "1.10 to 1.40"]
    assert "90 rows" in rows["realised"][2]
    assert "Do not use it" in page.text
    assert "worse than promised" in page.text


# Other results ------------------------------------------------------------------------------


def test_an_older_result_without_standard_errors_has_a_report(copied):
    folder = copied("small")
    edit(folder, lambda c: [item.pop("standard_errors") for item in c["estimates"].values()])
    write_report(folder)
    page = page_of(folder)
    assert {row[2] for row in page.tables["Risk of every candidate"][1:]} == {"—"}
    assert "The band is" not in page.text


def test_whoever_submitted_a_study_has_its_report_without_models_and_ledgers(copied):
    folder = copied("small")
    shutil.rmtree(folder / "models")
    shutil.rmtree(folder / "ledgers")
    fates = {"north": "answered", "east <b>": "refused: min_fold_rows", "far": "missing"}
    told = {"study": "s", "outcome": "done", "sources": fates}
    (folder / "federation.json").write_text(json.dumps(told), encoding="utf-8")
    write_report(folder)
    page = page_of(folder)
    rows = {row[0]: row[-1] for row in page.tables["Sources"][1:]}
    assert rows["east <b>"] == "refused: min_fold_rows"
    assert rows["far"] == "missing"
    assert "This folder holds no ledger" in page.text


@pytest.mark.parametrize(
    ("outcome", "says"),
    [("done", "keeps its result to itself"), ("min_sources", "There is no model")],
)
def test_a_target_may_keep_its_result(tmp_path, outcome, says):
    told = {"study": "s", "outcome": outcome, "sources": {"north": "answered"}}
    (tmp_path / "federation.json").write_text(json.dumps(told), encoding="utf-8")
    write_report(tmp_path)
    assert says in page_of(tmp_path).text


def test_a_study_without_overlap_shows_the_evidence_of_every_source(making, tmp_path):
    whole = making.adaptation_of(["a", "b"], ["age", "bmi"], far=["a", "b"])
    from fedcsa.roles.ending import Ending

    ended = Ending(whole.plan, "no_overlap", "Nobody is near.", 40, whole.reports, whole.findings)
    save_result(ended, tmp_path / "r")
    write_report(tmp_path / "r")
    page = page_of(tmp_path / "r")
    assert "There is no model. Nobody is near." in page.text
    assert [row[1] for row in page.tables["Sources"][1:]] == ["—", "—"]
    assert "Standardised mean differences" in page.tables
    with pytest.raises(ResultError, match="ended without one"):
        load_result(tmp_path / "r")


@pytest.mark.parametrize("loss", ["absolute", "own:mine"])
@pytest.mark.parametrize("kind", ["bound", "none"])
def test_a_bound_or_no_interval_is_said(making, tmp_path, loss, kind):
    save_result(making.adaptation_of("ab", ["x"], kind=kind, loss=loss), tmp_path / "r")
    write_report(tmp_path / "r")
    text = page_of(tmp_path / "r").text
    assert ("at most about 0.912" in text) == (kind == "bound")
    assert ("There is no interval" in text) == (kind == "none")
    assert words.loss(loss)[0] in text
    assert "square root" not in text


def test_a_method_of_the_paper_has_a_report_with_a_band(making, tmp_path):
    found = making.adaptation_of("ab", ["x"], method="feddae", scheme="cross-fit")
    save_result(dataclasses.replace(found, risk=None, by_rows=None), tmp_path / "r")
    write_report(tmp_path / "r")
    text = page_of(tmp_path / "r").text
    assert "Use it with care" in text
    assert "gives neither an interval nor a verdict" in text
    assert "The band is one standard error" in text


def test_findings_about_a_source_that_was_left_out_stand_apart(making, tmp_path):
    from fedcsa.findings import Finding

    about = {"far": "no-overlap", "near": "ratio-mean-off", "": "weak-overlap"}
    findings = [Finding(code, source) for source, code in about.items()]
    save_result(
        making.adaptation_of(["far", "near"], ["x"], far=["far"], findings=findings), tmp_path / "r"
    )
    html = write_report(tmp_path / "r").read_text(encoding="utf-8")
    verdict = html[html.index('<section id="verdict"') : html.index("<nav")]
    counted, title, apart = verdict.partition(
        "About one source that was left out, with less than 1% of the weight: far"
    )
    assert title
    for source, code in about.items():
        assert (code in apart) == (source == "far")
        assert (code in counted) == (source != "far")


def test_a_study_without_a_model_left_nobody_out(making, tmp_path):
    from fedcsa.findings import Finding
    from fedcsa.roles.ending import Ending

    found = (Finding("no-overlap", "far"),)
    ended = Ending(making.plan_of(["x"]), "no_overlap", "Nobody is near.", 40, {}, found)
    save_result(ended, tmp_path / "r")
    write_report(tmp_path / "r")
    assert "left out" not in page_of(tmp_path / "r").text


def test_a_sentence_that_begins_with_a_formula_leaves_it_alone(results):
    text = page_of(results("every finding")).text
    assert "What to do: p(y|x) is probably not shared" in text
    assert "P(y|x)" not in text


def test_the_edge_of_the_grid_is_marked(making, tmp_path):
    from fedcsa.findings import Finding

    edge = Finding("grid-edge", evidence={"parameter": "penalty", "value": 1.0})
    for findings in ((), (edge,)):
        save_result(making.adaptation_of("ab", ["x"], findings=findings), tmp_path / "r")
        html = write_report(tmp_path / "r").read_text(encoding="utf-8")
        assert ("at the edge of the grid</text>" in html) == bool(findings)


def with_risk(value):
    def change(content):
        content.update(target_risk=value, interval=[value * 0.5, value * 2.0])
        content["estimates"]["guarded"]["risk"] = [value] * 3

    return change


def with_difference(value):
    def change(content):
        for report in content["reports"].values():
            report.update(difference_before=[value], difference_after=[value])

    return change


def with_backtest(value):
    def change(content):
        for row in content["backtest"]["rows"]:
            row.update(promised=value, realised=value, lower=value, upper=value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        *map(with_risk, (1e300, 1e-300, 0.0, -5.0)),
        *map(with_difference, (1e300, 0.0)),
        *map(with_backtest, (1e200, 0.0, -1.0, None)),
    ],
)
def test_numbers_however_strange_are_drawn(copied, change):
    folder = copied("every finding")
    edit(folder, change)
    write_report(folder)
    assert (folder / "report.html").read_text(encoding="utf-8").count('class="chart"') == 5


# What goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["estimates", "reports", "plan", "findings", "interval"])
def test_a_damaged_result_is_refused_by_name(copied, key):
    folder = copied("small")
    edit(folder, lambda content: content.pop(key))
    with pytest.raises(ResultError, match=r"damaged.*Run the study again"):
        write_report(folder)


def test_a_missing_ledger_is_named(copied):
    folder = copied("small")
    (folder / "ledgers" / "1.jsonl").unlink()
    with pytest.raises(ResultError, match="a ledger is missing or was changed"):
        write_report(folder)


def test_a_folder_without_a_result_is_refused(tmp_path):
    with pytest.raises(ResultError, match=r"must hold adaptation\.json"):
        write_report(tmp_path)


def test_another_format_is_refused(copied):
    folder = copied("small")
    edit(folder, lambda content: content.update(format=99))
    with pytest.raises(ResultError, match="must be of format 1"):
        write_report(folder)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_the_extra_it_is_named(results, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*fedcsa\[report\]"):
        write_report(results("small"))
