"""The console: asks a run questions and shows the answers, on a screen or as text."""
