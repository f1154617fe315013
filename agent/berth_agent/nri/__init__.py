"""The plugin of the container runtime (NRI): each container is adjusted as it is made.

`frames` speaks the runtime's protocol, `messages` reads and writes what is said in it, and `plugin` keeps the
connection. `adjuster` decides what a container gets, by the rules in `delivery`; `shares_watch` says whether
containers are kept to their parts of cards.
"""
