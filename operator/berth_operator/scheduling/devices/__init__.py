"""Which cards: what pods ask for, and how cards of one node are chosen."""
