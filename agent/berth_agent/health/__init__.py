"""Whether a card is healthy: problems, the time for which they count, and verdicts. Pure.

`xid_table` says what each of NVIDIA's error numbers means for the card, `health_rules` what people
may choose about them and how long a card cools down, `problems` what is wrong with a card just now,
`cooldown` how long that counts, and `verdicts` the health of each card. No clock is read here.
"""
