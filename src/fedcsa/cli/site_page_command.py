"""``fedcsa site page``, and the page of ``fedcsa site start --page``."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from fedcsa.cli.common import Json, Output, Quiet, named_errors
from fedcsa.cli.declared import argument, option

if TYPE_CHECKING:
    from fedcsa.federation.flare.kits import Kit

Port = Annotated[
    int, option("--page-port", metavar="PORT", help="Of the page; by default a free one.")
]
#: A running site is looked at so often, in seconds.
_TICK = 0.2


@named_errors
def page(
    kit: Annotated[Path, argument(metavar="KIT", help="This site's start-up kit.")],
    data: Annotated[Path, option("--data", metavar="SITE", help="The site's own file.")] = Path(
        "site.toml"
    ),
    page_port: Port = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Serve the steward's page on this machine, until Ctrl-C, for a site that runs or not.

    The page shows what waits, what would leave and what left, and takes decisions. Prints a link
    that opens it once; run the command again for another link. Only a browser on this machine
    can open it.

    Examples
    --------
    fedcsa site page kits/abbey --data site.toml
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.process import until_stopped
    from fedcsa.site.site_file import SiteFile

    SiteFile.load(data)
    about, output = Kit.load(kit), Output(json, quiet)
    with until_stopped() as stopped, steward_page(kit, data, about, page_port, output):
        while not stopped.wait(_TICK):
            pass


@contextmanager
def steward_page(kit: Path, data: Path, about: Kit, port: int, output: Output) -> Iterator[None]:
    """Serve the page of a site within a block, and say how to open it.

    Parameters
    ----------
    kit, data : Path
        The site's kit and its own file.
    about : Kit
    port : int
        Zero for a free one.
    output : Output
    """
    from fedcsa.loopback import require_page

    require_page()
    from fedcsa.federation.flare.doctor import engine_runs
    from fedcsa.loopback.pages import served
    from fedcsa.site.steward_page import StewardPage

    shown = StewardPage(data, about.participant, lambda: engine_runs(kit), _user())
    again = "For another link, run: fedcsa site page KIT --data SITE"
    try:
        with served(shown.views, again, port) as guard:
            link = guard.new_link()
            text = f"The page opens once, in a browser on this machine: {link}"
            output.line({"page": link}, text)
            if output.quiet and not output.json:
                click.echo(link)
            yield
    finally:
        shown.end()


def _user() -> str:
    """Who runs this command; empty where the system knows no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
