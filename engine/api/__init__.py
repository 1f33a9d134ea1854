"""The HTTP front end: OpenAI's API over one worker, with the front end's share of the ledger."""
