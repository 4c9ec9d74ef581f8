"""The coordinator: it carries sealed messages between the target and the sources.

::

    announce   target  ──►  one brief, an envelope for every source
    risk       sources ◄──  brief          ──►  risk report or refusal
    choose     target  ◄──  all of them    ──►  one request, an envelope for every source left
    model      sources ◄──  request        ──►  model or refusal
    mix        target  ◄──  all of them    ──►  the others' mixture, for every source another
    examine    sources ◄──  mixture        ──►  examination report or refusal
    conclude   target  ◄──  all of them    ──►  conclusion; the model stays at the target

It holds no data, and decides nothing but who is late. An envelope names its message by digest.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fedcsa.errors import MessageError, ProtocolError
from fedcsa.messages.codec import decode
from fedcsa.messages.envelope import Envelope
from fedcsa.messages.messages import Refusal

#: Plain values: bytes, texts, and dictionaries of them.
Content = dict[str, Any]
Arrived = Callable[[str, Content], None]


class Courier(Protocol):
    """Delivers letters to sites and brings back what comes in time."""

    def deliver(
        self, task: str, letters: Mapping[str, Content], arrived: Arrived
    ) -> dict[str, Content]:
        """Replies by site; whoever is late is not among them."""
        ...


class Board:
    """Where the study is: for whoever submitted it."""

    def __init__(self, target: str, sources: list[str]) -> None:
        self.target = target
        self.step = "starting"
        self.sites: dict[str, str] = dict.fromkeys([target, *sources], "waiting")
        self.seconds: dict[str, float] = {}
        self.n_bytes: dict[str, int] = {}
        self.conclusion: bytes | None = None
        self.envelope = b""
        self.problem = ""

    def to_plain(self) -> dict[str, Any]:
        """As plain values."""
        packed = base64.b64encode(self.conclusion).decode() if self.conclusion else ""
        return {
            "step": self.step,
            "sites": dict(self.sites),
            "seconds": dict(self.seconds),
            "bytes": dict(self.n_bytes),
            "conclusion": packed,
            "envelope": base64.b64encode(self.envelope).decode(),
            "problem": self.problem,
        }


def carry_out(courier: Courier, board: Board, sources: list[str]) -> None:
    """Take a study through its steps; the board tells where it is and how it ended.

    Parameters
    ----------
    courier : Courier
    board : Board
    sources : list of str
    """
    post = _ask_target(courier, board, "announce", {"sources": list(sources)})
    for phase, then in (("risk", "choose"), ("model", "mix"), ("examine", "conclude")):
        if board.conclusion is not None:
            return
        replies = _ask_sources(courier, board, phase, post)
        post = _ask_target(courier, board, then, {"replies": replies})


def _ask_target(courier: Courier, board: Board, step: str, content: Content) -> Content:
    board.sites[board.target] = step
    came = _timed(courier, board, step, {board.target: content}, lambda *_: None)
    if board.target not in came:
        raise ProtocolError(f"The target {board.target!r} must answer; it did not ({step}).")
    reply = came[board.target]
    board.sites[board.target] = "answered"
    if "conclusion" in reply:
        board.conclusion, board.envelope = reply["conclusion"], reply.get("envelope", b"")
        board.step = "done"
    return reply


def _ask_sources(courier: Courier, board: Board, phase: str, post: Content) -> Content:
    letters = {
        name: {"envelope": wire, "payload": post["payloads"][Envelope.from_bytes(wire).digest]}
        for name, wire in sorted(post["envelopes"].items())
    }
    for name in letters:
        board.sites[name] = f"{phase}: asked"

    def arrived(name: str, reply: Content) -> None:
        board.sites[name] = f"{phase}: {_kind_of(reply)}"

    came = _timed(courier, board, phase, letters, arrived)
    for name in letters:
        if name not in came:
            board.sites[name] = f"{phase}: missing"
    return came


def _timed(
    courier: Courier, board: Board, step: str, letters: Mapping[str, Content], arrived: Arrived
) -> dict[str, Content]:
    board.step = step
    start = time.monotonic()
    came = courier.deliver(step, letters, arrived)
    board.seconds[step] = round(time.monotonic() - start, 3)
    board.n_bytes[step] = _size(letters) + _size(came)
    return came


def _kind_of(reply: Content) -> str:
    try:
        message = decode(reply["payload"])
    except (MessageError, LookupError, TypeError):
        return "malformed"
    return f"refused, {message.rule[:60]}" if isinstance(message, Refusal) else "answered"


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_size(item) for item in value.values())
    return len(value) if isinstance(value, bytes | str) else 0
