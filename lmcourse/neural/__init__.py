"""Masked language models that are trained, and how they are adapted to a task. Needs torch."""
