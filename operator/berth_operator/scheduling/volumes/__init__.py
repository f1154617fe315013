"""Volumes: what is known of claims, PersistentVolumes and storage, and what the claims of a pod ask of nodes.

`facts` are the objects as plain values, `index` keeps them, `needs` reads what a pod's claims ask for, and
`matching` chooses PersistentVolumes that exist already. The constraints ask them for masks.
"""
