"""Tells the person beside a site that it is connected."""

from __future__ import annotations

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext

from fedcsa.errors import FedCSAError
from fedcsa.federation.flare.settings import site_of
from fedcsa.site.state import Status

CONNECTED = "connected, waiting for a study"


class Presence(FLComponent):  # type: ignore[misc]
    """A component of a site's own configuration."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Write a line into the site's status once the server has accepted it."""
        if event_type == EventType.AFTER_CLIENT_REGISTER:
            try:
                Status(site_of(fl_ctx).state_folder).say(CONNECTED)
            except (FedCSAError, OSError) as error:
                self.log_warning(fl_ctx, f"no status: {type(error).__name__}")
