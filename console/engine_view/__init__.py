"""What the workers did over a stretch of a run: the numbers of the engine screen and of `tailtrace engine`."""
