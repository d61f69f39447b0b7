//go:build !linux

package files

func openDraft(path string) (*draft, error) { return namedDraft(path) }

// link is for files without a name, which only Linux has.
func (*draft) link(string) (bool, error) { panic("tensor: a draft without a name") }
