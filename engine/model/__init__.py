"""The language model: weights, tokenizer, paged decoder, executor. The only folder that knows torch."""
