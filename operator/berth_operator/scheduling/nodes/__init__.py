"""Which nodes, apart from cards: the questions that every scheduler must ask."""
