"""The cluster on paper: what Berth would do with these manifests, without any cluster.

An edge like `kube`, with files in the place of the API server. It reads ordinary objects,
feeds them to the same ledger as the operator does, asks the same core for decisions, and
prints them. Nothing here reads a clock or throws a die: the same input gives the same
output, byte for byte, which is what makes it the tool for bug reports and for "what if".

`files` and `yamls` read text, `manifests` makes objects of it, `scenario` puts them
together, `cluster` feeds the ledger. `placing` places the pods once; `traces` and
`replaying` let time pass. `reports`, `tables` and `bound` print.
"""
