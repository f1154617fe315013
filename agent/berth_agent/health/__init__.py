"""Whether a card is well: verdicts from tables, and the way back to being healthy. Pure.

`xids` is the table of NVIDIA's error numbers and what each means for the card, `rules` what
people may choose about them, `signs` reads what is wrong with a card just now, and `judge`
remembers it for as long as it counts. No clock is read here and nothing is written.
"""
