"""The program `berth-operator`: settings, logging, and one line when something is wrong."""

import asyncio
import logging
import sys

from berth_crds import depth, logs, text
from berth_crds.client import errors
from berth_operator import app, settings


def main() -> None:
    """Run the operator."""
    depth.allow()
    chosen = settings.parse()
    logs.start(chosen.log_level, "%(asctime)s %(levelname)-7s %(name)s: %(message)s", chosen.log_format)
    # Kopf and its helpers narrate every object they see.
    logging.getLogger("kopf").setLevel(max(logging.ERROR, logging.getLogger().level))
    # This library logs what it also raises; one line for one fault is enough.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)
    try:
        asyncio.run(app.main(chosen))
    except (errors.Unusable, OSError) as error:
        logs.last_word("berth-operator", text.cause(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
