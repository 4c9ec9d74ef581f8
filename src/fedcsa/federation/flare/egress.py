"""The site's filter: the last look at what leaves, after the role and the desk have had theirs.

What leaves is closed for its recipient, and nobody at this site can open it. So the filter asks
the seal of its own process what was closed in those very bytes, and looks at that: bytes that the
seal did not close do not leave, and neither does a message in clear.
"""

from __future__ import annotations

from typing import Any

from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

from fedcsa.core.arrays import in_bands
from fedcsa.errors import FedCSAError
from fedcsa.federation.flare.letters import is_bare, unpack
from fedcsa.federation.flare.seal import KitSeal
from fedcsa.federation.flare.settings import seal_of, site_of, startup_of
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import GREET, Envelope
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    BacktestReport,
    Brief,
    Conclusion,
    ModelReport,
    Refusal,
    RiskReport,
)
from fedcsa.run import SEARCH
from fedcsa.site.log import open_log
from fedcsa.site.site_file import SiteFile
from fedcsa.source.certificate import Certificate

#: Rules that are asked for in two places.
_OWN_ENVELOPE = "an envelope must be this site's, of this message"
_ONE_EACH = "a letter must hold one message for every envelope"


class EgressFilter(Filter):  # type: ignore[misc]
    """Lets through one letter with one message that the policy allows and the ledger holds."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """The same letter, or a `ContentBlockedException` without a value in it.

        Parameters
        ----------
        shareable : Shareable
            What is about to leave.
        fl_ctx : FLContext
            Of the job.
        """
        if shareable.get_return_code() != ReturnCode.OK:
            return make_reply(shareable.get_return_code())
        try:
            _need(is_bare(shareable), "a result must hold one letter and nothing else")
            site, kit = site_of(fl_ctx), startup_of(fl_ctx).parent
            log = open_log(site.state_folder)
            log.check_kit(kit)
            check_letter(unpack(shareable), site, fl_ctx.get_identity_name(), seal_of(fl_ctx))
            log.remember_in(kit)
        except ContentBlockedException:
            raise
        except (FedCSAError, OSError) as error:
            raise ContentBlockedException(type(error).__name__) from None
        return shareable


def _need(holds: bool, rule: str) -> None:
    """Keep what is about to leave here unless a rule holds.

    Parameters
    ----------
    holds : bool
    rule : str
        In words; it tells no value.
    """
    if not holds:
        raise ContentBlockedException(rule)


def check_letter(letter: dict[str, Any], site: SiteFile, name: str, seal: KitSeal) -> None:
    """Raise unless every part of a letter may leave the site.

    Parameters
    ----------
    letter : dict
    site : SiteFile
    name : str
        Of the site.
    seal : KitSeal
        That closed what is in it.
    """
    if set(letter) == {"envelope"}:  # nothing goes with it, and it tells this site's key
        greeting = Envelope.from_bytes(letter["envelope"])
        told = (greeting.sender, greeting.phase, greeting.digest)
        _need(told == (name, GREET, digest(b"")), _OWN_ENVELOPE)
        return
    phase = letter.get("phase", SEARCH.encode())
    _need(phase == SEARCH.encode(), "a letter must name no other phase than that of a search")
    if set(letter) - {"phase"} == {"envelopes", "payloads"}:
        payloads, envelopes = letter["payloads"], letter["envelopes"]
    elif set(letter) in ({"envelope", "payload"}, {"envelope", "conclusion"}):
        payloads = {"": letter.get("payload", letter.get("conclusion"))}
        envelopes = {"": letter["envelope"]}
    else:
        payloads = envelopes = None
    for part in (payloads, envelopes):
        sound = isinstance(part, dict) and all(isinstance(v, bytes) for v in part.values())
        _need(sound, _ONE_EACH)
    _need(set(payloads) == set(envelopes), _ONE_EACH)
    for key, closed in payloads.items():
        _check_closed(Envelope.from_bytes(envelopes[key]), closed, site, name, seal)


def _check_closed(
    envelope: Envelope, closed: bytes, site: SiteFile, name: str, seal: KitSeal
) -> None:
    """Raise unless what is closed is in the ledger, for this recipient, and may leave.

    Parameters
    ----------
    envelope : Envelope
    closed : bytes
        What goes with it.
    site, name, seal
        As for `check_letter`.
    """
    payload, bound = seal.take_closed(closed)
    own = (envelope.sender, envelope.digest) == (name, digest(closed))
    _need(own and bound == envelope.bound(), _OWN_ENVELOPE)
    message = decode(payload)
    _check_message(message, payload, site)
    log, sha256 = open_log(site.state_folder), digest(payload)
    recipients = {line["recipient"] for line in log.all("sent", sha256=sha256)}
    _need(envelope.recipient in recipients, "a message must be in the ledger before it leaves")
    if isinstance(message, ModelReport) and site.policy.looks_at_models:
        line = log.find("certified", sha256=sha256)
        if line is None:
            raise ContentBlockedException("attacks must be tried on a model before it leaves")
        Certificate.from_plain(line["certificate"]).check(site.policy)


def _check_message(message: Message, payload: bytes, site: SiteFile) -> None:
    """Raise unless a message is as the site's file lets it out.

    Parameters
    ----------
    message : Message
    payload : bytes
        The same as it was closed.
    site : SiteFile
    """
    policy = site.policy
    _need(not isinstance(message, BacktestReport), f"a {message.name} does not leave a site")
    if isinstance(message, Conclusion):
        secret = len(message.summary) and not site.share_result
        _need(not secret, "this site keeps its results to itself")
    elif not isinstance(message, Refusal):
        small = len(payload) <= site.max_bytes
        _need(small, "a message must not be larger than the site's file says")
    if isinstance(message, Brief):
        _need(message.exchange in policy.exchanges, "the policy does not allow this exchange")
    if isinstance(message, RiskReport):
        banded = message.n_rows == in_bands(message.n_rows, policy.count_band)
        _need(banded, "the policy would tell the rows in bands")
    if isinstance(message, ModelReport):
        _need(policy.models != "never", "the policy sends no model")
        hidden = message.show and not policy.show_model
        _need(not hidden, "the policy shows no model to other sources")
    _need(encode(policy.release(message)) == payload, "the policy would round this message")
