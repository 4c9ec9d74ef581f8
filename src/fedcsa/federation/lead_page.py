"""The lead's page: where every study is that this command asks for, on this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fedcsa.federation.progress import StudyProgress
from fedcsa.loopback import require_page


@contextmanager
def page_of(studies: Callable[[], Mapping[str, StudyProgress]]) -> Iterator[str]:
    """Serve the page meanwhile; its one-time link.

    Parameters
    ----------
    studies : function
        Where the studies are now, by id.
    """
    require_page()
    from fedcsa.loopback.guard import Visit
    from fedcsa.loopback.layout import Shown
    from fedcsa.loopback.serving import served

    def overview(visit: Visit) -> Shown:  # noqa: ARG001 - a view gets its visit
        return Shown("fedcsa.federation:lead.html.jinja", {"studies": list(studies().values())})

    again = "For another link, stop the command and start it again: fedcsa study watch --page"
    with served({"GET /": overview}, again) as guard:
        yield guard.new_link()
