package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/files"
)

// A printer writes text that holds names from models: what a terminal would obey is spelled out. It keeps the first error, so
// that tables need not look at each. Any goroutine may call Write.
type printer struct {
	to   io.Writer
	json bool // the text is JSON, whose strings spell such characters in their own way

	mu   sync.Mutex // guards err and rest
	err  error      // the error of the first write that failed
	rest []byte     // the beginning of a character whose end is still to come
}

// machine is where --json goes: what is written is JSON, and stays the same JSON.
func machine(c *cobra.Command) *printer { return &printer{to: c.OutOrStdout(), json: true} }

// Write implements io.Writer.
func (p *printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(text)
	if len(p.rest) > 0 {
		text = append(p.rest, text...)
	}
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	p.rest = bytes.Clone(text[whole:])
	if p.err == nil {
		_, p.err = p.to.Write(harmless(text[:whole], p.json))
	}
	return n, p.err
}

// shown is a name from a model in a table: on one line, without what a terminal would obey, and cut if it is too long to read.
func shown(name string) string {
	quoted := files.Quote(name)
	end := strings.LastIndexByte(quoted, '"')
	return strings.ReplaceAll(quoted[1:end], `\"`, `"`) + quoted[end+1:]
}

// harmless spells out control characters but for tabs and ends of lines, and marks that change the direction of text.
func harmless(text []byte, json bool) []byte {
	switch {
	case !bytes.ContainsFunc(text, files.Obeyed):
		return text
	case !json:
		return []byte(files.Harmless(string(text)))
	}
	var out []byte
	for _, r := range string(text) {
		if files.Obeyed(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
