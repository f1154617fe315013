"""The probe for real NVIDIA cards, over the driver's own library (NVML).

`source` is the probe: it opens the library, looks, and recovers. `calls` turns NVML's
errors into words, `cards`, `mig` and `links` read one card, its MIG instances and its ways
to its peers, and `running` the processes on it. Nothing outside this package imports the
bindings.
"""
