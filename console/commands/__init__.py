"""The commands of `tailtrace`, one module each: arguments in, one answer out."""
