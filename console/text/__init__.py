"""Answers as lines for a terminal or a file, without Textual."""
