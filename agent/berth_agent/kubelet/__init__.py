"""Talk with the kubelet: which devices it gave to which containers.

`podresources` asks, over the kubelet's own socket; `messages` has the shapes of what is
said, and `follower` asks again and again and keeps the last good answer. `ids` reads
device ids, and `cgroups` the names that the kubelet gives to the cgroups of its pods:
both are pure. What to make of the answers is left to `gpupods`.
"""
