"""The border: raw objects of the API become values of the core and go no further.

Each module reads one kind. Whatever cannot be understood becomes a typed refusal or a
hold that withholds too much, never an exception and never a guess in the pod's favour.
"""
