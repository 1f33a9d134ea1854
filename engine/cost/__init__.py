"""What a step takes, learnt from recordings: from a run's own steps, or from the stamps of its requests alone."""
