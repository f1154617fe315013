"""The edge to people and programs: what the operator answers over HTTP."""
