"""The steward's page in a real browser: approve, refuse, restart, strangers, two at once."""

import re
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.site.conftest import Federation, write_study

from fedcsa.loopback.pages import served
from fedcsa.site.log import SiteLog
from fedcsa.site.preview import preview
from fedcsa.site.site_file import SiteFile
from fedcsa.site.steward_page import StewardPage

AGAIN = "Ask for another link."
WAITS = 30_000  # milliseconds: as long as a busy machine needs


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """A source where a study waits, and what would leave in it."""
    federation = Federation(tmp_path_factory.mktemp("federation"))
    federation.absent = {("risk", "birch"), ("risk", "castle")}  # they cost time
    write_study(federation.folder, name="stroke 2026")
    federation.configure("abbey", "approve = true")
    federation.attempt()
    [item] = federation.log("abbey").waiting()
    text = federation.log("abbey").payload(item["agreed"]).decode()
    return federation.folder / "abbey", item["id"], preview(text, federation.site("abbey"))


class Abbey:
    """A copy of the site, and pages on it."""

    def __init__(self, folder, waiting):
        original, self.id, self._found = waiting
        self.folder = shutil.copytree(original, folder / "abbey")

    @property
    def log(self):
        return SiteLog(SiteFile.load(self.folder / "site.toml").state_folder)

    @property
    def decisions(self):
        return [(x["decision"], x["who"]) for x in self.log.all("decided", id=self.id)]

    @contextmanager
    def page(self, *, real=False):
        """A page of its own, as every `fedcsa site page` serves one."""
        page = StewardPage(self.folder / "site.toml", "abbey", lambda: True, "ada")
        if not real:
            page._previews.look = lambda _key, _text: self._found
        with served(page.views, AGAIN) as guard:
            yield guard
        page.end()


@pytest.fixture
def abbey(tmp_path, waiting):
    return Abbey(tmp_path, waiting)


@contextmanager
def opened(browser, link, **options):
    """The link in a browser of its own, whose complaints must stay empty."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(WAITS)
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(link)
    try:
        yield page
    finally:
        context.close()


def test_a_steward_sees_the_very_values_and_approves(browser, abbey, waiting):
    with abbey.page(real=True) as guard, opened(browser, guard.new_link()) as page:
        assert "token" not in page.url
        page.get_by_role("link", name="See what would leave").click()
        page.get_by_label("Reason", exact=True).fill(
            "as agreed in May"
        )  # while it is being computed
        page.get_by_role("button", name="Approve").wait_for()
        assert page.get_by_label("Reason", exact=True).input_value() == "as agreed in May"
        page.get_by_text("Every field of the risk-report").click()
        [risk] = [f for f in waiting[2]["messages"][0]["fields"] if f["name"] == "risk"]
        assert str(risk["value"]) in page.locator(".values").first.inner_text()
        page.get_by_label("Your name").fill("Ada")
        page.get_by_role("button", name="Approve").click()
        page.get_by_text("This study was approved by Ada").wait_for()
        assert page.complaints == []
    assert abbey.decisions == [("approved", "Ada")]


def test_the_keyboard_alone_refuses_without_scripts(browser, abbey):
    with (
        abbey.page() as guard,
        opened(browser, guard.new_link(), java_script_enabled=False) as page,
    ):
        page.get_by_role("link", name="See what would leave").focus()
        page.keyboard.press("Enter")
        page.get_by_label("Your name").wait_for()
        seen = []
        while "Refuse" not in seen and len(seen) < 60:
            page.keyboard.press("Tab")
            focused = page.locator(":focus")
            seen.append(focused.inner_text() or focused.get_attribute("name"))
            if seen[-1] == "reason":
                page.keyboard.type("not ours")
        assert seen[-5:] == ["who", "reason", "tell", "Approve", "Refuse"]
        page.keyboard.press("Enter")
        page.get_by_text("This study was refused by ada").wait_for()
        assert "not ours" in page.locator("#state").inner_text()
    assert abbey.decisions == [("refused", "ada")]


def test_a_study_waits_over_a_restart_and_an_old_session_ends(browser, abbey):
    with abbey.page() as guard:
        opening = opened(browser, guard.new_link())
        page = opening.__enter__()
        port, address = guard.new_link().split(":")[2].split("/")[0], page.url
        assert "stroke 2026" in page.locator("#waiting").inner_text()
        assert page.get_by_role("alert").is_hidden()
    page.get_by_text("the program that serves it has ended").wait_for()
    opening.__exit__(None, None, None)
    with abbey.page() as guard:
        again = guard.new_link()
        stale = address.replace(port, again.split(":")[2].split("/")[0])
        with opened(browser, stale) as page:
            assert AGAIN in page.locator("main").inner_text()
            page.goto(again)
            assert "stroke 2026" in page.locator("#waiting").inner_text()
    assert abbey.decisions == []


def test_a_wrong_link_and_a_used_one_show_nothing(browser, abbey):
    with abbey.page() as guard:
        link = guard.new_link()
        for wrong in (link[:-1], re.sub("/open.*", "/", link)):
            with opened(browser, wrong) as page:
                assert "This did not work" in page.locator("h1").inner_text()
                assert "stroke" not in page.content()
        with opened(browser, link) as page, opened(browser, link) as second:
            assert "stroke 2026" in page.content()
            assert "used before" in second.content()


@contextmanager
def stranger(content):
    """Another server on this machine, with a page that it wants the steward to open."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.cookies = []
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_form_from_another_page_decides_nothing(browser, abbey):
    """Even one that knows every secret: the same machine is the same site to a browser."""
    with abbey.page() as guard, opened(browser, guard.new_link()) as page:
        page.get_by_role("link", name="See what would leave").click()
        fields = page.locator("form[action$=decide] input[type=hidden]").evaluate_all(
            "all => all.map(i => [i.name, i.value])"
        )
        action = page.locator("form[action$=decide]").evaluate("form => form.action")
        assert {"csrf", "id", "shown", "seen"} == {name for name, _ in fields}
        given = "".join(f'<input name="{n}" value="{v}">' for n, v in [*fields, ("who", "eve")])
        form = f'<form method="post" action="{action}">{given}'
        button = '<button name="decision" value="approved">Win</button></form>'
        trap = f'{form}{button}<iframe src="{page.url}"></iframe>'
        with stranger(trap) as server:
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            [frame] = page.frames[1:]
            assert "stroke 2026" not in frame.content()
            page.get_by_role("button", name="Win").click()
            page.get_by_text("sent from another page").wait_for()
            assert set(server.cookies) == {
                ""
            }  # cookies know no ports, but this one knows its address
    assert abbey.decisions == []


def test_of_two_stewards_at_once_one_decides_and_the_other_is_told(browser, abbey):
    with (
        abbey.page() as one,
        abbey.page() as two,
        opened(browser, one.new_link()) as ada,
        opened(browser, two.new_link()) as bob,
    ):
        for page, name in ((ada, "Ada"), (bob, "Bob")):
            page.get_by_role("link", name="See what would leave").click()
            page.get_by_label("Your name").fill(name)
            page.get_by_label("Reason", exact=True).fill("mine")
        ada.get_by_role("button", name="Approve").click()
        ada.get_by_text("This study was approved by Ada").wait_for()
        bob.get_by_text("This study was approved by Ada").wait_for()  # by itself, within seconds
        assert bob.get_by_label("Reason", exact=True).input_value() == "mine"
        bob.get_by_role("button", name="Refuse").click()
        told = bob.get_by_role("alert").inner_text()
        assert re.search(r"was approved meanwhile by Ada, at 20\d\d-", told)
        assert abbey.decisions == [("approved", "Ada")]


def test_nobody_is_shut_out_and_every_page_fits(browser, abbey):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    looks = [("light", {}, 10), ("dark", {"runOnly": ["cat.color"]}, 0)]  # the rest is the same
    with abbey.page() as guard, opened(browser, guard.new_link(), bypass_csp=True) as page:
        base, study = page.url, page.locator("#waiting a").get_attribute("href")
        for address in (base, f"{base}{study.rpartition('/')[2]}", f"{base}left", f"{base}no"):
            page.goto(address)
            for details in page.locator("summary").all():
                details.click()
            for scheme, rules, least in looks if "study" in address else looks[:1]:
                page.emulate_media(color_scheme=scheme)
                found = axe.run(page, options={"resultTypes": ["violations"], **rules}).response
                assert len(found["passes"]) > least  # it really looked
                assert [(x["id"], x["nodes"][0]["html"][:200]) for x in found["violations"]] == []
            for width in (390, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.set_viewport_size({"width": 680, "height": 900})  # A4 between its margins
            page.emulate_media(media="print")
            assert page.evaluate("document.documentElement.scrollWidth") <= 680
            assert not page.locator("form").first.is_visible()
            page.emulate_media(media="screen")
