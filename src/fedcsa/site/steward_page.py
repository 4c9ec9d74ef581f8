"""The steward's page: what waits, what would leave, approve or refuse, what left.

It reads and writes through the site's log alone, so it may run beside the site's engine, without
it, or twice. Nothing here computes: a preview comes from a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

from fedcsa.answer.result_tables import Table
from fedcsa.data.table_file import file_state
from fedcsa.errors import DataError, StudyError
from fedcsa.loopback.pages import Moved, PageViews, Shown, Visit
from fedcsa.site.account import (
    STAND_IN,
    attack_sentences,
    search_sentence,
    told_sentences,
    without_repeats,
)
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import LONGEST_REASON, UNTOLD, Event, Sent, SiteLog, open_log
from fedcsa.site.meanings import IN_SHORT, meaning_of
from fedcsa.site.opening import start_child
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status
from fedcsa.words import counted, listed, printable

#: Lines of the status, messages and decisions on the first page; all that left has its own page.
_MOST_LINES, _MOST_SENT, _MOST_DECIDED = 8, 5, 10
#: Characters of a field's values: a steward reads some of them, and nobody reads a million.
_MOST_VALUES = 4000
#: How a line of the status begins that tells of the connection.
_CONNECTED, _CONNECTING = "connected", "connecting to"
#: Why nothing was decided.
_CHANGED = (
    "What waits here, the site's file or the table has changed since you looked. Nothing was "
    "decided. Below is what would leave now."
)
_NOT_SEEN = "What would leave is not known yet. Nothing was decided. Wait for it, then decide."
_NO_REASON = "Nothing was decided. Give a reason for a refusal."
_NO_NAME = "Nothing was decided. Give your name."
#: Previews that are kept: more studies than these seldom wait at once.
_MOST_KEPT = 20


@dataclass(frozen=True)
class _Study:
    """A study as it stands in the log.

    Attributes
    ----------
    id : str
    asked : Event
        The last line about a question of it that waited, see `SiteLog.waiting`; empty if none did.
    waits : bool
        Whether it waits now.
    text : str
        What was agreed; empty if no question has come.
    said : list of Event
        What people decided, oldest first.
    key : str
        Digest of everything that a preview shows: question, study, site's file, table.
    """

    id: str
    asked: Event
    waits: bool
    text: str
    said: list[Event]
    key: str

    @property
    def seen(self) -> str:
        """Hash of the last decision."""
        return str(self.said[-1]["hash"]) if self.said else ""

    @property
    def is_open(self) -> bool:
        """Whether an approval can be given: it waits, or it was refused."""
        refused = bool(self.said) and self.said[-1]["decision"] == "refused"
        return bool(self.text) and (self.waits or refused)


class StewardPage:
    """The views of a site's page.

    Parameters
    ----------
    site_file : Path
        Read anew for every view, as the site itself reads it anew for every study.
    name : str
        Of the site.
    is_running : function
        Whether the site's engine runs.
    who : str
        Whose name stands in the form at first.
    """

    def __init__(
        self, site_file: Path, name: str, is_running: Callable[[], bool], who: str
    ) -> None:
        self._path = site_file
        self._name = name
        self._is_running = is_running
        self._who = who
        self._previews = Previews(site_file)

    @property
    def views(self) -> PageViews:
        """What is at which address."""
        return {
            "GET /": self._overview,
            "GET /study": self._look,
            "POST /decide": self._decide,
            "POST /again": self._again,
            "GET /left": self._left,
        }

    def end(self) -> None:
        """End what is being computed."""
        self._previews.end()

    # The first page ---------------------------------------------------------------------------

    def _overview(self, visit: Visit) -> Shown:  # noqa: ARG002 - a view
        site, log = self._open()
        lines = Status(site.state_folder).lines()
        decided = [UNTOLD | line for line in log.lines("decided")]
        facts = {
            "state": _state(lines, self._is_running()),
            "waiting": log.waiting(),
            "approve": site.approve,
            "decided": decided[: -_MOST_DECIDED - 1 : -1],
            "left": _sent_table(
                without_repeats(log.sent[::-1])[:_MOST_SENT], "The last messages that left"
            ),
            "n_left": len(log.sent),
            "lines": lines[: -_MOST_LINES - 1 : -1],
        }
        return self._shown("overview", facts)

    # A study ----------------------------------------------------------------------------------

    def _look(self, visit: Visit) -> Shown:
        return self._show_study(self._study(visit.query.get("id", "")))

    def _show_study(self, study: _Study, notice: str = "", form: Visit | None = None) -> Shown:
        """The page of a study; 409 if there is a notice why nothing was decided.

        Parameters
        ----------
        study : _Study
        notice : str
        form : Visit, optional
            In which somebody decided.
        """
        _, log = self._open()
        found = self._previews.look(study.key, study.text) if study.is_open else None
        name = study.id.rpartition("@")[0]
        facts = {
            "study": study,
            "notice": notice,
            "who": self._who if form is None else form.form.get("who", ""),
            "reason": "" if form is None else form.form.get("reason", ""),
            "longest": LONGEST_REASON,
            "about": _about(study.text),
            "found": None if found is None else _in_words(found),
            "left": _sent_table(
                without_repeats(x for x in log.sent if x.entry.study == name), "Already left"
            ),
        }
        return self._shown("study", facts, 409 if notice else 200)

    def _again(self, visit: Visit) -> Moved:
        """Compute a preview that failed once more."""
        study = self._study(visit.form.get("id", ""))
        self._previews.forget(study.key)
        return Moved(f"/study?{urlencode({'id': study.id})}")

    def _decide(self, visit: Visit) -> Shown | Moved:
        """Write down a decision on exactly what was shown, or say why not."""
        form, study = visit.form, self._study(visit.form.get("id", ""))
        decision, who, reason = (
            " ".join(form.get(name, "").split()) for name in ("decision", "who", "reason")
        )
        seen, notice = form.get("seen", ""), ""
        if study.seen == seen:  # else the log says who was first
            notice = self._why_not(study, decision, form.get("shown", ""))
            notice = notice or ("" if who else _NO_NAME)
            notice = notice or ("" if reason or decision != "refused" else _NO_REASON)
        if notice:
            return self._show_study(study, notice, visit)
        _, log = self._open()
        try:
            log.decide(study.id, decision, who, reason, tell="tell" in form, seen=seen)
        except StudyError as error:
            return self._show_study(self._study(study.id), str(error), visit)
        return Moved(f"/study?{urlencode({'id': study.id})}")

    def _why_not(self, study: _Study, decision: str, shown: str) -> str:
        """Why an approval does not count: what was shown is not what is there, or was not there.

        Parameters
        ----------
        study : _Study
        decision : str
        shown : str
            Key of what the person saw.
        """
        if shown != study.key:
            return _CHANGED
        if decision != "approved":
            return ""
        found = self._previews.look(study.key, study.text) if study.is_open else None
        return _NOT_SEEN if found is None or "error" in found else ""

    def _study(self, full: str) -> _Study:
        site, log = self._open()
        came = log.lines("waiting", "accepted", id=full)
        said = [UNTOLD | line for line in log.all("decided", id=full)]
        if not came and not said:
            raise StudyError("No study of this id waits or was decided on here.")
        waiting = [line for line in log.waiting() if line["id"] == full]
        asked = [UNTOLD | line for line in log.lines("waiting", id=full)[-1:]]
        agreed = next((x["agreed"] for x in reversed(came) if x.get("agreed")), "")
        text = log.payload(agreed).decode() if agreed else ""
        questions = [(line["event"], line["phase"], line["request"]) for line in came]
        parts = [full, agreed, questions, self._path.read_bytes().hex(), _table_state(site)]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return _Study(full, (waiting or asked or [{}])[0], bool(waiting), text, said, key)

    # What left --------------------------------------------------------------------------------

    def _left(self, visit: Visit) -> Shown:  # noqa: ARG002 - a view
        site, log = self._open()
        tried = {line["sha256"]: line["certificate"] for line in log.lines("certified")}
        messages = [
            {
                "title": f"{entry.message} to {entry.recipient}",
                "time": entry.time,
                "fields": _fields_table(
                    entry.message,
                    entry.sha256,
                    [(x.name, x.numbers, *meaning_of(entry.message, x.name)) for x in entry.fields],
                ),
                "attacks": attack_sentences(tried.get(entry.sha256)),
            }
            for entry in (line.entry for line in reversed(log.sent) if line.kind == "sent")
        ]
        facts = {
            "all": _sent_table(without_repeats(log.sent[::-1]), "Every message, the newest first"),
            "messages": messages,
            "told": told_sentences(log, site.policy),
        }
        return self._shown("left", facts)

    # What all of them need --------------------------------------------------------------------

    def _open(self) -> tuple[SiteFile, SiteLog]:
        """The site's file, and its log, whose chain is verified as far as it is new."""
        site = SiteFile.load(self._path)
        return site, open_log(site.state_folder)

    def _shown(self, page: str, facts: dict[str, Any], status: int = 200) -> Shown:
        """A page of this site.

        Parameters
        ----------
        page : str
            Name of its template.
        facts : dict
        status : int
            Of HTTP.
        """
        return Shown(f"fedcsa.site:{page}.html.jinja", {**facts, "site": self._name}, status)


# In words -----------------------------------------------------------------------------------


def _state(lines: Sequence[dict[str, str]], running: bool) -> dict[str, str]:
    """Whether the site runs and is connected: a tone for the style sheet, and a sentence.

    Parameters
    ----------
    lines : sequence of dict
        Of the status.
    running : bool
    """
    own = [line for line in lines if not line["study"]]
    last = own[-1] if own else {"text": "", "time": ""}
    if not running:
        text = "The site is not running. Nothing comes in and nothing leaves."
        return {"tone": "bad", "text": text, "since": ""}
    if last["text"].startswith(_CONNECTED):
        text = "The site is running and has connected to the server."
        return {"tone": "good", "text": text, "since": last["time"]}
    where = last["text"].removeprefix(_CONNECTING) if _CONNECTING in last["text"] else ""
    text = f"The site is running and connecting{' to' + where if where else ''}."
    return {"tone": "", "text": text, "since": last["time"]}


def _about(text: str) -> list[tuple[str, str]]:
    """What was agreed, as far as one looks at it first; nothing if it is not known."""
    if not text:
        return []
    agreed = AgreedStudy(text)
    study, plan = agreed.study, agreed.plan
    features = [f"{feature.name} ({feature.kind})" for feature in study.features]
    model = study.model.get("title") or study.model.get("class") or study.model.get("name", "")
    settings = counted(len(plan.candidates), "setting") if plan.candidates else "given, not fitted"
    if plan.space:
        most, rounds = plan.limits["candidates"], counted(plan.limits["rounds"], "round")
        settings = f"up to {counted(most, 'setting')}, searched in up to {rounds}"
    return [
        ("Outcome", study.outcome.name),
        ("Columns", listed(features, 40)),
        ("Model", f"{model} ({settings})"),
        ("Sources", listed(agreed.sources, 40)),
    ]


def _in_words(found: dict[str, Any]) -> dict[str, Any]:
    """A preview as tables and sentences."""
    if "error" in found:
        return {"error": found["error"]}
    exact = [message["exact"] for message in found["messages"]]
    return {
        "error": "",
        "summary": _summary(found["messages"]),
        "messages": [
            {**message, "table": _preview_table(message), "values": _values(message)}
            for message in found["messages"]
        ],
        "attacks": attack_sentences(found["certificate"], found["max_membership_auc"]),
        "refusals": found["refusals"],
        "stand_in": " ".join(
            filter(None, (search_sentence(found["search"]), "" if all(exact) else STAND_IN))
        ),
    }


def _summary(messages: Sequence[dict[str, Any]]) -> Table:
    """One line a message."""
    rows = [
        (
            message["message"],
            str(sum(_n_numbers(item["numbers"]) for item in message["fields"])),
            IN_SHORT[message["message"]],
            "known" if message["exact"] else "not yet",
        )
        for message in messages
    ]
    headings = ("message", "numbers", "what it tells", "values")
    return Table("Messages to the target", headings, rows, (0, 2, 3), (2,))


def _n_numbers(shape: str) -> int:
    """How many numbers a field has, of its shape in words.

    >>> _n_numbers("25 × 7"), _n_numbers("1")
    (175, 1)
    """
    return math.prod(int(part) for part in shape.split(" × "))


def _preview_table(message: dict[str, Any]) -> Table:
    rows = [
        (item["name"], item["numbers"], item["meaning"], item["computed_from"])
        for item in message["fields"]
    ]
    return _fields_table(message["message"], message["sha256"], rows)


def _fields_table(message: str, sha256: str, rows: Sequence[tuple[str, ...]]) -> Table:
    """The fields of one message.

    Parameters
    ----------
    message : str
        Its kind.
    sha256 : str
    rows : sequence of tuple of str
    """
    caption = f"Fields of the {message} {sha256[:8]}"
    headings = ("field", "numbers", "what it is", "computed from")
    return Table(caption, headings, rows, (0, 2, 3), (2, 3))


def _values(message: dict[str, Any]) -> list[tuple[str, str]]:
    """The values of a message that is to the bit what would leave; of others they mean nothing."""
    fields = message["fields"] if message["exact"] else ()
    return [(item["name"], _cut(json.dumps(item["value"], ensure_ascii=False))) for item in fields]


def _cut(text: str) -> str:
    more = len(text) - _MOST_VALUES
    return printable(text[:_MOST_VALUES]) + (f" … and {more} more characters" if more > 0 else "")


def _sent_table(sent: Sequence[tuple[Sent, str]], caption: str) -> Table:
    """Messages that left, one line each.

    Parameters
    ----------
    sent : sequence of (Sent, str)
        As `without_repeats` gives them.
    caption : str
    """
    rows = [
        (
            what, line.entry.recipient, line.numbers,
            line.entry.time[:16].replace("T", " "), line.entry.study, line.entry.sha256[:8],
        )
        for line, what in sent
    ]  # fmt: skip
    headings = ("message", "to", "numbers", "time (UTC)", "study", "SHA-256")
    return Table(caption, headings, rows, (0, 1, 3, 4, 5), (4,))


def _table_state(site: SiteFile) -> object:
    """Something that changes whenever the table's file does."""
    try:
        return file_state(site.folder / (site.table or site.table1 or site.database))
    except (OSError, DataError):
        return None


# Computed beside the page -------------------------------------------------------------------


class Previews:
    """Previews at one site; a fit of minutes neither stops a page nor outlives it.

    Parameters
    ----------
    site_file : Path
    """

    def __init__(self, site_file: Path) -> None:
        self._site_file = site_file.absolute()
        self._found: dict[str, dict[str, Any]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._key = ""
        self._out: IO[bytes] | None = None

    def look(self, key: str, text: str) -> dict[str, Any] | None:
        """The preview of a study; None while it is being computed.

        Parameters
        ----------
        key : str
            Of everything that the preview depends on: another key is another preview.
        text : str
            Of the agreed study.
        """
        self._collect()
        if key not in self._found and self._child is None:
            self._start(key, text)
        return self._found.get(key)

    def forget(self, key: str) -> None:
        """Compute a preview anew when it is asked for again."""
        self._found.pop(key, None)

    def end(self) -> None:
        """End what is being computed."""
        if self._child is not None and self._out is not None:
            self._child.kill()
            self._child.wait()
            self._out.close()
            self._child = self._out = None

    def _start(self, key: str, text: str) -> None:
        """Let a child compute a preview.

        Parameters
        ----------
        key, text : str
            As for `look`.
        """
        self._key, self._out = key, tempfile.TemporaryFile()  # noqa: SIM115 - closed when read
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        with tempfile.TemporaryFile() as study:
            study.write(text.encode())
            study.seek(0)
            command = ["fedcsa.site.preview", str(self._site_file)]
            self._child = start_child(command, threads, stdin=study, stdout=self._out)

    def _collect(self) -> None:
        """Keep what a child that has ended wrote."""
        if self._child is None or self._out is None or self._child.poll() is None:
            return
        self._out.seek(0)
        try:
            found = json.loads(self._out.read())
        except ValueError:
            found = {"error": f"The preview ended with code {self._child.returncode}."}
        self.end()
        self._found[self._key] = found
        for old in list(self._found)[:-_MOST_KEPT]:
            del self._found[old]
