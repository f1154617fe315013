"""Makes the API agree with what should be: level-based, and silent when it already does.

`mirror` holds what is known of objects, `writer` compares that with what is wanted and
writes the difference, `device` does so for the one Device of a node, and `heartbeat`
renews the Lease. Nothing here is retried: a failed write raises, and who asked for it
comes again. What should be is said by `describe` and `gpupods`.
"""
