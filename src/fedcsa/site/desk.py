"""What the desks of a source and of a target share: they bind, budget and write down messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcsa.errors import FedCSAError, PolicyError
from fedcsa.messages.codec import encode
from fedcsa.messages.envelope import Envelope, Seal
from fedcsa.messages.fields import Message
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import open_log
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status


class Desk:
    """One site's place in one study.

    Parameters
    ----------
    name : str
        Of the site, as in its certificate.
    site : SiteFile
    agreed : AgreedStudy
    seal : Seal, optional
        Signs for this site; without one, envelopes are believed as they come.
    """

    def __init__(
        self, name: str, site: SiteFile, agreed: AgreedStudy, seal: Seal | None = None
    ) -> None:
        self.name = name
        self.site = site
        self.agreed = agreed
        self.seal = seal
        self._log = open_log(site.state_folder)
        self._status = Status(site.state_folder)

    def say(self, text: str) -> None:
        """Tell the person beside this site."""
        self._status.say(text, self.agreed.id)

    def check_size(self, payload: bytes) -> None:
        """Raise a `PolicyError` if a message is larger than the site's file says."""
        most = self.site.max_bytes
        if len(payload) > most:
            raise PolicyError("max_bytes", f"A message here must have at most {most} bytes.")

    def claim_once(
        self,
        step: str,
        key: Mapping[str, str],
        told: Mapping[str, Any],
        rule: str,
        why: str,
        **beside: Any,
    ) -> None:
        """Write down what is asked or told once; what was written first stands.

        Parameters
        ----------
        step : str
        key : mapping
            What there is one such line of.
        told : mapping
            What the line must say.
        rule, why : str
            Of the `PolicyError` if a line is there that says something else.
        **beside
            Written with it, and not compared.
        """
        line = self._log.claim(step, **key, **told, **beside)
        if any(line.get(name) != value for name, value in told.items()):
            raise PolicyError(rule, why)

    def send(self, envelope: Envelope, message: Message) -> tuple[bytes, bytes]:
        """Write down a message that is about to leave; its signed envelope and its bytes."""
        wire, recipient = envelope.sealed(self.seal), envelope.recipient
        rules = self.site.policy.rules(message)
        line = self._log.record(
            self.name, message, recipient, envelope_bytes=len(wire), rules=rules
        )
        self.say(f"{line.kind} {line.entry.n_numbers} numbers ({message.name}) to {recipient}")
        return wire, encode(message)


def tell_apart(error: Exception) -> tuple[str, str]:
    """The word for an error that another site may hear, and the text for this one.

    >>> tell_apart(PolicyError("one_brief", "This site answers one brief per study."))
    ('one_brief', 'This site answers one brief per study.')
    >>> tell_apart(ValueError("whose text may quote a cell"))
    ('failed', 'ValueError came inside')
    """
    if isinstance(error, FedCSAError):
        return error.rule, str(error)
    return FedCSAError.rule, f"{type(error).__name__} came inside"
