"""A GpuPod for each pod of the node that was given cards, or is seen on some.

`desired` says what the GpuPod of a pod should be, and `verification` whether the pod holds what it
was given: the condition Verified with reasons such as Mismatch. `process_owners` finds the pods of
processes, and the processes without permission. These are pure. `evidence` keeps the last answers
of kubelet and driver, `pod_cache` the pods of the node, and `reconciler` writes the GpuPods.
"""
