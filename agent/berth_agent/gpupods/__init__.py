"""A GpuPod for each pod of the node that was given cards.

`record` says what a GpuPod should say, given its pod: pure. `keeper` follows pods and
GpuPods and makes it so, one pod at a time.
"""
