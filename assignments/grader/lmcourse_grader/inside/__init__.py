"""What runs inside the sandbox, beside student code: the standard library and NumPy only.

`runner` is the program; `values` is also used outside, to write arguments and to read answers.
"""
