"""The coordinator's side: runs at the server, holds no data, watches the clock."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedcsa.errors import MessageError, ProtocolError
from fedcsa.federation.coordinator import Arrived, Content, Coordinator
from fedcsa.federation.flare.hardening import write_json
from fedcsa.federation.flare.letters import pack, unpack

#: What the submitting side asks a running job.
PROGRESS = "fedcsa.progress"
#: Seconds that a finished job waits for the submitting side to fetch how it ended: it asks
#: several times a second, unless its connection broke.
LINGER = 30.0
#: Seconds between two looks at the clock.
_POLL = 0.05


class StudyController(Controller):  # type: ignore[misc]
    """Carries one study through its steps.

    Parameters
    ----------
    target : str
    sources : list of str
    deadline : float
        Seconds that a step may take.
    """

    def __init__(self, target: str, sources: list[str], deadline: float) -> None:
        super().__init__(task_check_period=_POLL)
        self._deadline = deadline
        self.study = Coordinator(target, sorted(sources))
        self._fetched = threading.Event()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let the submitting side look where the study is."""
        fl_ctx.get_engine().register_app_command(PROGRESS, self._tell)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left open."""

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None:
        """Too late: the step is over.

        Parameters
        ----------
        client, task_name, client_task_id, result, fl_ctx
            As the engine gives them.
        """

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the study and write down where it ended.

        Parameters
        ----------
        abort_signal : Signal
        fl_ctx : FLContext
        """
        try:
            self.study.run(partial(self._deliver, abort_signal, fl_ctx))
        except Exception as error:  # the engine would log the text of a foreign one
            ours = isinstance(error, ProtocolError)
            foreign = f"{type(error).__name__} came inside the coordinator."
            self.study.problem = str(error) if ours else foreign
            self.study.step = "failed"
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        folder = Path(workspace.get_run_dir(fl_ctx.get_job_id()))
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "fedcsa.json", {**self.study.to_plain(), "conclusion": ""})
        end = time.monotonic() + LINGER
        while not self._fetched.wait(_POLL) and time.monotonic() < end:
            if abort_signal.triggered:
                return

    def _tell(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:  # noqa: ARG002
        """Where the study is, for the submitting side.

        Parameters
        ----------
        topic, fl_ctx
            As the engine gives them.
        data : dict or None
            Says when the end was fetched: then the job may go.
        """
        if data and data.get("fetched"):
            self._fetched.set()
        return self.study.to_plain()

    def _deliver(
        self,
        abort: Signal,
        fl_ctx: FLContext,
        step: str,
        letters: Mapping[str, Content],
        arrived: Arrived,
    ) -> dict[str, Content]:
        """Send every letter as a task of its own, and wait until the deadline at most.

        Parameters
        ----------
        abort : Signal
        fl_ctx : FLContext
        step, letters, arrived
            As for `fedcsa.federation.coordinator.Deliver`.
        """
        replies = _Replies(letters, arrived)
        connected = {client.name for client in fl_ctx.get_engine().get_clients()}
        tasks = {}
        for name in letters:
            if name in connected:
                tasks[name] = Task(
                    name=step, data=pack(letters[name]), timeout=math.ceil(self._deadline),
                    result_received_cb=replies.receive,
                )  # fmt: skip
                self.broadcast(tasks[name], fl_ctx, targets=[name], min_responses=1)

        def is_over() -> bool:
            """Asked at every reply, and every `_POLL` seconds for what comes without one."""
            late = time.monotonic() > end or abort.triggered
            return late or all(
                name in replies.ended or task.completion_status for name, task in tasks.items()
            )

        end = time.monotonic() + self._deadline
        with replies.news:
            while not is_over():
                replies.news.wait(_POLL)
        for task in tasks.values():
            if task.completion_status is None:
                self.cancel_task(task, fl_ctx=fl_ctx)
        if abort.triggered:  # a step cut short must not look like one with sources missing
            raise ProtocolError("The study was aborted from outside. Submit it again.")
        with replies.news:
            return dict(replies.came)


class _Replies:
    """The replies of one step, which come on threads of the engine.

    Parameters
    ----------
    names : collection of str
        The sites that were asked.
    arrived : function
        Called with a site and its letter, once a site.

    Attributes
    ----------
    news : threading.Condition
        To hold while one looks at the others.
    came : dict of str to Content
    ended : set of str
        Sites that replied, with a letter or without.
    """

    def __init__(self, names: Collection[str], arrived: Arrived) -> None:
        self._names = names
        self._arrived = arrived
        self.news = threading.Condition()
        self.came: dict[str, Content] = {}
        self.ended: set[str] = set()

    def receive(self, client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG002
        """Take what a site replied; its first letter counts.

        Parameters
        ----------
        client_task : ClientTask
        fl_ctx : FLContext
            As the engine gives it.
        """
        name, content = client_task.client.name, _content(client_task.result)
        client_task.result = None
        with self.news:
            if content is not None and name in self._names and name not in self.came:
                self.came[name] = content
                self._arrived(name, content)
            self.ended.add(name)
            self.news.notify()


def _content(result: Shareable | None) -> Content | None:
    if result is None or result.get_return_code() != ReturnCode.OK:
        return None
    try:
        return unpack(result)
    except MessageError:
        return {"malformed": b""}
