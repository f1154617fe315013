"""The edge to the cluster: all that reads from and writes to the API server.

Kopf loads kubernetes-asyncio if it is installed, so as to take its objects beside plain ones, and we hand it
plain ones only. The library takes 36 MiB and a quarter of the time of each start, so Kopf is loaded first and
does not find it; `login` loads it for the few kubeconfigs that need it.
"""

import sys
from typing import Any, Final

LIBRARY: Final = "kubernetes_asyncio"


def _load_kopf() -> None:
    modules: dict[str, Any] = sys.modules
    is_hidden = LIBRARY not in modules
    if is_hidden:
        modules[LIBRARY] = None  # For Python this means that there is no such module.
    try:
        import kopf  # noqa: F401, PLC0415  It stays loaded.
    finally:
        if is_hidden:
            del modules[LIBRARY]


_load_kopf()
