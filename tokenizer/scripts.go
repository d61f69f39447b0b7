package tokenizer

// scriptWords splits a text where the script changes.
type scriptWords struct{}

func (scriptWords) split(w *work) error { return nil }
