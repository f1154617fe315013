"""The simulation: what Berth would do with these manifests, without a cluster.

An edge like `kube`, with files in place of the API server. It reads ordinary objects, feeds them to
the same ledger as the operator, asks the same core for decisions, and prints them. Nothing here is
random, and a clock only limits explanations: the same input has the same output, byte for byte.
That makes it the tool for bug reports and for "what if".

`files` and `yamls` read text, `manifests` makes objects of it, `scenario` puts them
together, `cluster` feeds the ledger. `placing` places the pods once; `traces` and
`replaying` let time pass. `pod_explanations` says why pods wait, and `reports` prints.
"""
