"""A GpuPod for each pod of the node that was given cards, or is seen on some.

`record` says what a GpuPod should say, given its pod, and `verdict` whether what is held
is what was given. `residents` joins processes with pods and finds the strays. These are
pure. `witnesses` keeps what the kubelet and the driver said last, `roster` the pods of
the node, and `keeper` makes it all so, one pod at a time.
"""
