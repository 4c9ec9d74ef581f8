"""Feed mutated messages or files to whoever reads them, in a process of its own; tell what came.

Called as ``python run.py messages|files COUNT SEED FOLDER``. Prints one JSON object. Any exception
that is not one of fedcsa's own, an input that takes a minute, or more than 300 MB beside what the
process had at its start, ends it or is told.
"""

import faulthandler
import json
import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # threads would wait for each other on a busy machine
sys.path.append(str(Path(__file__).parents[2] / "data"))  # where workbooks are written

import numpy as np
from of_files import files
from of_messages import messages

from fedcsa.errors import FedCSAError

#: What opening may take beside what the process has.
MEMORY = 300 << 20
#: Nothing takes as long on any machine; what an input should take is 5 s.
WATCHDOG_SECONDS = 60


def memory_in_use():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def feed(one, count, seed):
    """Read `count` changed inputs; what became of them."""
    limit = memory_in_use() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken, refused, slowest, foreign = Counter(), Counter(), (0.0, ""), []
    for index in range(count):
        name, read, content = one(np.random.default_rng([seed, index]))
        faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
        begin = time.process_time()  # on a busy machine others take the rest
        try:
            read(content)
            taken[name] += 1
        except FedCSAError:
            refused[name] += 1
        except Exception as error:
            foreign.append([name, index, f"{type(error).__name__}: {error}"[:200]])
        slowest = max(slowest, (time.process_time() - begin, name))
    faulthandler.cancel_dump_traceback_later()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
    return {
        "tried": count, "taken": taken, "refused": refused, "foreign": foreign[:20],
        "slowest": slowest, "grown_mb": grown,
    }  # fmt: skip


if __name__ == "__main__":
    what, how_many, first_seed, place = sys.argv[1:]
    np.seterr(all="ignore")
    chosen = messages() if what == "messages" else files(Path(place))
    print(json.dumps(feed(chosen, int(how_many), int(first_seed))))
