"""Pages on this machine: who may use them, what they look like, how they are served.

One browser may, by a link that works once. Every request passes the `Guard` before a view sees it.
A view gets only requests with a session, and forms only from this very page, so no view can forget
to ask.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fedcsa.answer.templates import page_asset, templates
from fedcsa.errors import FedCSAError, ResultError
from fedcsa.words import counted, printable

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HOST = "127.0.0.1"
#: Of a form: a reason of 2,000 characters of which each is written as 12 bytes, and the rest.
MOST_FORM_BYTES = 32_768
#: Of a form or of an address.
MOST_FIELDS = 20
#: A form's secret of this session, so that no other page can fill it in.
CSRF = "csrf"
_COOKIE = "fedcsa"
_OPEN = "/open"
_FORM = "application/x-www-form-urlencoded"
#: Bytes of a secret: nobody guesses 256 bits.
_SECRET_BYTES = 32
#: Bytes of the part of the address that another server on this machine must not know.
_BASE_BYTES = 12
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers hide from a form's own server where the form came from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Files that every page loads: address -> (kind, the files of this program that it is made of)
FILES: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "/style.css": (
        "text/css", (("fedcsa.answer", "style.css"), ("fedcsa.loopback", "pages.css")),
    ),
    "/live.js": ("text/javascript", (("fedcsa.loopback", "live.js"),)),
}  # fmt: skip
#: Seconds in a unit of time, and the most seconds that are told in it.
_UNITS = (("second", 1, 90), ("minute", 60, 5400), ("hour", 3600, 129_600), ("day", 86_400, None))
#: Seconds in which a server that can start has started.
_START_SECONDS = 10.0
#: Seconds that a request under way is given when the command ends.
_END_SECONDS = 1


@dataclass(frozen=True)
class Visit:
    """What a view is asked.

    Attributes
    ----------
    query : mapping
        Of the address.
    form : mapping
        What was filled in; empty if nothing was sent.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """A page to show.

    Attributes
    ----------
    template : str
        ``"package:file"``, such as ``"fedcsa.site:overview.html.jinja"``. It extends
        ``"fedcsa.loopback:layout.html.jinja"``.
    facts : mapping
        What the template shows. Every text of it is escaped.
    status : int
        Of HTTP.
    """

    template: str
    facts: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True)
class Moved:
    """Another address of the page to go to, such as ``"/study?id=…"``."""

    address: str


#: Shows a page, or sends the reader to another.
PageView = Callable[[Visit], Shown | Moved]
#: ``"GET /study"`` or ``"POST /decide"`` -> the view
PageViews = Mapping[str, PageView]


class _RequestError(Exception):
    """A request that is not answered: its status and a sentence."""


class Guard:
    """The one way to the views of a page, as an ASGI application.

    Parameters
    ----------
    views : mapping
    port : int
        On which the page is served.
    again : str
        How to get another link, in words. Anybody may read them: they name no folder or file.
    """

    def __init__(self, views: PageViews, port: int, again: str) -> None:
        self._views = views
        self._again = again
        self._authority = f"{HOST}:{port}"
        # Cookies do not know ports: only under an address that no other server on this machine
        # knows does the browser send this one.
        self._base = f"/{secrets.token_urlsafe(_BASE_BYTES)}"
        self._tokens: set[str] = set()
        self._sessions: dict[str, str] = {}

    def new_link(self) -> str:
        """Another link that opens the page once."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        self._tokens.add(token)
        return f"http://{self._authority}{_OPEN}?token={token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; always with the headers that keep the page to itself."""
        if scope["type"] != "http":
            return
        try:
            response = await self._answer(Request(scope, receive))
        except _RequestError as error:
            response = self._page(_problem(*error.args))
        response.headers.update(HEADERS)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.headers.getlist("host") != [self._authority]:
            raise _RequestError(421, f"This page answers only at http://{self._authority}.")
        method, path = request.method, str(request.scope["path"])
        if method == "GET" and path in FILES:
            kind, content = file_content(path)
            return Response(content, media_type=kind)
        if method == "GET" and path == _OPEN:
            return self._open(request)
        csrf = self._sessions.get(request.cookies.get(_COOKIE, ""))
        if csrf is None:
            raise _RequestError(403, f"This browser has not opened this page. {self._again}")
        view = self._views.get(f"{method} {path.removeprefix(self._base)}")
        if view is None or not path.startswith(f"{self._base}/"):
            raise _RequestError(404, "There is no page at this address.")
        query = _fields(request.scope["query_string"])
        form = await self._form(request, csrf) if method == "POST" else {}
        return self._shown(view, Visit(query, form), csrf)

    def _open(self, request: Request) -> Response:
        """Take the token of a link for a session; the token is worth nothing from then on."""
        given = _fields(request.scope["query_string"]).get("token", "")
        known = [t for t in self._tokens if hmac.compare_digest(t.encode(), given.encode())]
        if not known:
            raise _RequestError(403, f"This link is wrong or was used before. {self._again}")
        self._tokens.discard(known[0])
        session = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions[session] = secrets.token_urlsafe(_SECRET_BYTES)
        response = RedirectResponse(f"{self._base}/", 303)
        response.set_cookie(_COOKIE, session, path=self._base, httponly=True, samesite="strict")
        return response

    async def _form(self, request: Request, csrf: str) -> dict[str, str]:
        """What was filled in, if it was on this very page."""
        fetched = request.headers.get("sec-fetch-site", "same-origin")
        if request.headers.get("origin") != f"http://{self._authority}" or fetched != "same-origin":
            raise _RequestError(403, "This form was sent from another page. Nothing was done.")
        if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
            raise _RequestError(415, "A form of another kind came. Nothing was done.")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_FORM_BYTES:
                raise _RequestError(413, "The form is too long. Nothing was done. Shorten it.")
        form = _fields(body)
        if not hmac.compare_digest(form.pop(CSRF, "").encode(), csrf.encode()):
            raise _RequestError(403, "This form belongs to another session. Nothing was done.")
        return form

    def _shown(self, view: PageView, visit: Visit, csrf: str) -> Response:
        """What a view shows, or that it failed."""
        try:
            shown = view(visit)
        except FedCSAError as error:
            shown = _problem(409, str(error))
        except Exception as error:  # no trace of it is shown
            shown = _problem(500, f"This page failed ({type(error).__name__}).")
        if isinstance(shown, Moved):
            return RedirectResponse(f"{self._base}{shown.address}", 303)
        return self._page(shown, csrf)

    def _page(self, shown: Shown, csrf: str = "") -> Response:
        return HTMLResponse(rendered(shown, self._base if csrf else "", csrf), shown.status)


def _problem(status: int, text: str) -> Shown:
    return Shown("fedcsa.loopback:problem.html.jinja", {"text": text}, status)


def _fields(text: bytes) -> dict[str, str]:
    """Fields of an address or of a form; a field that stands twice is refused."""
    try:
        pairs = parse_qsl(
            text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise _RequestError(400, "The form or the address cannot be read.") from None
    if len(pairs) != len(dict(pairs)):
        raise _RequestError(400, "A field of the form or of the address appears twice.")
    return dict(pairs)


# What pages look like -------------------------------------------------------------------------


def file_content(address: str) -> tuple[str, str]:
    """Kind and content of one of `FILES`."""
    kind, parts = FILES[address]
    return kind, "\n".join(page_asset(package, name) for package, name in parts)


def rendered(shown: Shown, base: str, csrf: str) -> str:
    """A page as text.

    Parameters
    ----------
    shown : Shown
    base : str
        What every address on the page begins with.
    csrf : str
        What every form on the page sends back.
    """
    template = templates().get_template(shown.template)
    return template.render(**shown.facts, base=base, csrf=csrf, version=version("fedcsa"))


def _printable_lines(text: str) -> str:
    """Text of several lines without any other control character."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _moment(time: str) -> str:
    """A time of a log as people write it."""
    return printable(time[:16].replace("T", " "))


def _ago(time: str) -> str:
    """How long ago a time of a log is; nothing if it is no time.

    >>> _ago("no time")
    ''
    """
    try:
        then = datetime.fromisoformat(time)
        seconds = max((datetime.now(UTC) - then).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return ""
    unit, length, _ = next(u for u in _UNITS if u[2] is None or seconds < u[2])
    return f"{counted(int(seconds // length), unit)} ago"


templates().filters |= {
    "printable": printable, "lines": _printable_lines, "moment": _moment, "ago": _ago,
}  # fmt: skip


# How they are served --------------------------------------------------------------------------


@contextmanager
def served(views: PageViews, again: str, port: int = 0) -> Iterator[Guard]:
    """Serve a page beside whatever this process does; it is gone when the block ends.

    Parameters
    ----------
    views : mapping
    again : str
        How to get another link, in words. Anybody may read them: they name no folder or file.
    port : int, optional
        By default a free one.
    """
    with _bound(port) as listener:
        guard = Guard(views, listener.getsockname()[1], again)
        server = uvicorn.Server(
            uvicorn.Config(
                guard, http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=_END_SECONDS,
            )
        )  # fmt: skip
        thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield guard
        finally:
            server.should_exit = True
            thread.join()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    until = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise ResultError("The page could not be served. Start the command again.")
        time.sleep(0.01)


def _bound(port: int) -> socket.socket:
    """A socket that this machine alone can reach."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it lets two processes share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise ResultError(
            f"The page cannot be served on port {port} ({type(error).__name__}). Name another."
        ) from None
    return listener
