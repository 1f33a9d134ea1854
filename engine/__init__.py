"""The engine: serves a language model and records where every nanosecond went."""
