"""The code of the course *Why Language Models Help*.

The core needs NumPy and SciPy only; modules that need more import it where it is used.
"""

__version__ = "0.1.0"
