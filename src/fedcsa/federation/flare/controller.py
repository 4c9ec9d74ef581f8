"""The coordinator's side: runs at the server, holds no data, watches the clock."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
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
from fedcsa.federation.flare.letters import pack, unpack

#: What the submitting side asks a running job.
PROGRESS = "fedcsa.progress"
#: How long a finished job waits for the submitting side to fetch how it ended.
LINGER = 30.0
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

    def __init__(self, target: str, sources: list[str], deadline: float = 600) -> None:
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
        """Too late: the step is over."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the study and write down where it ended."""
        courier = _Courier(self, abort_signal, fl_ctx, self._deadline)
        try:
            self.study.run(courier.deliver)
        except ProtocolError as error:
            self.study.problem = str(error)
            self.study.step = "failed"
        except Exception as error:  # the engine would log its text
            self.study.problem = f"{type(error).__name__} came inside the coordinator."
            self.study.step = "failed"
        self._write(fl_ctx)
        end = time.monotonic() + LINGER
        while not self._fetched.wait(_POLL) and time.monotonic() < end:
            if abort_signal.triggered:
                return

    def _tell(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:  # noqa: ARG002
        if data and data.get("fetched"):
            self._fetched.set()
        return self.study.to_plain()

    def _write(self, fl_ctx: FLContext) -> None:
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        folder = Path(workspace.get_run_dir(fl_ctx.get_job_id()))
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.study.to_plain(), "conclusion": ""}, indent=1)
        (folder / "fedcsa.json").write_text(text + "\n", encoding="utf-8")


class _Courier:
    def __init__(
        self, controller: StudyController, abort: Signal, fl_ctx: FLContext, deadline: float
    ) -> None:
        self._controller = controller
        self._abort = abort
        self._fl_ctx = fl_ctx
        self._deadline = deadline

    def deliver(
        self, task: str, letters: Mapping[str, Content], arrived: Arrived
    ) -> dict[str, Content]:
        """Send every letter as a task of its own, and wait until the deadline at most."""
        came: dict[str, Content] = {}
        lock = threading.Lock()

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            name, content = client_task.client.name, _content(client_task.result)
            client_task.result = None
            if content is not None and name in letters:
                with lock:
                    first = name not in came
                    came.setdefault(name, content)
                if first:
                    arrived(name, content)

        tasks = {}
        taking_part = {client.name for client in self._fl_ctx.get_engine().get_clients()}
        for name, letter in letters.items():
            if name not in taking_part:
                continue  # not connected when the job began
            tasks[name] = Task(
                name=task,
                data=pack(letter),
                timeout=math.ceil(self._deadline),
                result_received_cb=received,
            )
            self._controller.broadcast(tasks[name], self._fl_ctx, targets=[name], min_responses=1)
        end = time.monotonic() + self._deadline
        while time.monotonic() < end and any(t.completion_status is None for t in tasks.values()):
            if self._abort.triggered:
                break
            time.sleep(_POLL)
        for item in tasks.values():
            if item.completion_status is None:
                self._controller.cancel_task(item, fl_ctx=self._fl_ctx)
        if self._abort.triggered:  # a step cut short must not look like one with sources missing
            raise ProtocolError("The study was ended from outside; submit it again.")
        with lock:
            return dict(came)


def _content(result: Shareable | None) -> Content | None:
    if result is None or result.get_return_code() != ReturnCode.OK:
        return None
    try:
        return unpack(result)
    except MessageError:
        return {"malformed": b""}
