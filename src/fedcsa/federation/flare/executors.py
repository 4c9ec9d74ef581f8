"""The sites' side: a task in, a letter out; what happens inside stays inside."""

from __future__ import annotations

import base64

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedcsa.errors import FedCSAError
from fedcsa.federation.flare.letters import pack, unpack
from fedcsa.federation.flare.settings import seal_of, site_of
from fedcsa.messages.envelope import check_start
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.desk import Desk
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.state import Status


class SiteExecutor(Executor):  # type: ignore[misc]
    """Lets a site's desk answer: the target's at the target, a source's elsewhere.

    Parameters
    ----------
    study : str
        Text of the study file in base64: braces in a job's texts are templates to the engine.
    target : str
        Name of the target's site.
    min_sources : int
        With fewer there is no model.
    wait : bool
        Whether the study waits for sources at which nobody has decided yet.
    start : str
        The lead's signed envelope in base64: who asks whom for which study, and the key for the
        conclusion.
    """

    def __init__(self, study: str, target: str, min_sources: int, wait: bool, start: str) -> None:
        super().__init__()
        self._study = study
        self._target = target
        self._min_sources = min_sources
        self._wait = wait
        self._wire = start
        self._desk: Desk | None = None

    def execute(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,  # noqa: ARG002 - nothing here takes long enough to be stopped
    ) -> Shareable:
        """Answer a letter; every error becomes a return code without a text.

        Parameters
        ----------
        task_name : str
            The step or phase.
        shareable : Shareable
            The letter.
        fl_ctx, abort_signal
            As the engine gives them.
        """
        try:
            letter = unpack(shareable)
            if self._desk is None:
                self._desk = self._open_desk(fl_ctx)
            return pack(self._desk.take(task_name, letter))
        except Exception as error:  # its text stays out of the engine's logs: they leave the site
            self.log_warning(fl_ctx, f"{task_name} failed: {type(error).__name__}")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)

    def _open_desk(self, fl_ctx: FLContext) -> Desk:
        name, site, seal = fl_ctx.get_identity_name(), site_of(fl_ctx), seal_of(fl_ctx)
        agreed = AgreedStudy(base64.b64decode(self._study).decode())
        start = check_start(base64.b64decode(self._wire), agreed.id, self._target, seal)
        if name == self._target:
            from fedcsa.site.target_desk import TargetDesk  # a source's process starts without it

            return TargetDesk(
                name, site, agreed, start, seal, min_sources=self._min_sources, wait=self._wait
            )
        return SourceDesk(name, site, agreed, start, seal)


class Presence(FLComponent):  # type: ignore[misc]
    """Tells the person beside a site that it is connected."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Write a line into the site's status once the server has accepted it.

        Parameters
        ----------
        event_type : str
        fl_ctx : FLContext
        """
        if event_type == EventType.AFTER_CLIENT_REGISTER:
            try:
                Status(site_of(fl_ctx).state_folder).say("connected, waiting for a study")
            except (FedCSAError, OSError) as error:
                self.log_warning(fl_ctx, f"no status: {type(error).__name__}")
