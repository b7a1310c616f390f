"""Records to try things with: each a pure function of a seed and a number.

samples: orders, clicks, sensors, or one's own from a YAML file
"""
