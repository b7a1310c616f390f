"""On the path of every Python process of a secured run: see tests/secured.py."""
