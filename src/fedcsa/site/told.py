"""What a site has told of its rows, and whether it may tell more: a target, and a source.

*A target's tables.* Two tables of nearly the same rows tell what lies between them: one patient
who came in the meantime, cell by cell. So a site tells a new table only of rows that differ from
those of every table it has told by enough patients, or by none; otherwise it tells the earlier
numbers again, to the bit. And it tells few different tables of one cohort in a period, whatever
the studies are called.

To count the rows that differ, the site keeps of every told table the sorted 64-bit hashes of its
rows beside its log, with the salt that goes into them. They hold no cell and never leave. Whoever
reads the state folder can try out rows, so it is kept like the table itself.

*A source's reports.* One report hides a patient among the rows that carry its weight. Two reports
on tables that differ can be subtracted, and the difference may be about one row. So a source counts
the briefs of a target over all studies and restarts, whatever they are called and whether it
refused them, and adds up the share of every row in all weighted means that it told this target.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.core.table import Table1
from fedcsa.core.tilt import largest_leverage
from fedcsa.errors import DataError, PolicyError
from fedcsa.messages.codec import decode_kept
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief
from fedcsa.messages.policy import LONGEST_PERIOD, Policy
from fedcsa.site.account import briefs_by_target
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import Event, SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.source.source import Source
from fedcsa.study import Study

#: One number a row.
Hashes = NDArray[np.uint64]
#: 64 bits a row: among a billion rows, two that differ are taken for one with a chance of 3 %,
#: and then the difference is one row off.
_HASH_BYTES = 8
#: As long as the state of the hash allows to use.
_SALT_BYTES = 32
#: What to do about a cohort that has changed a little.
_FREEZE = (
    "Let the site's file name the cohort's table as it was then, or wait until more rows have "
    "changed."
)


class Cohort:
    """The rows of a target in the light of what it has told of them.

    Parameters
    ----------
    site : SiteFile
    log : SiteLog
    agreed : AgreedStudy
        The study in which a table is to be told.

    Attributes
    ----------
    rows : array of shape (rows, features), or Table1
    """

    def __init__(self, site: SiteFile, log: SiteLog, agreed: AgreedStudy) -> None:
        self._site = site
        self._log = log
        self._agreed = agreed
        self.rows = site.read_target(agreed.study)

    @cached_property
    def hashes(self) -> Hashes:
        """Hashes of the rows; none for a typed table, or where the rows themselves are told."""
        if isinstance(self.rows, Table1) or not self._tells_table:
            return np.empty(0, np.uint64)
        return row_hashes(self.rows, self._salt)

    @property
    def _tells_table(self) -> bool:
        return self._agreed.plan.exchange == "table"

    @cached_property
    def earlier(self) -> tuple[str, Table1 | None]:
        """The study that first told a table of nearly these rows, and that table; or none.

        Raises
        ------
        PolicyError
            If rows have changed, but too few for a table of other columns.
        """
        return self._find_earlier()

    def _find_earlier(self) -> tuple[str, Table1 | None]:
        """See `earlier`; as the log is now."""
        near = sorted(self._near(), key=lambda item: item[1])
        for line, _ in near:
            if self._has_columns(line):
                brief = decode_kept(self._log.payload(line["brief"]))
                assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
                return str(line["study"]), brief.table
        if any(changed for _, changed in near):
            raise PolicyError(
                "cohort_changed",
                "A few rows have changed since this site told a table of other columns, and a new "
                f"table would be about them. {_FREEZE}",
            )
        return "", None

    def check(self, told: Table1) -> str:
        """Raise a `PolicyError` unless the log, as it is now, lets `told` leave.

        Otherwise the study that told the same numbers first, or an empty text.
        """
        study, table = self._find_earlier()
        if table is not None:
            if table != told:
                raise PolicyError(
                    "cohort_changed", "Another study told a table meanwhile. Submit it again."
                )
            return study
        policy, cohort = self._site.policy, self._site.cohort
        recent = self._log.recent("announced", policy.period_days, cohort=cohort, repeats="")
        if policy.max_tables is not None and len(recent) >= policy.max_tables:
            raise PolicyError(
                "max_tables",
                f"This site tells at most {policy.max_tables} different tables of one cohort in "
                f"{policy.period_days} days. Use the columns of an earlier study, or wait.",
            )
        return ""

    def account(self, told: Table1) -> dict[str, str]:
        """What the log says about the cohort in the line on a brief, if `told` may leave."""
        return {
            "cohort": self._site.cohort,
            "repeats": self.check(told),
            "agreed": self._log.keep(self._agreed.text.encode()),
            "time": self._log.time,
        }

    def sketch(self) -> str:
        """Digest of the hashes of the rows, which are kept beside the log."""
        return self._log.keep(self.hashes.tobytes())

    def _near(self) -> Iterator[tuple[Event, int]]:
        """Lines on tables that were told of nearly these rows, and how many rows differ.

        Every line is compared on its own columns, which are read anew.
        """
        now: dict[str, Hashes | None] = {}
        if isinstance(self.rows, Table1) or not self._tells_table:
            return
        for line in self._log.recent("announced", LONGEST_PERIOD, repeats=""):
            then = np.frombuffer(self._log.payload(line["rows"]), np.uint64)
            if not len(then) or line["study"] == self._agreed.name:
                continue
            if line["agreed"] not in now:
                now[line["agreed"]] = self._hashes_for(line)
            own = now[line["agreed"]]
            if own is not None:
                changed, share = n_changed(then, own), self._site.policy.min_changed_share
                enough = math.ceil(share * max(len(then), len(own)))
                if not changed or changed < max(self._site.policy.min_changed_rows, enough):
                    yield line, changed

    def _hashes_for(self, line: Event) -> Hashes | None:
        """The rows of now in the columns of an earlier study; None if this is another table."""
        try:
            rows = self._site.read_target(self._study_of(line))
        except DataError:
            if line["cohort"] != self._site.cohort:
                return None
            raise PolicyError(
                "cohort_changed",
                f"The table of the cohort {self._site.cohort!r} lacks columns of which a table was "
                f"told, so nobody can say how many rows have changed. {_FREEZE}",
            ) from None
        assert not isinstance(rows, Table1)  # noqa: S101 - this site has rows
        return row_hashes(rows, self._salt)

    def _has_columns(self, line: Event) -> bool:
        """Whether an earlier table has the columns of this study, told in the same steps."""
        now, then = self._agreed.study.coding, self._study_of(line).coding
        same = (now.columns, now.flags) == (then.columns, then.flags)
        return same and np.array_equal(now.public_sd, then.public_sd, equal_nan=True)

    def _study_of(self, line: Event) -> Study:
        return AgreedStudy(self._log.payload(line["agreed"]).decode()).study

    @property
    def _salt(self) -> bytes:
        line = self._log.find("salted")
        if line is None:
            salt = self._log.keep(secrets.token_bytes(_SALT_BYTES))
            line = self._log.claim("salted", salt=salt)
        return self._log.payload(line["salt"])


def row_hashes(rows: Array, salt: bytes) -> Hashes:
    """Sorted hashes of rows: equal rows have equal ones, and the order of rows does not matter.

    Parameters
    ----------
    rows : array of shape (rows, features)
    salt : bytes

    Examples
    --------
    >>> one, other = np.array([[1.0, 0.0], [2.0, 5.0]]), np.array([[2.0, 5.0], [1.0, -0.0]])
    >>> n_changed(row_hashes(one, b"salt"), row_hashes(other, b"salt"))
    0
    """
    content = np.ascontiguousarray(rows + 0.0)  # no negative zero
    hashed = (hashlib.blake2b(row, digest_size=_HASH_BYTES, key=salt).digest() for row in content)
    return np.sort(np.frombuffer(b"".join(hashed), np.uint64))


def n_changed(then: Hashes, now: Hashes) -> int:
    """How many rows came or went, whichever are more; a row that was corrected did both, once.

    Parameters
    ----------
    then, now : array of shape (rows,)
        Hashes as `row_hashes` makes them.

    Examples
    --------
    >>> n_changed(np.array([1, 1, 2], np.uint64), np.array([1, 2, 2, 7], np.uint64))
    2
    """
    values, place = np.unique(np.concatenate([then, now]), return_inverse=True)
    sign = np.repeat([-1, 1], [len(then), len(now)])
    balance = np.bincount(place, weights=sign, minlength=len(values))
    return int(max(balance.clip(min=0).sum(), -balance.clip(max=0).sum()))


def check_briefs(log: SiteLog, policy: Policy, target: str, question: Message) -> None:
    """Raise a `PolicyError` if `question` is a brief and `target` has asked often enough of late.

    Parameters
    ----------
    log : SiteLog
    policy : Policy
    target : str
        Name of its site, as in its certificate.
    question : Message
    """
    if policy.max_briefs is None or not isinstance(question, Brief):
        return
    before = briefs_by_target(log, policy.period_days).get(target, 0)
    if before >= policy.max_briefs:
        raise PolicyError(
            "max_briefs",
            f"This site answers at most {policy.max_briefs} briefs of one target in "
            f"{policy.period_days} days, whatever the studies are called. Wait.",
        )


def check_together(
    log: SiteLog, site: SiteFile, source: Source, question: Message, target: str
) -> None:
    """Raise a `PolicyError` if what `target` was told, with this, would be about one row.

    Parameters
    ----------
    log : SiteLog
    site : SiteFile
    source : Source
        With the rows on which `question` is answered.
    question : Message
        A model and an examination come after a brief, and tell nothing of other rows.
    target : str
        Name of its site.
    """
    if not isinstance(question, Brief) or question.exchange != "table":
        return
    others = list(_weights_before(log, site, source, question, target))
    if others:
        told = np.stack([source.row_weights(question), *others])
        site.policy.check_leverage(largest_leverage(told))


def _weights_before(
    log: SiteLog, site: SiteFile, source: Source, brief: Brief, target: str
) -> Iterator[Array]:
    """Weights of the rows of now for every other table of `target` that was answered.

    Parameters
    ----------
    log, site, source, target
        As for `check_together`.
    brief : Brief
        That is asked now.
    """
    seen = [brief.table]
    asked = {"target": target, "phase": "risk"}
    for line in log.lines("accepted", **asked):
        if log.find("answered", study=line["study"], **asked) is None:
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
