"""Grade the course's assignments: student code confined, hidden tests outside, values between them."""

__version__ = "1.0.0"
