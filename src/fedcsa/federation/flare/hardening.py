"""What a kit must say, against what the engine does by default.

Every rule is written here once: `harden` applies them all, and `problems_of` finds whatever was
taken back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: As the engine writes these files.
_INDENT = 2
_HERE = "fedcsa.federation.flare"
#: Our classes that a job names, and those that a kit names itself.
CONTROLLER, EXECUTOR = f"{_HERE}.controller.StudyController", f"{_HERE}.executors.SiteExecutor"
PRESENCE, FILTER = f"{_HERE}.executors.Presence", f"{_HERE}.egress.EgressFilter"
#: The only classes that a job may name: four, not all that is installed.
ALLOWED = [CONTROLLER, EXECUTOR, FILTER, PRESENCE]
#: They carry log lines, and with them the texts of exceptions, to the server.
_LOG_CARRIERS = ("site_log_streamer", "log_receiver")
#: Error texts and log levels of a site are its own; a right of its own overrides "view".
_NOTHING = {
    "submit_job": "none", "clone_job": "none", "manage_job": "none", "download_job": "none",
    "operate": "none", "shell_commands": "none", "byoc": "none",
    "server-predeployed-flwr": "none", "app_command": "none",
    "show_errors": "none", "reset_errors": "none", "configure_job_log": "none",
}  # fmt: skip
#: Rights by the engine's roles: a lead submits, and ends or fetches its own jobs; all may look.
AUTHORIZATION = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {**_NOTHING, "view": "any"},
        "org_admin": {**_NOTHING, "view": "any"},
        "lead": {
            **_NOTHING,
            "submit_job": "any", "manage_job": "n:submitter", "download_job": "n:submitter",
            "app_command": "n:submitter",
            "view": "any",
        },
        "member": {**_NOTHING, "view": "any"},
    },
}  # fmt: skip
#: Every job is in this scope, so that whatever leaves a site passes its filter.
PRIVACY = {
    "scopes": [
        {
            "name": "fedcsa",
            "properties": {},
            "task_result_filters": [{"path": FILTER, "args": {}, "direction": "out"}],
            "task_data_filters": [],
        }
    ],
    "default_scope": "fedcsa",
}


def harden(kit: Path, role: str) -> None:
    """Apply every rule to the kit of a server, source or target.

    Parameters
    ----------
    kit : Path
    role : {"server", "source", "target"}
    """
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = ALLOWED
    kept = [part for part in resources["components"] if part["id"] not in _LOG_CARRIERS]
    resources["components"] = kept
    if role == "server":
        resources["servers"][0]["heart_beat_timeout"] = 30
        for part in kept:
            if part["id"] == "job_scheduler":  # a site may come back: try again, and soon
                part["args"] = {
                    "max_jobs": 4, "max_schedule_count": 100,
                    "min_schedule_interval": 1.0, "max_schedule_interval": 10.0,
                }  # fmt: skip
    else:
        resources["allow_log_streaming"] = False
        kept.append({"id": "fedcsa_presence", "path": PRESENCE, "args": {}})
        write_json(local / "privacy.json", PRIVACY, _INDENT)
    write_json(local / "resources.json", resources, _INDENT)
    write_json(local / "authorization.json", AUTHORIZATION, _INDENT)
    if role == "server":
        settle(kit)


def settle(kit: Path) -> None:
    """Point the server's stores into the kit, wherever it is now."""
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text(encoding="utf-8"))
    stores = kit.absolute() / "stores"
    for part in ("jobs", "snapshots"):
        (stores / part).mkdir(parents=True, exist_ok=True)
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(
        stores / "snapshots"
    )
    for part in resources["components"]:
        if part["id"] == "job_manager":
            part["args"]["uri_root"] = str(stores / "jobs")
    write_json(path, resources, _INDENT)


def problems_of(kit: Path, role: str) -> list[str]:
    """What was taken back, one sentence each, with how to mend it.

    Parameters
    ----------
    kit : Path
    role : {"server", "source", "target"}
    """
    resources = _read(kit / "local" / "resources.json")
    rights = _read(kit / "local" / "authorization.json").get("permissions")
    carriers = [part.get("id") in _LOG_CARRIERS for part in resources.get("components", [])]
    enforced = resources.get("class_list_enforcement_mode") == "enforce"
    rules = {
        "A job can name classes outside fedcsa: the allow-list is wider.":
            resources.get("class_allow_list") == ALLOWED,
        "The list of allowed classes is not enforced.": enforced,
        "Log lines leave their site: a component carries them off.": not any(carriers),
        "Others than a lead can submit, or someone can send code or run commands: the rights in "
        "authorization.json are wider.": rights == AUTHORIZATION["permissions"],
    }  # fmt: skip
    if role != "server":
        scopes = _read(kit / "local" / "privacy.json").get("scopes")
        rules["Log streaming is on."] = resources.get("allow_log_streaming") is False
        rules["Outgoing messages do not pass the egress filter."] = scopes == PRIVACY["scopes"]
    mend = f"Make the kit again with: fedcsa federation renew {kit.name}"
    found = [f"{text} {mend}" for text, kept in rules.items() if not kept]
    stores = json.dumps(resources.get("snapshot_persistor", {}))
    if role == "server" and str(kit.absolute()) not in stores:
        found.append("The server's stores lie outside its kit. Start it once: it mends that.")
    return found


def write_json(path: Path, content: Mapping[str, Any], indent: int = 1) -> None:
    """Write settings, or what became of a study.

    Parameters
    ----------
    path : Path
    content : mapping
    indent : int
    """
    path.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
