"""The report is one closed file whose numbers are those of the result, to the digits shown."""

import base64
import hashlib
import json
import math
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import pytest

from fedcsa import words
from fedcsa.answer import result_tables
from fedcsa.answer.page import write_report
from fedcsa.answer.store import load_result, read_json, restore, save_history, save_result
from fedcsa.answer.updated import ShownUpdate
from fedcsa.answer.view import view_of
from fedcsa.errors import ResultError
from fedcsa.outcomes import History
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.target.verdict import Verdict
from fedcsa.words import candidate_text, interval, number, percent

MOST_BYTES = 2_000_000
KINDS = (
    "small", "one source", "two sources", "paper", "no overlap", "100 sources", "300 features",
    "every finding", "nasty names", "all refused", "two classes",
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


def test_the_kinds_of_this_file_are_those_that_are_made(making):
    assert KINDS == making.KINDS


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
    chosen = candidate_text(content_of(tmp_path / "r")["candidate"])
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

    text = files("fedcsa.answer").joinpath("script.js").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("kind", ["small", "nasty names"])
def test_the_same_result_gives_the_same_bytes(results, kind, tmp_path):
    again = write_report(results(kind), tmp_path / "again.html")
    assert again.read_bytes() == (results(kind) / "report.html").read_bytes()


# The numbers --------------------------------------------------------------------------------


def test_the_paper_s_methods_stand_beside_the_default_with_their_weights(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    rows = {row[0]: row[1:] for row in tables["Estimates by method"][1:]}
    titles = {
        "validated": "validated",
        "naive": "naive, rows unweighted",
        "feddae": "feddae, on the table's weights",
    }
    assert list(rows) == list(titles.values())
    for method, told in content["estimates"].items():
        weights = ", ".join(f"{n} {percent(w)}" for n, w in told["source_weights"].items())
        assert rows[titles[method]] == [
            number(math.sqrt(told["target_risk"])), candidate_text(told["candidate"]), weights,
        ]  # fmt: skip


def test_every_candidate_has_its_risk_and_standard_error(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    found = content["estimates"]["validated"]
    triples = [
        (candidate_text(content["plan"]["candidates"][index]), risk, error)
        for index, risk, error in zip(
            content["kept"], found["risk"], found["standard_errors"], strict=True
        )
    ]
    assert len(triples) == 15
    assert tables["Risk of every candidate"][0][1] == "RMSE"
    assert tables["Risk of every candidate"][1:] == [
        [name, number(risk**0.5), number(((risk + error) ** 0.5 - (risk - error) ** 0.5) / 2.0)]
        for name, risk, error in sorted(triples, key=lambda triple: triple[1])
    ]


@pytest.mark.parametrize("kind", ["small", "100 sources", "no overlap", "paper"])
def test_every_source_has_its_numbers_the_heaviest_first(results, kind):
    content, tables = content_of(results(kind)), page_of(results(kind)).tables
    rows = tables["Sources"][1:]
    assert len(rows) == len(content["reports"])
    shares = []
    for name, found, weight, n_rows, effective, imbalance in rows:
        report, share = content["reports"][name], content["source_weights"][name]
        shares.append(share)
        iota = sum(x * x for x in report["difference_after"]) / len(report["difference_after"])
        near = report["effective_rows"] >= 10.0 and iota <= 0.06
        assert weight == percent(share)
        assert n_rows == f"{report['n_rows']:,}"
        assert effective == number(report["effective_rows"])
        assert imbalance == number(iota)
        examined = content["examinations"].get(name)
        if not near:
            assert found == "does not reach the target"
        elif examined is None:
            assert found == "—"
        else:
            rmse, half = examined["risk"] ** 0.5, 0.979982 * math.sqrt(examined["risk_variance"])
            ends = rmse * math.exp(-half), rmse * math.exp(half)
            assert found == f"{number(rmse)} ({number(ends[0])} to {number(ends[1])})"
    assert shares == sorted(shares, reverse=True)


def test_balance_shows_every_difference_and_says_what_the_chart_leaves_out(results):
    content, page = content_of(results("300 features")), page_of(results("300 features"))
    assert "leaves out 280 features" in page.text
    rows = page.tables["Standardised mean differences"][1:]
    features, reports = content["plan"]["features"], content["reports"]
    assert sorted(tuple(row[:2]) for row in rows) == sorted(
        (s, f) for s in reports for f in features
    )
    for source, feature, before, after in rows[::7]:
        index = features.index(feature)
        assert before == number(reports[source]["difference_before"][index])
        assert after == number(reports[source]["difference_after"][index])


def test_of_very_many_differences_the_table_has_those_of_the_chart(results, monkeypatch):
    monkeypatch.setattr(result_tables, "MOST_LISTED", 899)
    content, view = content_of(results("300 features")), view_of(results("300 features"))
    rows = result_tables.balance_table(view).rows
    largest = {
        name: max(abs(r["difference_before"][i]) for r in content["reports"].values())
        for i, name in enumerate(content["plan"]["features"])
    }
    shown = sorted(largest, key=lambda name: -largest[name])[:20]
    assert [row[1] for row in rows] == 3 * shown
    assert {row[0] for row in rows} == set(content["reports"])


ROOTS = ("promised", "lower", "upper", "realised", "reference")


def test_the_back_test_is_that_of_the_result(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    rows = {row[0]: row[1:] for row in tables["Each source as the target: RMSE"][1:]}
    assert set(rows) == {row["source"] for row in content["backtest"]["rows"]}
    for item in content["backtest"]["rows"]:
        root = {name: number(item[name] ** 0.5) for name in ROOTS}
        chance = 1.959963984540054 * item["standard_error"]
        low, high = (max(item["realised"] + s * chance, 0.0) ** 0.5 for s in (-1, 1))
        assert rows[item["source"]][:5] == [
            str(item["n_rows"]), root["promised"], f"{root['lower']} to {root['upper']}",
            f"{root['realised']} ± {number((high - low) / 2)}", root["reference"],
        ]  # fmt: skip
        assert rows[item["source"]][-1] == item["status"]


@pytest.mark.parametrize(
    ("realised", "outcome"),
    [(1.0, "kept"), (1.6, "broken"), (9.0, "far off"), (None, "not judged")],
)
def test_a_promise_is_called_kept_broken_or_far_off(making, tmp_path, realised, outcome):
    row = BacktestRow("a", 40, "use it", 1.0, 0.8, 1.3, realised, 0.1, 1.0)
    save_result(making.adaptation_of("ab", ["x"], backtest=Backtest((row,), 0.95)), tmp_path / "r")
    write_report(tmp_path / "r")
    page = page_of(tmp_path / "r")
    assert page.tables["Each source as the target: RMSE"][1][-2] == outcome


def test_the_table_that_the_target_told_is_there(results):
    content, tables = content_of(results("small")), page_of(results("small")).tables
    told = content["table"]
    [caption] = [name for name in tables if name.startswith("Table 1 of the target")]
    assert caption.endswith(f": {told['n_rows']} rows")
    assert tables[caption][1:] == [
        [name, "mean", number(mean), number(sd)]
        for name, mean, sd in zip(told["features"], told["mean"], told["sd"], strict=True)
    ]


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


@pytest.mark.parametrize(
    ("alone", "advice", "words"),
    [((1.0, 0.9, 1.1), "use", "Use it"), ((9.0, 8.0, 10.0), "no", "Do not use it")],
)
def test_once_outcomes_arrive_the_first_screen_leads_with_them(copied, make, alone, advice, words):
    folder = copied("small")
    found = make.updated(90, alone=alone, verdict=Verdict(advice, "outcomes say so"))
    adaptation = restore(read_json(folder / "adaptation.json"), folder)
    save_history(History(last=found), folder, adaptation)
    html = write_report(folder).read_text(encoding="utf-8")
    [(shown, name, lead)] = re.findall(
        r'</span> ([^<]*)</h2>\s*<p class="(\w+)">([^<]*)</p>', html
    )[:1]
    assert (shown, name) == (words, "realised")
    assert unescape(lead) == f"{ShownUpdate(found, adaptation.plan).sentence}."
    risk, *ends = (x**0.5 for x in alone)
    roots = f"{number(risk)} ({interval(*ends)})"
    assert f"outcomes here: {roots}" in html  # the forest plot has it too
    assert f"with 90 outcomes: {roots}" in html  # and the chart over time


# Other results ------------------------------------------------------------------------------


def test_whoever_submitted_a_study_has_its_report_without_models_and_ledgers(copied):
    folder = copied("small")
    shutil.rmtree(folder / "models")
    shutil.rmtree(folder / "ledgers")
    fates = {"north": "answered", "east <b>": "refused: min_fold_rows", "far": "missing"}
    told = {"study": "s", "outcome": "done", "sources": fates}
    (folder / "federation.json").write_text(json.dumps(told), encoding="utf-8")
    write_report(folder)
    page = page_of(folder)
    rows = {row[0]: row[1] for row in page.tables["Sources"][1:]}
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
    ended = making.without_model(whole.plan, reports=whole.reports, findings=whole.findings)
    save_result(ended, tmp_path / "r")
    write_report(tmp_path / "r")
    page = page_of(tmp_path / "r")
    assert "There is no model. Nobody is near." in page.text
    assert [row[2] for row in page.tables["Sources"][1:]] == ["—", "—"]
    assert "Standardised mean differences" in page.tables
    with pytest.raises(ResultError, match="ended without one"):
        load_result(tmp_path / "r")


def test_findings_about_a_source_that_was_left_out_stand_apart(making, tmp_path):
    from fedcsa.findings import Finding

    about = {"far": "no-overlap", "near": "heavy-row", "": "grid-edge"}
    findings = [Finding(code, source) for source, code in about.items()]
    save_result(
        making.adaptation_of(["far", "near"], ["x"], far=["far"], findings=findings), tmp_path / "r"
    )
    html = write_report(tmp_path / "r").read_text(encoding="utf-8")
    section = html[html.index('<section id="findings"') : html.index('<section id="balance"')]
    counted, title, apart = section.partition(
        "About one source that was left out, with less than 1 % of the weight: far"
    )
    assert title
    for source, code in about.items():
        assert (code in apart) == (source == "far")
        assert (code in counted) == (source != "far")


def test_a_study_without_a_model_left_nobody_out(making, tmp_path):
    from fedcsa.findings import Finding

    found = (Finding("no-overlap", "far"),)
    ended = making.without_model(making.plan_of(["x"]), findings=found)
    save_result(ended, tmp_path / "r")
    write_report(tmp_path / "r")
    assert "that was left out" not in page_of(tmp_path / "r").text


def test_a_sentence_that_begins_with_a_formula_leaves_it_alone(results):
    assert words.sentence("p(y|x) moved") == "p(y|x) moved."
    assert "P(y|x)" not in page_of(results("every finding")).text


def test_the_edge_of_the_grid_is_marked(making, tmp_path):
    from fedcsa.findings import Finding

    edge = Finding("grid-edge", evidence={"parameter": "penalty", "value": 1.0})
    for findings in ((), (edge,)):
        save_result(making.adaptation_of("ab", ["x"], findings=findings), tmp_path / "r")
        html = write_report(tmp_path / "r").read_text(encoding="utf-8")
        assert ("at the edge of the grid</text>" in html) == bool(findings)


def with_promise(value):
    return lambda c: c["promise"].update(risk=value, lower=value / 2.0, upper=value * 2.0)


def with_variance(value):
    return lambda c: [item.update(risk_variance=value) for item in c["examinations"].values()]


def with_estimate(value):
    return lambda c: c["estimates"]["validated"].update(risk=[value] * 3)


def with_backtest(value):
    def change(content):
        for row in content["backtest"]["rows"]:
            row.update(promised=value, realised=value, lower=value, upper=value)
        content["verdict"]["advice"] = "care"  # the back-test no longer fails

    return change


@pytest.mark.parametrize(
    "change",
    [
        *map(with_promise, (1e300, 1e-300, 0.0)),
        *map(with_variance, (0.0, 1e-20, 100.0, 1e9)),
        *map(with_estimate, (1e300, 1e-300, 0.0, -5.0)),
        *map(with_backtest, (1e200, 0.0, None)),
    ],
)
def test_numbers_however_strange_are_drawn(copied, change):
    folder = copied("every finding")
    edit(folder, change)
    write_report(folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert len(re.findall('class="chart( small)?"', html)) == 5


# What goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["estimates", "reports", "plan", "findings", "promise"])
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
    with pytest.raises(ResultError, match="is not of format 3"):
        write_report(folder)
