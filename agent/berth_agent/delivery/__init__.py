"""What a container gets of what was decided for it: environment, device nodes, driver files, CDI names.

`containers` reads the decision, `device_nodes` and `driver_files` say what the node has, `means` how it is
opened to containers, and `guard` what others may keep. Nothing here asks anybody: the files of the node are
looked at, and nothing else.
"""
