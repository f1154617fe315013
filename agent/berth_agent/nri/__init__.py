"""The plugin of the container runtime (NRI, of containerd and CRI-O): each container is adjusted as it is made.

`frames` speaks the runtime's protocol, `messages` reads and writes what is said in it, and `plugin` keeps the
connection. What a container gets is decided in `delivery`.
"""
