"""What all that builds a version raises when it cannot."""


class CannotBuild(Exception):
    """Something could not be built; the text is a sentence for whoever asked for it."""
