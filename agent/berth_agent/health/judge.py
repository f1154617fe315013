"""The verdict on each card, and what is remembered to reach it. Pure.

A case is opened by the first sign that condemns a card. It is told by the worst sign that was
seen while it was open, so that one trouble reads as one, and it is closed when for so many
looks in a row and so many seconds nothing was wrong any more: a card that answers again is
not well because of that alone. A closed case is kept a while. If the card falls ill again
meanwhile, it has to be well for twice as long as the last time, so that one that comes and
goes comes less and less often.

    no case ----sign----> open ----looks and seconds without a sign----> closed
                           ^                                               |
                           +------------- sign: twice the seconds ---------+----quiet----> no case

A person's word that a card was repaired closes its case at once, unless the sign still stands.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from berth_agent import probe
from berth_agent.health import rules, signs
from berth_crds import vocabulary, wire

LONGEST_HOLD_SECONDS: Final = 86400.0
# A closed case counts for so many times the seconds that the card had to be well.
REMEMBERED: Final = 10
MOST_DOUBLINGS: Final = 16
WAY_BACK: Final = "; healthy again once"

WELL: Final = probe.Health()


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """What is held against one card: open while `closed` is None.

    `last` is when a sign was last seen, None where that no longer counts; `clean` looks in a row
    have found nothing since. `relapses` counts how often the card fell ill again too soon.
    """

    sign: probe.Health
    last: float | None
    relapses: int = 0
    clean: int = 0
    closed: float | None = None


Cases = Mapping[str, Case]


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """All that is remembered from look to look: the cases, and what each card measured last."""

    cases: Cases = dataclasses.field(default_factory=dict)
    vitals: Mapping[str, probe.Vitals] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What follows from one look: how each card fares, and the record to keep."""

    verdicts: Mapping[str, probe.Health]
    record: Record


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What one look is judged by: the sample, who is lost in it by uuid, whom a person calls repaired.

    `now` is in seconds of a clock that nobody sets: a wait must not end or last because one did.
    """

    sample: probe.Sample
    lost: Mapping[str, probe.Lost]
    now: float
    repaired: frozenset[str] = frozenset()


def judge(look: Look, record: Record, chosen: rules.Rules) -> Judgement:
    """Judge every card of a look."""
    cards = {card.uuid: card for card in look.sample.read()}
    settled = {uuid: signs.of_lost(lost) for uuid, lost in look.lost.items() if lost.judged}
    judged = {uuid for uuid, card in cards.items() if card.health is None} | look.lost.keys() - settled.keys()
    found = {uuid: _signs(uuid, look, cards, record, chosen) for uuid in sorted(judged)}
    beside = {device.uuid: device for device in look.sample.devices}
    found |= {uuid: (one.sign,) if one.sign else () for uuid, one in beside.items() if one.health is None}
    cases = {
        uuid: case
        for uuid, seen in found.items()
        if (case := _case(uuid, seen, record.cases.get(uuid), look, chosen)) is not None
    }
    cases |= _absent(look, record, chosen, but=judged | settled.keys() | cards.keys() | beside.keys())
    own = settled | {card.uuid: card.health for card in cards.values() if card.health is not None}
    own |= {uuid: one.health for uuid, one in beside.items() if one.health is not None}
    verdicts = own | {uuid: _verdict(cases.get(uuid), seen, chosen) for uuid, seen in found.items()}
    measured = {uuid: _measured(card, record) for uuid, card in cards.items() if uuid in judged}
    vitals = {**record.vitals, **measured}
    kept = {uuid: each for uuid, each in vitals.items() if uuid in judged or uuid in cases}
    return Judgement(verdicts, Record(cases, kept))


def _measured(card: probe.Card, record: Record) -> probe.Vitals:
    """Keep what a card measured, and a count that it told before where it does not tell it now."""
    now, before = card.vitals, record.vitals.get(card.uuid)
    if now.errors_uncorrected is not None or before is None:
        return now
    return dataclasses.replace(now, errors_uncorrected=before.errors_uncorrected)


def _signs(
    uuid: str, look: Look, cards: Mapping[str, probe.Card], record: Record, chosen: rules.Rules
) -> tuple[probe.Health, ...]:
    told = signs.of_xids((each.number for each in look.sample.xids if each.uuid == uuid), chosen)
    if uuid in cards:
        return (*told, *signs.of_card(cards[uuid], record.vitals.get(uuid)))
    return (*told, signs.of_lost(look.lost[uuid]))


# ---------------------------------------------------------------- cases


def _absent(look: Look, record: Record, chosen: rules.Rules, *, but: Iterable[str]) -> Cases:
    """Keep the cases of cards that the look does not show: they may come back. Errors told of them count."""
    told: dict[str, list[int]] = {}
    for each in look.sample.xids:
        told.setdefault(each.uuid, []).append(each.number)
    found: dict[str, Case] = {}
    for uuid in (record.cases.keys() | (told.keys() - {""})) - set(but):
        before = record.cases.get(uuid)
        sign = signs.worst(signs.of_xids(told.get(uuid, ()), chosen))
        case = _held(sign, before, look.now) if sign else before
        if case is not None and not _is_forgotten(case, look.now, chosen):
            found[uuid] = case
    return found


def _is_forgotten(case: Case, now: float, chosen: rules.Rules) -> bool:
    since = case.last if case.closed is None else case.closed
    return since is None or now - since >= _hold(case, chosen) * REMEMBERED


def _case(
    uuid: str, seen: Iterable[probe.Health], before: Case | None, look: Look, chosen: rules.Rules
) -> Case | None:
    """Return how a card's case stands after a look."""
    sign = signs.worst(filter(signs.is_bad, seen))
    if sign is not None:
        return _held(sign, before, look.now)
    if before is None:
        return None
    if uuid in look.repaired:
        return None
    if before.closed is not None:
        return None if _is_forgotten(before, look.now, chosen) else before
    case = dataclasses.replace(before, clean=before.clean + 1)
    return dataclasses.replace(case, closed=look.now) if _is_over(case, look.now, chosen) else case


def _held(sign: probe.Health, before: Case | None, now: float) -> Case:
    """Open a case, or hold another sign against a card whose case is open."""
    if before is None:
        return Case(sign, now)
    if before.closed is not None:
        return Case(sign, now, before.relapses + 1)
    told = before.sign if signs.severity(before.sign) >= signs.severity(sign) else sign
    return dataclasses.replace(before, sign=told, last=now, clean=0)


def _hold(case: Case, chosen: rules.Rules) -> float:
    """Return for how many seconds a card must be well."""
    return min(LONGEST_HOLD_SECONDS, chosen.cool_down * 2.0 ** min(case.relapses, MOST_DOUBLINGS))


def _is_over(case: Case, now: float, chosen: rules.Rules) -> bool:
    waited = case.last is None or now - case.last >= _hold(case, chosen)
    return waited and case.clean >= chosen.clean_looks


def unseen(record: Record, seconds: float) -> Record:
    """Leave out of the account seconds in which nobody could look: they neither heal nor help to forget."""
    cases = {uuid: _moved(case, seconds) for uuid, case in record.cases.items()}
    return dataclasses.replace(record, cases=cases)


def _moved(case: Case, seconds: float) -> Case:
    last, closed = (None if each is None else each + seconds for each in (case.last, case.closed))
    return dataclasses.replace(case, last=last, closed=closed)


# ---------------------------------------------------------------- words


def _verdict(case: Case | None, seen: Iterable[probe.Health], chosen: rules.Rules) -> probe.Health:
    """Return how a card fares: as its open case says, or well, perhaps with a remark."""
    if case is None or case.closed is not None:
        return signs.worst(seen) or WELL
    after = f"{WAY_BACK} {_hold(case, chosen):g} s and {chosen.clean_looks} looks in a row find nothing wrong"
    return dataclasses.replace(case.sign, message=f"{case.sign.message}{after}")


# ---------------------------------------------------------------- what stood in the Device


def recall(status: wire.DeviceStatus, *, rebooted: bool, now: float) -> Record:
    """Return what an agent before this one held against the cards, as the Device tells it.

    When the last sign was seen and how often there was one is not known: the seconds begin anew.
    After a reboot there are none to wait for, but the card must still be seen well.
    """
    last = None if rebooted else now
    ill = (each for each in status.devices if each.health != vocabulary.Health.HEALTHY)
    return Record({each.uuid: Case(_sign(each), last) for each in ill})


def _sign(said: wire.CardStatus) -> probe.Health:
    return probe.Health(
        vocabulary.Health(said.health),
        said.reason,
        said.xid,
        said.message.partition(WAY_BACK)[0],
        vocabulary.Recovery(said.recovery) if said.recovery else None,
    )
