"""Writes what should be in the API: level-based, and nothing where it already is.

`object_cache` holds the newest known objects of one kind, `object_writer` compares them with the
desired ones and writes the difference, `device_publisher` does so for the Device of the node,
`label_writer` for the labels of the Node, and `heartbeat` renews the Lease. A failed write raises
and is retried by its caller. What is desired, `device_spec`, `device_status` and `gpupods` say.
"""
