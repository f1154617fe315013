"""The probe for real NVIDIA cards, over the driver's own library (NVML).

`nvml_probe` is the probe: it opens the library (`session`), samples, and recovers. `cards` reads what
a card is, `mig` its MIG instances, `links` its links to other cards, `measurements` what it measures,
and `running_processes` the processes on it. `events` collects XIDs, `lost_cards` identifies cards
that do not answer, and `calls` maps NVML's errors. Nothing outside this package imports the
bindings. To report a new field of NVML, add it to `probe.Measurements`, read it in `measurements`,
and list it in `metrics`.
"""
