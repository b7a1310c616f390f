"""The real clock, disk and network behind the ports of `model/ports.py`."""
