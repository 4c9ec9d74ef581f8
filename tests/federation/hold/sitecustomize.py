"""Holds a source before it computes, so that a test can look at a study, or end it, in a phase.

Python loads this file by its name from a folder on its path; tests put this folder there. A study
is held as long as a file of its name lies beside the site's own file. The product has no such
hook.
"""

import sys
import time

PHASES = {"risk": 1, "model": 2, "examine": 3, "again": 3}


def held(compute):
    def wait(desk, message, payload, phase):
        hold = desk.site.folder / f"hold-{desk.agreed.name}"
        if hold.exists():
            desk.say(f"held in phase {PHASES.get(phase, phase)}")
        while hold.exists():
            time.sleep(0.05)
        return compute(desk, message, payload, phase)

    return wait


if any(part.endswith("worker_process") for part in sys.orig_argv):
    from fedcsa.site.source_desk import SourceDesk

    SourceDesk._compute = held(SourceDesk._compute)
