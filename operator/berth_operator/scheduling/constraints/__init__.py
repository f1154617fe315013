"""One file for each reason why a node refuses a pod: the mask, the reason, the gap, the words.

The search asks `registry.able`, the counted reasons and the explanation walk the registry in
order. A new constraint is a new file here and one line in `registry`.
"""
