"""A page on this machine: who gets in, what a form must bring, what every answer forbids."""

import http.client
import re
import socket
import threading
import time
from urllib.parse import urlencode

import pytest

from fedcsa import loopback
from fedcsa.errors import MissingExtraError, ResultError, StudyError
from fedcsa.loopback.pages import HEADERS, MOST_FIELDS, MOST_FORM_BYTES, Moved, Shown, served

NASTY = "<script>alert(1)</script>\x1b[31m\u202e\x00&\"'"
AGAIN = "Ask for another."
FORM = "application/x-www-form-urlencoded"


def failing(_visit):
    raise ZeroDivisionError("secret")


def named(_visit):
    raise StudyError(f"No study {NASTY!r}.")


class Browser:
    """Sends exactly the headers it is told to, and remembers cookie and secret as a browser."""

    def __init__(self, link):
        self.authority = link.split("/")[2]
        self.link = "/" + link.split("/", 3)[3]
        self.cookie, self.base, self.csrf = "", "", ""

    def ask(self, method, path, headers=None, body=None):
        sent = {"Host": self.authority, "Cookie": self.cookie, **(headers or {})}
        connection = http.client.HTTPConnection(self.authority, timeout=600)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            # In one piece: a server that refuses the head may close before a second one arrives.
            pieces = []
            connection.send, send = pieces.append, connection.send
            connection.endheaders(body)
            send(b"".join(pieces))
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer
        finally:
            connection.close()

    def open(self):
        answer = self.ask("GET", self.link)
        if answer.status == 303:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            self.base = answer.headers["Location"].rstrip("/")
            self.csrf = re.search('name="csrf" value="([^"]+)"', self.get("/form").text)[1]
        return answer

    def get(self, path, **headers):
        return self.ask("GET", self.base + path, headers)

    def post(self, path, form=None, **headers):
        fields = {"csrf": self.csrf, **(form or {})}
        sent = {"Origin": f"http://{self.authority}", "Content-Type": FORM, **headers}
        return self.ask("POST", self.base + path, sent, urlencode(fields).encode())


@pytest.fixture(scope="module")
def place():
    """A page that counts what was done, and shows what it was told."""
    done = []

    def show(visit):
        text = f"{sorted(visit.query.items())} {NASTY}"
        return Shown("fedcsa.loopback:problem.html.jinja", {"text": text})

    def fill_in(_visit):
        return Shown("tests:form", {})

    def do(visit):
        done.append(dict(visit.form))
        return Moved("/?done=1")

    from fedcsa.answer import templates

    asset = templates.page_asset
    form = '<input type="hidden" name="csrf" value="{{ csrf }}">'
    templates.page_asset = lambda package, name: (
        form if package == "tests" else asset(package, name)
    )
    views = {"GET /": show, "GET /form": fill_in, "POST /do": do, "GET /named": named}
    with served(views | {"GET /failing": failing}, AGAIN) as guard:
        guard.done = done
        yield guard
    templates.page_asset = asset


@pytest.fixture
def browser(place):
    place.done.clear()
    opened = Browser(place.new_link())
    assert opened.open().status == 303
    return opened


def test_a_link_works_once_and_its_session_goes_on(place):
    first = Browser(place.new_link())
    answer = first.open()
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"].lower()
    assert all(
        word in cookie for word in ("httponly", "samesite=strict", f"path={first.base}".lower())
    )
    assert "token" not in answer.headers["Location"]
    assert [first.get("/").status for _ in range(2)] == [200, 200]
    second = Browser(f"http://{first.authority}{first.link}")
    refused = second.open()
    assert refused.status == 403
    assert AGAIN in refused.text
    assert "Set-Cookie" not in refused.headers


@pytest.mark.parametrize("token", ["", "x", "%00", "%ff", "%C3%A9", "a" * 43, "%F0%9F%98%80"])
def test_a_wrong_token_opens_nothing(place, token):
    stranger = Browser(place.new_link())
    answer = stranger.ask("GET", f"/open?token={token}")
    assert answer.status in (400, 403)
    assert "Set-Cookie" not in answer.headers


def test_without_a_session_nothing_is_shown_or_done(browser, place):
    for cookie in ("", "fedcsa=x", "fedcsa="):
        stranger = Browser(place.new_link())
        stranger.cookie, stranger.base, stranger.csrf = cookie, browser.base, browser.csrf
        for answer in (stranger.get("/"), stranger.get("/no"), stranger.post("/do")):
            assert answer.status == 403
            assert browser.base not in answer.text
    assert place.done == []


def test_a_session_is_sent_to_no_other_address_of_this_machine(browser):
    assert len(browser.base) > 12
    for path in ("/", "/form", "/elsewhere/", f"{browser.base}x/", browser.base):
        assert browser.ask("GET", path).status == 404


@pytest.mark.parametrize(
    "host", [None, "", "localhost", "evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:80"]
)
def test_another_host_name_gets_nothing(browser, place, host):
    """A page elsewhere may let its own name point to this machine."""
    for answer in (browser.get("/", Host=host), browser.post("/do", Host=host)):
        assert answer.status in (400, 421)
        assert "Set-Cookie" not in answer.headers
    link = Browser(place.new_link())
    assert link.ask("GET", link.link, {"Host": host}).status in (400, 421)
    assert place.done == []


def test_a_form_of_this_page_is_done(browser, place):
    answer = browser.post("/do", {"reason": "wörds\n" + NASTY, "empty": ""})
    assert (answer.status, answer.headers["Location"]) == (303, f"{browser.base}/?done=1")
    assert place.done == [{"reason": "wörds\n" + NASTY, "empty": ""}]
    assert browser.post("/do", **{"Sec-Fetch-Site": "same-origin"}).status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None}, {"Origin": "null"}, {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"},
        {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": None},
    ],
)  # fmt: skip
def test_a_form_of_another_page_is_not_done(browser, place, headers):
    assert browser.post("/do", **headers).status in (403, 415)
    assert place.done == []


@pytest.mark.parametrize("secret", ["", "x", "é"])
def test_a_form_without_the_sessions_secret_is_not_done(browser, place, secret):
    assert browser.post("/do", {"csrf": secret}).status == 403
    other = Browser(place.new_link())
    other.open()
    assert browser.post("/do", {"csrf": other.csrf}).status == 403
    assert place.done == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x=" + b"a" * MOST_FORM_BYTES, 413),
        (b"&".join(b"f%d=1" % k for k in range(MOST_FIELDS + 1)), 400),
        (b"a=1&a=2", 400),
        (b"a=%ff", 400),
        (b"a=\xff", 400),
        (b"", 403),
    ],
)
def test_a_form_is_bounded_and_read_strictly(browser, place, body, status):
    sent = {"Origin": f"http://{browser.authority}", "Content-Type": FORM}
    secret = b"" if not body else b"csrf=" + browser.csrf.encode() + b"&"
    answer = browser.ask("POST", f"{browser.base}/do", sent, secret + body)
    assert answer.status == status
    assert place.done == []


def test_what_only_a_form_does_no_link_does(browser, place):
    assert browser.get("/do").status == 404
    assert browser.ask("PUT", f"{browser.base}/do").status == 404
    assert browser.ask("HEAD", f"{browser.base}/").status == 404
    assert place.done == []


def test_every_answer_forbids_frames_scripts_and_copies(browser):
    stranger = Browser(browser.link.join(["http://" + browser.authority, ""]))
    answers = [
        browser.get("/"), browser.get("/no"), browser.get("/failing"), browser.post("/do"),
        stranger.ask("GET", "/"), stranger.ask("GET", "/open"), stranger.ask("GET", "/style.css"),
        stranger.ask("GET", "/live.js"), browser.get("/", Host="evil.example"),
    ]  # fmt: skip
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_all(name) == [value]
        assert "server" not in answer.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_foreign_texts_are_text(browser):
    for path in ("/?name=%3Cb%3E", "/named"):
        text = browser.get(path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text
        assert not any(character in text for character in "\x1b\x00\u202e")
    assert "&lt;b&gt;" in browser.get("/?name=%3Cb%3E").text


def test_an_error_is_told_without_its_text_unless_it_is_ours(browser):
    answer = browser.get("/failing")
    assert (answer.status, "ZeroDivisionError" in answer.text) == (500, True)
    assert "secret" not in answer.text
    assert browser.get("/named").status == 409


# The server ---------------------------------------------------------------------------------


def test_only_this_machine_can_connect_and_nothing_is_left_behind():
    before = set(threading.enumerate())
    with served({}, AGAIN) as guard:
        port = int(guard.new_link().split(":")[2].split("/")[0])
        hanging = socket.create_connection(("127.0.0.1", port))
        hanging.sendall(b"GET / HTTP/1.1\r\n")  # never finished
        with pytest.raises(ResultError, match="Name another"), served({}, AGAIN, port):
            pass
        started = time.monotonic()
    assert time.monotonic() - started < 60  # it does not wait for those who hang
    hanging.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(OSError):  # noqa: PT011 - refused
        socket.create_connection(("127.0.0.1", port), timeout=2)


def test_the_extra_is_named_where_it_is_absent(monkeypatch):
    for package in ("starlette", "uvicorn"):
        with monkeypatch.context() as patch:
            patch.setattr(
                "importlib.util.find_spec", lambda name, gone=package: None if name == gone else 1
            )
            with pytest.raises(MissingExtraError, match=rf"{package}.*fedcsa\[page\]"):
                loopback.require_page()
