"""The measured load of a node's cards, as the annotation of its Lease has it.

Only what the last sample shows is published: where the source failed there is no figure, and a card that
did not answer has none. What a card does not measure is left out.
"""

from berth_agent import probe
from berth_crds import card_load


def annotation(outcome: probe.Outcome) -> str:
    """Return the text of the annotation; empty where nothing is measured."""
    if isinstance(outcome, probe.SourceFailed):
        return ""
    return card_load.write({card.minor: _load(card.measurements) for card in outcome.answering_cards()})


def _load(measured: probe.Measurements) -> card_load.CardLoad:
    return card_load.CardLoad(
        utilization=_known(measured.utilization),
        encoder=_known(measured.encoder_utilization),
        decoder=_known(measured.decoder_utilization),
        power=_power(measured),
        free_memory=_known(measured.memory_free),
    )


def _known(figure: int | None) -> int:
    return card_load.UNKNOWN if figure is None or figure < 0 else figure


def _power(measured: probe.Measurements) -> int:
    """Return the power in percent of what the card may take."""
    if measured.power is None or not measured.power_limit or measured.power < 0:
        return card_load.UNKNOWN
    return measured.power * card_load.MOST_PERCENT // measured.power_limit
