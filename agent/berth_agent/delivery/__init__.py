"""What a container gets of what was decided for it: its environment and its device nodes. Pure but for stats."""
