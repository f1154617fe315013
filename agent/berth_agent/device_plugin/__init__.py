"""The kubelet's device plugin: what it is told of the cards, and which of them each container gets.

The kubelet never says for which pod it asks. But it lists the pod that it is admitting, still without its
devices, so the pod is found (`admission`), and gets exactly the cards that its bind promised. `offers` says
what the kubelet counts, `claims` who holds or was promised a card and by which name, `answers` decides what
the kubelet is answered, `responses` how containers learn of their devices, and `plugin` serves all that.
"""
