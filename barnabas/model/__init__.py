"""The words every other package speaks: ids, errors, and the ports to the outside."""
