"""A site's own settings, where its processes find them: in the kit, never in a job."""

from __future__ import annotations

import json
from pathlib import Path

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext

from fedcsa.errors import StudyError
from fedcsa.federation.flare.hardening import write_json
from fedcsa.federation.flare.seal import KitSeal, open_seal
from fedcsa.site.site_file import SiteFile

#: File of a kit that says where the site's own file is.
SETTINGS = "fedcsa.json"


def write_settings(kit: Path, site_file: Path) -> None:
    """Tell the processes of a kit where the site's file is.

    Parameters
    ----------
    kit : Path
    site_file : Path
    """
    write_json(kit / "local" / SETTINGS, {"site_file": str(site_file.absolute())})


def read_settings(local: Path) -> Path:
    """Where the site's file is."""
    try:
        return Path(json.loads((local / SETTINGS).read_text(encoding="utf-8"))["site_file"])
    except (OSError, ValueError, LookupError, TypeError):
        raise StudyError(
            "This site was started without its own file. Start it with: "
            "fedcsa site start KIT --data site.toml"
        ) from None


def startup_of(fl_ctx: FLContext) -> Path:
    """The start-up folder of the kit of the site that a job runs at."""
    return Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_startup_kit_dir())


def seal_of(fl_ctx: FLContext) -> KitSeal:
    """The seal of the site that a job runs at."""
    return open_seal(startup_of(fl_ctx))


def site_of(fl_ctx: FLContext) -> SiteFile:
    """The site's file as it is now: a desk reads it once a job, the filter for every letter."""
    workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
    return SiteFile.load(read_settings(Path(workspace.get_site_config_dir())))
