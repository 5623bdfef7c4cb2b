"""Experiments that take more than a page's time, and how to run them on many processors."""
