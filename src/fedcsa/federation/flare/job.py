"""A study as a job folder: names of our classes and texts, no code."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedcsa.messages.envelope import PHASES
from fedcsa.site.agreed import AgreedStudy

_HERE = "fedcsa.federation.flare"
#: What the target does between the phases.
STEPS = ("announce", "choose", "mix", "conclude")


@dataclass(frozen=True)
class Submission:
    """What is submitted.

    Attributes
    ----------
    agreed : AgreedStudy
    target : str
        Name of the target's site.
    min_sources : int
        With fewer there is no model.
    deadline : int
        Seconds that a step may take.
    nonce : str
        That the target's conclusion must answer; by default a fresh one.
    """

    agreed: AgreedStudy
    target: str
    min_sources: int
    deadline: int
    nonce: str = field(default_factory=partial(secrets.token_hex, 16))


def write_job(submission: Submission, folder: Path) -> Path:
    """Write the job folder that the engine takes."""
    agreed, target = submission.agreed, submission.target
    sources = list(agreed.sources)
    _write(folder / "meta.json", {
        "name": "".join(c if c.isalnum() else "-" for c in agreed.name)[:60],
        "resource_spec": {},
        "min_clients": 1 + submission.min_sources,
        "mandatory_clients": [target],
        "deploy_map": {"app_server": ["server"], "app_site": [target, *sources]},
    })  # fmt: skip
    _write(folder / "app_server" / "config" / "config_fed_server.json", {
        "format_version": 2,
        "server": {"heart_beat_timeout": 600, "task_request_interval": 0.1},
        "task_data_filters": [], "task_result_filters": [], "components": [],
        "workflows": [{
            "id": "study", "path": f"{_HERE}.controller.StudyController",
            "args": {"target": target, "sources": sources, "deadline": submission.deadline},
        }],
    })  # fmt: skip
    _write(folder / "app_site" / "config" / "config_fed_client.json", {
        "format_version": 2,
        "executors": [{
            "tasks": [*STEPS, *PHASES],
            "executor": {
                "path": f"{_HERE}.executors.SiteExecutor",
                "args": {
                    "study": base64.b64encode(agreed.text.encode()).decode(), "target": target,
                    "deadline": submission.deadline, "min_sources": submission.min_sources,
                    "nonce": submission.nonce,
                },
            },
        }],
        "task_data_filters": [], "task_result_filters": [], "components": [],
    })  # fmt: skip
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
