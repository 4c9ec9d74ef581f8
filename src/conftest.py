"""Examples in modules of an engine that is not installed are not collected."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("nvflare") else ["fedcsa/transport/flare/*.py"]
