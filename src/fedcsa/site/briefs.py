"""What a source has answered to a target: how many briefs, and what they tell together.

One report hides a patient among the rows that carry its weight. Two reports on tables that differ
can be subtracted, and the difference may be about one row. So a source counts the briefs of a
target over all studies and restarts, whatever they are called and whether it refused them, and
adds up the share of every row in all weighted means that it told this target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.tilt import largest_leverage
from fedcsa.errors import DataError, PolicyError
from fedcsa.messages.codec import decode_kept
from fedcsa.messages.messages import Brief
from fedcsa.messages.policy import Policy
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.source.source import Source


def check_briefs(log: SiteLog, policy: Policy, target: str) -> None:
    """Raise a `PolicyError` if `target` has asked often enough in this period.

    Parameters
    ----------
    log : SiteLog
    policy : Policy
    target : str
        Name of its site, as in its certificate.
    """
    if policy.max_briefs is None:
        return
    before = briefs_by_target(log, policy.period_days).get(target, 0)
    if before >= policy.max_briefs:
        raise PolicyError(
            "max_briefs",
            f"This site answers at most {policy.max_briefs} briefs of one target in "
            f"{policy.period_days} days, whatever the studies are called. Wait.",
        )


def briefs_by_target(log: SiteLog, days: int) -> dict[str, int]:
    """How many briefs of each target a site took up in the last `days`, refused ones too.

    Parameters
    ----------
    log : SiteLog
    days : int
    """
    return dict(Counter(x["target"] for x in log.recent("accepted", days, phase="risk")))


def check_together(log: SiteLog, site: SiteFile, source: Source, brief: Brief, target: str) -> None:
    """Raise a `PolicyError` if what `target` was told together would be about one row.

    Parameters
    ----------
    log : SiteLog
    site : SiteFile
    source : Source
        With the rows on which `brief` is answered.
    brief : Brief
    target : str
        Name of its site.
    """
    if brief.exchange != "table":
        return
    others = list(_weights_before(log, site, source, brief, target))
    if others:
        told = np.stack([source.row_weights(brief), *others])
        site.policy.check_leverage(largest_leverage(told))


def _weights_before(
    log: SiteLog, site: SiteFile, source: Source, brief: Brief, target: str
) -> Iterator[Array]:
    """Weights of the rows of now for every other table of `target` that was answered."""
    seen = [brief.table]
    for line in log.events:
        about = {"study": line.get("study", ""), "target": target, "phase": "risk"}
        if line["event"] != "accepted" or log.find("answered", **about) is None:
            continue
        if any(line[name] != value for name, value in about.items()):
            continue
        earlier = decode_kept(log.payload(line["request"]))
        if not isinstance(earlier, Brief) or earlier.exchange != "table":
            continue
        if any(earlier.table == table for table in seen):
            continue  # the same table gives the same weights
        seen.append(earlier.table)
        study = AgreedStudy(log.payload(line["agreed"]).decode()).study
        try:
            yield site.source(source.name, study).row_weights(earlier)
        except DataError:  # its columns are no longer here
            continue
