"""The webhook that puts the environment of a bind into pods, for API servers that have no policies for it."""
