"""``fedcsa study`` submit, watch, forget and id; sites in one process stand for the engine."""

import json
from datetime import datetime
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from click.testing import CliRunner

from fedcsa.cli import study_command
from fedcsa.cli.app import app
from fedcsa.cli.study_screen import StudyScreen
from fedcsa.errors import PolicyError, ProtocolError
from fedcsa.federation.kept import Kept, Shelf
from fedcsa.federation.progress import SiteProgress, StudyProgress, page_of, progress_of, running
from fedcsa.messages.codec import decode

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")


class Asked:
    """Asks sites in this process; a number in `fails` is a question that comes to nothing."""

    def __init__(self, federation, monkeypatch):
        self.federation = federation
        self.n_asked = 0
        self.fails = {}
        monkeypatch.setattr(study_command, "_asker", lambda _, screen: self.bound(screen))
        monkeypatch.setattr("fedcsa.federation.kept.time.sleep", lambda _: None)
        monkeypatch.setattr("fedcsa.federation.kept._SHORTEST", 0.0)

    def bound(self, screen):
        def ask(kept, wait):
            self.n_asked += 1
            if self.n_asked in self.fails:
                raise self.fails[self.n_asked]
            board = self.federation.attempt(kept.min_sources, wait=wait)
            plain = {**board.to_plain(), "attempts": 1}
            screen.show(running(kept, plain))
            return plain, decode(board.conclusion)

        return ask


@pytest.fixture
def kit(federation):
    folder = federation.folder / "kit"
    folder.mkdir()
    sites = {"new": "target", **dict.fromkeys(federation.names, "source")}
    about = {
        "federation": "demo", "participant": "lead@demo.org", "role": "lead",
        "host": "localhost", "port": 1, "sites": sites, "fedcsa": "0",
    }  # fmt: skip
    (folder / "kit.json").write_text(json.dumps(about))
    federation.configure("abbey", "approve = true")
    return folder


@pytest.fixture
def asked(federation, monkeypatch):
    return Asked(federation, monkeypatch)


@pytest.fixture
def study(federation, kit, monkeypatch):
    """Calls ``fedcsa study``."""
    monkeypatch.setattr("fedcsa.cli.study_screen.report_line", lambda _: "")

    def call(command, *arguments, with_kit=True):
        words = ["study", command, *map(str, arguments)]
        words += ["--kit", str(kit)] if with_kit else []
        environment = {"NO_COLOR": "1", "COLUMNS": "120", "TZ": "UTC"}
        result = CliRunner().invoke(app, words, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    monkeypatch.chdir(federation.folder)
    return call


@pytest.mark.usefixtures("asked")
def test_a_study_that_waits_is_told_kept_taken_up_and_ends_with_its_verdict(study, federation, kit):
    first = study("submit", federation.study_file, "--no-wait")
    assert first.exit_code == 8
    assert "It waits for approval at abbey. Go on with: fedcsa study watch" in first.stdout
    assert "abbey: waits for approval there, since 20" in first.stderr
    assert "birch: answered" in first.stderr
    [kept] = Shelf(kit).all()
    told = json.loads(study("watch", "--no-wait", "--json").stdout.splitlines()[-1])
    assert (told["outcome"], told["state"], told["since"]) == ("waiting", "waiting", kept.since)
    assert [site["name"] for site in told["sites"] if site["waits"]] == ["abbey"]
    federation.log("abbey").decide("small", "approved")
    lines = study("watch", "small", "--json")
    assert lines.exit_code == 0
    assert json.loads(lines.stdout.splitlines()[-1])["outcome"] == "done"
    assert (federation.folder / "study-result" / "adaptation.json").is_file()
    assert Shelf(kit).all() == []
    assert "No study waits here." in study("watch").stdout


@pytest.mark.usefixtures("asked")
def test_after_a_success_nothing_is_said_of_waiting(study, federation):
    federation.log("abbey").decide(federation.agreed.id, "approved")
    done = study("submit", federation.study_file)
    assert done.exit_code == 0
    assert "all answers are in" in done.stderr
    for word in ("It waits", "at most", "study: done"):
        assert word not in done.stderr


@pytest.mark.usefixtures("asked")
def test_a_study_waits_in_the_command_until_its_steward_refuses(study, federation, asked):
    def refuse():
        federation.log("abbey").decide("small", "refused", reason="not in our protocol", tell=True)

    attempt = federation.attempt
    federation.attempt = lambda *a, **k: (asked.n_asked == 3 and refuse(), attempt(*a, **k))[1]
    done = study("submit", federation.study_file, "--min-sources", 3)
    assert (done.exit_code, asked.n_asked) == (9, 3)
    assert "refused by its steward (not in our protocol)" in done.stdout
    assert "Too few sources are left, because these refused: abbey." in done.stderr


@pytest.mark.usefixtures("asked")
def test_a_lead_goes_on_without_who_waits(study, federation):
    study("submit", federation.study_file, "--no-wait")
    done = study("watch", "small", "--wait", "0")
    assert (done.exit_code, "waits for approval there" in done.stdout) == (0, True)
    assert study("submit", federation.study_file, "--wait", "soon").exit_code == 3


def test_what_cannot_be_asked_for_has_its_exit_code_and_stays_kept(study, federation, kit, asked):
    asked.fails = {1: ProtocolError("The server cannot be reached.")}
    failed = study("submit", federation.study_file)
    assert (failed.exit_code, "cannot be reached" in failed.stderr) == (4, True)
    assert not list((kit / "studies").glob("*")), "it never waited"
    study("submit", federation.study_file, "--no-wait")
    asked.fails = {3: PolicyError("submit_right", "No lead.")}
    assert study("watch").exit_code == 4
    assert len(Shelf(kit).all()) == 1


@pytest.mark.usefixtures("asked")
def test_ctrl_c_while_a_study_waits_says_how_to_go_on(study, federation, asked):
    asked.fails = {2: KeyboardInterrupt()}
    stopped = study("submit", federation.study_file)
    assert stopped.exit_code == 130
    assert "What waits is kept. Go on with: fedcsa study watch --kit" in stopped.stderr


@pytest.mark.usefixtures("asked")
def test_a_study_is_forgotten_by_name_unless_somebody_asks_for_it(study, federation, kit):
    study("submit", federation.study_file, "--no-wait")
    full = federation.agreed.id
    with Shelf(kit).held(full):
        assert study("forget", "small").exit_code == 3
        assert study("watch").exit_code == 3
    assert f"forgotten: {full}" in study("forget", "small").stdout.replace("\n", "")
    assert Shelf(kit).all() == []
    assert study("forget", "small").exit_code == 3


def test_everybody_with_the_file_sees_the_same_id(study, federation):
    shown = study("id", federation.study_file, with_kit=False)
    assert shown.stdout.strip() == federation.agreed.id


# The page --------------------------------------------------------------------------------------


def test_the_page_shows_who_waits_since_when_and_escapes_what_came(study, federation, kit, asked):
    pytest.importorskip("starlette", reason="the page's extra is not installed")
    assert asked
    study("submit", federation.study_file, "--no-wait")
    [kept] = Shelf(kit).all()
    shown = {kept.study: progress_of(kept)}
    evil = StudyProgress("x@1", "<script>", "failed", "<b>\u202e", (), kept.since)
    with page_of(lambda: {**shown, "x@1": evil}) as link:
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(link) as answer:
            page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
        with pytest.raises(HTTPError, match="403"):
            build_opener().open(link)
    assert "It waits for approval at abbey." in page
    assert "waits for approval there" in page
    assert kept.study in page
    assert "<script>" not in page
    assert "\u202e" not in page
    assert policy.startswith("default-src 'none'")


def test_nobody_is_shut_out_of_the_page_and_it_fits(browser):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    times = ["2026-11-17T09:00:00+00:00"] * 4
    sites = tuple(SiteProgress(name, "waits for approval there", times[0], True) for name in "ab")
    full = f"demo@{'0' * 40}"
    shown = {"": StudyProgress(full, "new", "waiting", "It waits for a, b.", sites, *times)}
    with page_of(lambda: shown) as link, browser.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.set_viewport_size({"width": 390, "height": 900})
        page.goto(link)
        found = axe.run(page).response
        assert len(found["passes"]) > 10
        assert [x["id"] for x in found["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_progress_is_a_line_a_change_where_there_is_no_terminal(capsys):
    screen = StudyScreen(quiet=False)
    progress = StudyProgress("a@1", "new", "running", "phase 1 of 3, risk", (), "")
    with screen.shown():
        screen.show(progress)
        screen.show(progress)
    assert capsys.readouterr().err == "study: phase 1 of 3, risk\n"


def test_a_further_question_of_a_study_that_waits_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("fedcsa.cli.study_screen.moment", lambda time: time[11:16])
    screen = StudyScreen(quiet=False)
    times = [f"2026-11-17T09:{minute}:00+00:00" for minute in (10, 20, 30)]
    steps = ("greet", "announce", "risk", "choose", "done")
    about = {"study": "a@1", "text": "", "target": "new", "min_sources": 1, "deadline": 60}
    kept = Kept(**about, out="", since=times[0], until="2026-12-01T09:00:00+00:00")
    printed = []
    with screen.shown():
        for now in times:
            for step in steps:
                sites = {"new": step, "alpha": f"{step}: asked"}
                screen.show(running(kept, {"step": step, "sites": sites}))
            kept = kept.after({"alpha": "waiting"}, datetime.fromisoformat(now))
            for _ in range(3):  # every second of the pause
                screen.show(progress_of(kept))
            printed.append(capsys.readouterr().err.splitlines())
    first, *others = printed
    assert "study: all answers are in" in first
    assert "alpha: waits for approval there, since 09:10" in first
    told = "study: It waits for approval at alpha. Since 09:10, asked last {}, until 09:00 at most."
    assert others == [[told.format("09:20")], [told.format("09:30")]]
