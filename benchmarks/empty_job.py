"""An empty job of the engine: the floor of a study between sites, with nothing of ours in it.

The same processes start and connect as for a study, every site is asked once and replies nothing,
and the lead looks until that is done: ``python -m benchmarks.empty_job KIT USER SITE…``.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

DONE = "empty.done"
#: Classes that the job names.
CLASSES = tuple(f"benchmarks.empty_job.{name}" for name in ("EmptyController", "EmptyExecutor"))


class EmptyController(Controller):  # type: ignore[misc]
    """Asks every site once."""

    def __init__(self) -> None:
        super().__init__(task_check_period=0.05)
        self._fetched = False
        self._done = False

    def start_controller(self, fl_ctx: Any) -> None:
        """Let the lead look."""
        fl_ctx.get_engine().register_app_command(DONE, self._tell)

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is left open."""

    def process_result_of_unknown_task(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is expected."""

    def _tell(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        self._fetched = self._done
        return {"done": self._done}

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """One round."""
        sites = len(fl_ctx.get_engine().get_clients())
        task = Task(name="ask", data=Shareable(), timeout=120)
        self.broadcast_and_wait(task, fl_ctx, min_responses=sites, abort_signal=abort_signal)
        self._done = True
        while not self._fetched and not abort_signal.triggered:
            time.sleep(0.05)


class EmptyExecutor(Executor):  # type: ignore[misc]
    """Replies nothing."""

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:  # noqa: ARG002
        """A reply without content."""
        return make_reply(ReturnCode.OK)


def write_job(folder: Path, sites: list[str]) -> Path:
    """The folder of the job."""
    meta = {
        "name": "empty", "resource_spec": {}, "min_clients": len(sites),
        "deploy_map": {"app_server": ["server"], "app_site": sites},
    }  # fmt: skip
    server = {
        "format_version": 2, "server": {"heart_beat_timeout": 600, "task_request_interval": 0.1},
        "workflows": [{"id": "empty", "path": CLASSES[0], "args": {}}], "components": [],
        "task_data_filters": [], "task_result_filters": [],
    }  # fmt: skip
    site = {
        "format_version": 2, "components": [], "task_data_filters": [], "task_result_filters": [],
        "executors": [{"tasks": ["ask"], "executor": {"path": CLASSES[1], "args": {}}}],
    }  # fmt: skip
    files = {"meta": meta, "app_server/config/config_fed_server": server}
    files["app_site/config/config_fed_client"] = site
    for name, content in files.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def bare(kit: Path) -> None:
    """Take our components out of a kit: the processes of the next job start without them."""
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text(encoding="utf-8"))
    parts = resources["components"]
    resources["class_allow_list"] = list(CLASSES)
    resources["components"] = [part for part in parts if part["id"] != "fedcsa_presence"]
    path.write_text(json.dumps(resources), encoding="utf-8")
    privacy = kit / "local" / "privacy.json"
    if privacy.exists():
        content = json.loads(privacy.read_text(encoding="utf-8"))
        content["scopes"][0]["task_result_filters"] = []
        privacy.write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    kit, user, *sites = sys.argv[1:]
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()):
        session = new_secure_session(user, kit, timeout=10.0)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            job = session.submit_job(str(write_job(Path(scratch) / "job", sites)))
        done = False
        while not done:
            time.sleep(0.3)  # as a study's lead does
            with contextlib.suppress(Exception):  # it does not run yet
                done = bool(session.do_app_command(job, DONE, {}).get("done"))
    finally:
        session.close()


if __name__ == "__main__":
    main()
