"""The client of the kubelet: which devices it gave to which containers.

`podresources` asks, over the kubelet's own socket; `messages` decodes the answers, and `poller` asks
again and again and keeps the last good answer. `device_ids` parses device ids, and `cgroups` the
names that the kubelet gives to the cgroups of its pods: both are pure. What follows from the
answers is left to `gpupods`.
"""
