"""The contract: names, kinds, words and the small client that agent and operator share."""
