"""The program `berth-operator`: settings, logging, and one line when something is wrong."""

import logging
import sys
from typing import Final

import uvloop

from berth_crds import device_packages, flags, logs, nesting, text
from berth_crds.client import errors
from berth_operator.settings import PROGRAM, Settings, parse

log = logging.getLogger("berth_operator")

EXIT_FAILED: Final = 1


def main() -> int:
    """Run until stopped; return 0 after a clean end, 2 for a setting that cannot be used."""
    nesting.raise_limits()
    try:
        settings = parse()
        from berth_operator import app  # noqa: PLC0415  # Half a second that --help and a wrong flag need not take.

        _start_log(settings)
        for sentence in device_packages.load(settings.device_packages):
            log.error("%s", sentence)
        uvloop.run(app.main(settings))
    except (flags.UsageError, errors.Unusable) as refusal:
        logs.report_exit(PROGRAM, refusal)
        return flags.EXIT_UNUSABLE
    except OSError as error:
        logs.report_exit(PROGRAM, text.cause(error))
        return EXIT_FAILED
    return 0


def _start_log(settings: Settings) -> None:
    logs.start(settings.log_level, "%(asctime)s %(levelname)-7s %(name)s: %(message)s", settings.log_format)
    # Kopf and its helpers log every object they see.
    logging.getLogger("kopf").setLevel(max(logging.ERROR, logging.getLogger().level))
    # This library logs what it also raises; one line for one fault is enough.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
