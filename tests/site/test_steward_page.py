"""The steward's page: what it shows of the log, and which decisions count."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version

import pytest
from tests.loopback.test_pages import Browser

from fedcsa.cli.common import Output
from fedcsa.cli.site_command import _run_engine
from fedcsa.errors import LedgerError, ProtocolError, StudyError
from fedcsa.loopback.pages import Moved, Visit, rendered
from fedcsa.messages.messages import RiskReport
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import LOG, SiteLog, open_log
from fedcsa.site.preview import looked
from fedcsa.site.state import Status
from fedcsa.site.steward_page import Previews, StewardPage

NASTY = "<b>\"&'\x1b[31m\u202e\x00</b>"
STUDY = """name = "stroke"
[outcome]
name = "<i>death</i>"
[features]
"<b>age</b>" = "number"
[model]
name = "ridge"
[target]
table = "at the site"
[sources.abbey]
table = "at the site"
"""
FOUND = {
    "study": "", "role": "source", "certificate": None, "max_membership_auc": 0.6,
    "refusals": [f"max_briefs: {NASTY}"], "approval": True, "numbers_about_rows": 0, "search": {},
    "messages": [
        {
            "message": "risk-report", "to": "target", "exact": exact, "sha256": "0" * 64,
            "fields": [
                {"name": "risk", "numbers": "3 × 2", "meaning": "weighted mean loss",
                 "computed_from": "rows", "value": [[0.25, 7.125]] * 3},
                {"name": "source", "numbers": "1", "meaning": "name", "computed_from": "no row",
                 "value": NASTY},
            ],
        }
        for exact in (True, False)
    ],
}  # fmt: skip


class Site:
    """A site's folder with a study that waits, and a page on it."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "site.toml"
        self.file.write_text('table = "table.csv"\napprove = true\n')
        (folder / "table.csv").write_text("age\n1\n")
        self.log = SiteLog(folder / "state")
        self.id = AgreedStudy(STUDY).id
        self.wait("risk")
        self.running = True
        self.page = self.another_page()

    def another_page(self, found=FOUND):
        open_log.cache_clear()  # as in another process
        page = StewardPage(self.file, "abbey", lambda: self.running, "ada")
        if found != "real":
            page._previews.look = lambda _key, _text: found
        return page

    def wait(self, phase, request="1" * 64):
        about = {"target": f"new {NASTY}", "lead": f"lead {NASTY}", "time": self.log.time}
        agreed = self.log.keep(STUDY.encode())
        self.log.append(
            "waiting", study="stroke", phase=phase, id=self.id, site="abbey", request=request,
            agreed=agreed, **about,
        )  # fmt: skip

    def show(self, address="GET /study", page=None, **query):
        query = query or {"id": self.id}
        shown = (page or self.page).views[address](Visit(query))
        return rendered(shown, "/base", "secret")

    def form(self, page=None):
        """What a person who looks at the study now sends along."""
        shown = (page or self.page).views["GET /study"](Visit({"id": self.id}))
        study = shown.facts["study"]
        return {"id": study.id, "shown": study.key, "seen": study.seen, "who": "ada"}

    def decide(self, form, decision, page=None, **more):
        form = {**form, "decision": decision, **more}
        return (page or self.page).views["POST /decide"](Visit({}, form))


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_the_first_page_says_what_waits_from_whom_since_when(site):
    text = site.show("GET /")
    for word in ("stroke", "lead &lt;b&gt;", "new &lt;b&gt;", "Waiting since", " ago"):
        assert word in text
    assert "<title>(1) abbey" in text
    assert "Asked last" not in text
    site.log.append("asked", nonce="1", study=site.id, phase="risk", time="2031-05-06T07:08:09")
    for address in ("GET /", "GET /study"):
        assert "Asked last</dt><dd>2031-05-06 07:08" in site.show(address)
    site.decide(site.form(), "approved")
    text = site.show("GET /")
    assert "<title>abbey" in text
    assert "approved</strong> by ada" in text


@pytest.mark.parametrize(
    ("running", "line", "told"),
    [
        (False, "connected, waiting for a study", "not running"),
        (True, "connected, waiting for a study", "running and has connected"),
        (True, "connecting to server:8002", "connecting to server:8002."),
        (True, None, "running and connecting."),
    ],
)
def test_the_first_page_says_whether_the_site_runs(site, running, line, told):
    site.running = running
    if line:
        Status(site.folder / "state").say(line)
    Status(site.folder / "state").say(f"phase 1 {NASTY}", site.id)
    text = site.show("GET /")
    assert told in text
    assert "stroke: phase 1 &lt;b&gt;" in text


def test_a_site_that_never_asks_says_so(site):
    site.decide(site.form(), "refused", reason="no")
    assert "When a study comes, it waits here" in site.show("GET /")
    site.file.write_text('table = "table.csv"\n')
    assert "its rules alone decide" in site.show("GET /")


def test_a_study_is_shown_with_what_would_leave_and_what_was_agreed(site):
    text = site.show()
    for word in (
        "&lt;b&gt;age&lt;/b&gt; (number)", "&lt;i&gt;death&lt;/i&gt;", "ridge",
        "weighted mean loss", "7.125", "max_briefs", "The very values", "not yet", ">7<",
        "name = &#34;stroke&#34;", site.id, 'value="approved"', 'value="refused"',
    ):  # fmt: skip
        assert word in text, word
    assert text.count("7.125") == 3  # of a stand-in no value is shown


@pytest.mark.parametrize("address", ["GET /", "GET /study", "GET /left"])
def test_texts_from_elsewhere_are_text(site, address):
    from fedcsa.messages.policy import LedgerEntry
    from fedcsa.site.log import Sent

    entry = LedgerEntry("abbey", f"new {NASTY}", RiskReport.name, "stroke", 9, "a" * 64, "2026", ())
    site.log.append("sent", **Sent(entry, "sent", 1).to_plain())
    site.log.append("decided", id=site.id, decision="refused", who=NASTY, reason=NASTY, time=NASTY)
    Status(site.folder / "state").say(NASTY, f"{NASTY}@0")
    text = site.show(address)
    assert "new &lt;b&gt;" in text
    assert "<b>" not in text
    assert not any(character in text for character in "\x1b\x00\u202e")


def test_a_decision_is_written_with_who_and_why(site):
    answer = site.decide(site.form(), "refused", who="  Ada  L ", reason=" not\n ours ", tell="yes")
    assert isinstance(answer, Moved)
    line = site.log.all("decided", id=site.id)[-1]
    told = {k: line[k] for k in ("decision", "who", "reason", "tell")}
    assert told == {"decision": "refused", "who": "Ada L", "reason": "not ours", "tell": True}
    text = site.show()
    assert "not ours" in text
    assert "lead &lt;b&gt;" in text  # who asked is told after the decision, too
    assert isinstance(site.decide(site.form(), "approved"), Moved)
    assert site.log.decision(site.id) == "approved"
    assert site.log.all("decided", id=site.id)[-1]["tell"] is False


def change_question(site):
    site.wait("model", "2" * 64)


def change_rules(site):
    site.file.write_text(site.file.read_text() + "[policy]\nmin_fold_rows = 2\n")


def change_table(site):
    (site.folder / "table.csv").write_text("age\n1\n2\n")


@pytest.mark.parametrize("change", [change_question, change_rules, change_table])
@pytest.mark.parametrize("decision", ["approved", "refused"])
def test_only_what_was_shown_can_be_decided_on(site, change, decision):
    form = site.form()
    change(site)
    if change is change_question:
        del form["seen"]  # nobody gets round it by leaving a part out
    answer = site.decide(form, decision, reason="a reason that was written before")
    assert (answer.status, "has changed since you looked" in answer.facts["notice"]) == (409, True)
    assert site.log.decision(site.id) == ""
    assert answer.facts["study"].key != form["shown"]
    assert "a reason that was written before" in rendered(answer, "", "")
    assert isinstance(site.decide(site.form(), decision, reason="new"), Moved)


@pytest.mark.parametrize("second", ["approved", "refused"])
def test_of_two_stewards_the_second_hears_of_the_first(site, second):
    other = site.another_page()
    forms = site.form(), site.form(other)
    site.decide(forms[0], "approved", who="Ada")
    answer = site.decide(forms[1], second, page=other, who="Bob", reason="no")
    assert answer.status == 409
    assert "approved meanwhile by Ada, at 20" in answer.facts["notice"]
    assert [line["who"] for line in site.log.all("decided", id=site.id)] == ["Ada"]
    assert isinstance(site.decide(site.form(other), "refused", other, reason="no"), Moved)


@pytest.mark.parametrize("found", [None, {"error": NASTY}])
def test_nothing_is_approved_that_could_not_be_shown(site, found):
    page = site.another_page(found)
    text = site.show(page=page)
    assert 'value="approved"' not in text
    assert 'value="refused"' in text
    assert "<b>" not in text
    answer = site.decide(site.form(page), "approved", page=page)
    assert (answer.status, "not known yet" in answer.facts["notice"]) == (409, True)
    assert isinstance(site.decide(site.form(page), "refused", page, reason="unseen"), Moved)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"who": " "}, "your name"), ({"reason": " "}, "a reason"),
        ({"reason": "x" * 201}, "at most 200"), ({"who": "x" * 201}, "at most 200"),
        ({"reason": NASTY}, "printable"), ({"decision": "maybe"}, "decision"),
        ({"decision": ""}, "decision"),
    ],
)  # fmt: skip
def test_a_form_that_is_not_right_decides_nothing(site, change, why):
    form = {**site.form(), "reason": "r", **change}
    answer = site.decide(form, form.get("decision", "refused"))
    assert (answer.status, why in answer.facts["notice"]) == (409, True)
    assert site.log.all("decided", id=site.id) == []


@pytest.mark.parametrize("missing", ["id", "shown", "decision"])
def test_a_form_with_a_part_missing_decides_nothing(site, missing):
    form = {**site.form(), "decision": "approved", "reason": "r"}
    del form[missing]
    try:
        answer = site.page.views["POST /decide"](Visit({}, form))
        assert answer.status == 409
    except StudyError as error:
        assert missing == "id" and "No study" in str(error)  # noqa: PT017, PT018
    assert site.log.all("decided", id=site.id) == []


def test_a_study_that_nobody_knows_and_a_log_that_was_touched_are_named(site):
    with pytest.raises(StudyError, match="No study of this id"):
        site.show(id="other@0")
    path = site.folder / "state" / LOG
    path.write_bytes(path.read_bytes().replace(b"stroke", b"strike"))
    for address in ("GET /", "GET /study", "GET /left"):
        with pytest.raises(LedgerError, match="was changed"):
            site.show(address, page=site.another_page())


def test_a_preview_that_failed_is_computed_again_if_asked(site):
    page, forgotten = site.another_page({"error": "no table"}), []
    page._previews.forget = forgotten.append
    assert "/base/again" in site.show(page=page)
    answer = page.views["POST /again"](Visit({}, {"id": site.id}))
    assert answer.address.startswith("/study?id=stroke%40")
    assert forgotten == [site.form(page)["shown"]]


def test_a_field_of_many_values_is_cut(site):
    field = {**FOUND["messages"][0]["fields"][0], "value": [1.5] * 100_000}
    found = {**FOUND, "messages": [{**FOUND["messages"][0], "fields": [field]}]}
    text = site.show(page=site.another_page(found))
    assert len(text) < 30_000
    assert "more characters" in text


def test_lines_that_an_older_version_wrote_are_shown(site):
    old = {"study": "old", "target": "new", "phase": "risk", "site": "abbey", "request": "1" * 64}
    site.log.append("waiting", id="old@1", **old)
    site.log.append("decided", id="older@1", decision="approved", time="2026-01-01T00:00:00")
    text = site.show("GET /")
    assert "not known" in text
    assert "older" in text
    for study in ("old@1", "older@1"):
        assert 'value="approved"' not in site.show(id=study)  # what was agreed is not known


def test_an_approved_study_can_be_refused_and_shows_what_left(site):
    assert "Nothing about rows leaves before you approve." in site.show()
    site.decide(site.form(), "approved")
    text = site.show()
    assert 'value="approved"' not in text
    assert 'value="refused"' in text
    assert "What has left, has left" in text


# Previews ------------------------------------------------------------------------------------


def until(previews, key, text):
    for _ in range(600):
        found = previews.look(key, text)
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("no preview in 30 s")


def test_a_preview_is_computed_once_beside_the_page_and_ends_with_it(site):
    previews = Previews(site.file)
    assert previews.look("a", STUDY) is None
    child = previews._child
    assert previews.look("b", STUDY) is None  # one at a time
    assert previews._child is child
    assert "error" in until(previews, "a", STUDY)  # its table has no such column
    assert previews._child is None
    assert previews.look("a", STUDY)["error"]
    previews.forget("a")
    assert previews.look("a", STUDY) is None
    child = previews._child
    previews.end()
    assert child.poll() is not None
    previews.end()


def test_a_preview_that_fails_is_told_without_a_value(site, monkeypatch):
    assert "column" in looked(STUDY, str(site.file))["error"]

    def fail(*_):
        raise ZeroDivisionError("a cell")

    monkeypatch.setattr("fedcsa.site.preview.preview", fail)
    assert looked(STUDY, str(site.file)) == {"error": "The preview failed (ZeroDivisionError)."}
    previews = Previews(site.file)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert until(previews, "a", STUDY)["error"] == "The preview ended with code 1."


# The commands --------------------------------------------------------------------------------


@pytest.fixture
def kit(site):
    folder = site.folder / "kit"
    folder.mkdir()
    about = {
        "federation": "demo", "participant": "abbey", "role": "source", "host": "localhost",
        "port": 1, "sites": {"abbey": "source"}, "fedcsa": version("fedcsa"),
    }  # fmt: skip
    (folder / "kit.json").write_text(json.dumps(about))
    return folder


def first_page(link):
    browser = Browser(link)
    answer = browser.ask("GET", browser.link)
    browser.cookie = answer.headers["Set-Cookie"].partition(";")[0]
    return browser.ask("GET", answer.headers["Location"]).text


def test_the_page_beside_the_engine_ends_with_it(site, kit, monkeypatch, capsys):
    kits = pytest.importorskip("fedcsa.federation.flare.kits")
    seen, before = [], set(threading.enumerate())

    class Engine:
        """Runs until somebody has looked at the page."""

        pid = os.getpid()
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda *_: None  # noqa: E731

        def poll(self):
            if not seen:
                seen.append(None)  # the command has not written the process's number yet
            elif seen == [None]:
                seen.append(first_page(json.loads(capsys.readouterr().out.splitlines()[0])["page"]))
            else:
                return 1
            return None

    monkeypatch.setattr("fedcsa.federation.flare.process.EngineProcess", lambda *_: Engine())
    monkeypatch.setattr("fedcsa.federation.flare.settings.write_settings", lambda *_: None)
    about, status = kits.Kit.load(kit), Status(site.folder / "state")
    with pytest.raises(ProtocolError, match="ended by itself, with code 1"):
        _run_engine(kit, site.file, about, status, Output(json=True, quiet=False), 0)
    assert "running and connecting to localhost:1." in seen[1]
    assert set(threading.enumerate()) == before


def test_the_page_of_a_site_that_does_not_run_ends_with_its_command(site, kit):
    command = [sys.executable, "-m", "fedcsa", "site", "page", kit, "--data", site.file, "--json"]
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            link = json.loads(process.stdout.readline())["page"]
            stranger = Browser(link).ask("GET", "/").text
            assert "run: fedcsa site page KIT --data SITE" in stranger
            assert str(site.folder) not in stranger
            text = first_page(link)
            assert "not running" in text
            assert "stroke" in text
            process.send_signal(signal.SIGINT)
            assert process.wait(600) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
