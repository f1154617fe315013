"""The probe for real NVIDIA cards, over the driver's own library (NVML).

`nvml_probe` is the probe: it opens the library (`session`), samples, and recovers. `cards` reads what
a card is and what runs on it, `mig` its MIG instances, `links` its links to other cards, and
`measurements` what it measures. `events` collects XIDs, `lost_cards` identifies cards
that do not answer, and `calls` maps NVML's errors. Nothing outside this package imports the
bindings.

To report a new figure of NVML, add it to `probe.Measurements`, read it in `measurements`, and list it in
`metrics`. What never changes of a card is read in `cards`, and goes by `probe.Card` and `device_spec` into
the Device (`berth_crds.device`).
"""
