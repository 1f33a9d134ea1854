"""The live tail: a run's records over a WebSocket as they come in, resumable at any number, from anywhere."""
