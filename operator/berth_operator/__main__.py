"""The program `berth-operator`: settings, logging, and one line when something is wrong."""

import asyncio
import logging
import sys
from typing import Final

from berth_crds import flags, logs, nesting, text
from berth_crds.client import errors
from berth_operator import app, settings

EXIT_FAILED: Final = 1


def main() -> int:
    """Run until told to stop; 0 is a clean end, 2 a setting that cannot be used."""
    nesting.allow()
    try:
        chosen = settings.parse()
        _start_log(chosen)
        asyncio.run(app.main(chosen))
    except (flags.Refused, errors.Unusable) as refusal:
        logs.last_word(settings.PROGRAM, refusal)
        return flags.EXIT_UNUSABLE
    except OSError as error:
        logs.last_word(settings.PROGRAM, text.cause(error))
        return EXIT_FAILED
    return 0


def _start_log(chosen: settings.Settings) -> None:
    logs.start(chosen.log_level, "%(asctime)s %(levelname)-7s %(name)s: %(message)s", chosen.log_format)
    # Kopf and its helpers narrate every object they see.
    logging.getLogger("kopf").setLevel(max(logging.ERROR, logging.getLogger().level))
    # This library logs what it also raises; one line for one fault is enough.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
