"""Tests of tailtrace."""
