"""The ``dpmcmc`` command: parse, call the library, print."""
