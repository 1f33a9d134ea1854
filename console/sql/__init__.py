"""The questions, one file each; nothing but SQL belongs here."""
