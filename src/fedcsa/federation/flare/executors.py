"""The sites' side: a task in, a letter out; whatever happens inside stays inside."""

from __future__ import annotations

import base64
import time
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedcsa.errors import FedCSAError
from fedcsa.federation.flare.letters import pack, unpack
from fedcsa.federation.flare.seal import seal_of
from fedcsa.federation.flare.settings import site_of
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.target_desk import Post, TargetDesk

#: Who gets the conclusion.
LEAD = "lead"
#: Of the deadline, what a person may use up; the rest is for computing and sending.
_PATIENCE = 0.8


class SourceExecutor(Executor):  # type: ignore[misc]
    """Answers for a source.

    Parameters
    ----------
    study : str
        Text of the study file in base64: braces in a job's texts are templates to the engine.
    target : str
        Name of the target's site.
    deadline : float
        Seconds that a step may take.
    """

    def __init__(self, study: str, target: str, deadline: float = 600) -> None:
        super().__init__()
        self._study = study
        self._target = target
        self._deadline = deadline
        self._desk: SourceDesk | None = None
        self._until = 0.0
        self._abort: Signal | None = None

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Answer a question; every error becomes a return code without a text."""
        self._until = time.monotonic() + _PATIENCE * self._deadline
        self._abort = abort_signal
        try:
            letter = unpack(shareable)
            if self._desk is None:
                self._desk = SourceDesk(
                    fl_ctx.get_identity_name(), site_of(fl_ctx), _agreed(self._study),
                    self._target, self._wait, seal_of(fl_ctx),
                )  # fmt: skip
            envelope, payload = self._desk.answer(letter["envelope"], letter["payload"])
            return pack({"envelope": envelope, "payload": payload})
        except Exception as error:
            return _failed(self, fl_ctx, task_name, error)

    def _wait(self) -> bool:
        stopped = self._abort is not None and self._abort.triggered
        if stopped or time.monotonic() > self._until:
            return False
        time.sleep(0.2)
        return True


class TargetExecutor(Executor):  # type: ignore[misc]
    """Speaks for the target.

    Parameters
    ----------
    study : str
        As for `SourceExecutor`.
    min_sources : int
    nonce : str
        Of the submission, which the conclusion answers.
    """

    def __init__(self, study: str, min_sources: int = 1, nonce: str = "") -> None:
        super().__init__()
        self._nonce = nonce
        self._study = study
        self._min_sources = min_sources
        self._desk: TargetDesk | None = None

    def execute(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,  # noqa: ARG002
    ) -> Shareable:
        """Announce, choose, mix or conclude."""
        try:
            letter = unpack(shareable)
            if self._desk is None:
                self._desk = TargetDesk(
                    fl_ctx.get_identity_name(), site_of(fl_ctx), _agreed(self._study),
                    self._min_sources, seal_of(fl_ctx),
                )  # fmt: skip
            return pack(_step(self._desk, task_name, letter, self._nonce))
        except Exception as error:
            return _failed(self, fl_ctx, task_name, error)


def _step(desk: TargetDesk, step: str, letter: dict[str, Any], nonce: str) -> dict[str, Any]:
    try:
        if step == "announce":
            return _posted(desk.brief())
        replies = {
            name: (item.get("envelope", b""), item.get("payload", b""))
            for name, item in letter["replies"].items()
        }
        if step == "choose":
            return _posted(desk.choose(replies))
        if step == "mix":
            return _posted(desk.mix(replies))
        conclusion = desk.conclude(replies)
    except FedCSAError as error:
        conclusion = desk.failed(error)
    envelope, payload = desk.send(conclusion, LEAD, nonce)
    return {"envelope": envelope, "conclusion": payload}


def _posted(post: Post) -> dict[str, Any]:
    return {"payloads": dict(post.payloads), "envelopes": dict(post.envelopes)}


def _agreed(study: str) -> AgreedStudy:
    return AgreedStudy(base64.b64decode(study).decode())


def _failed(executor: Executor, fl_ctx: FLContext, task_name: str, error: Exception) -> Shareable:
    """Its text stays out of the engine's logs: they are not ours to guard."""
    executor.log_warning(fl_ctx, f"{task_name} failed: {type(error).__name__}")
    return make_reply(ReturnCode.EXECUTION_EXCEPTION)
