package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rlxc/rlxc/pipeline"
)

// progress shows how far a command is, on stderr and only where that is a terminal. A command does not show it while it prints a table
// to the same terminal.
func progress(c *cobra.Command, steps int, doing string) *progressbar.ProgressBar {
	to := c.ErrOrStderr()
	if p, ok := to.(*printer); ok { // which would spell out how the bar moves the cursor
		to = p.to
	}
	f, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return progressbar.DefaultSilent(int64(steps))
	}
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(doing),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount())
}

// A textRate shows how fast texts become results, and how long the rest of the input takes.
type textRate struct {
	bar   *progressbar.ProgressBar
	in    *textReader
	model *pipeline.Model // nil for images
	begun time.Time
	from  int64 // position of the input then
	texts int
}

// newTextRate shows it if results go to a file, or anywhere but to a terminal.
func newTextRate(c *cobra.Command, in *textReader, m *pipeline.Model, toFile bool) *textRate {
	r := &textRate{bar: progressbar.DefaultSilent(-1), in: in, model: m}
	if out, ok := c.OutOrStdout().(*os.File); toFile || !ok || !term.IsTerminal(int(out.Fd())) {
		r.bar = progress(c, -1, "texts")
	}
	return r
}

// start is called before the first text that is not skipped.
func (r *textRate) start() {
	if r.begun.IsZero() {
		r.begun, r.from = time.Now(), r.in.position()
	}
}

// add counts texts.
func (r *textRate) add(texts int) {
	r.texts += texts
	r.bar.Add(texts)
	spent := time.Since(r.begun)
	seconds := max(spent.Seconds(), 1e-9)
	said := fmt.Sprintf("%.0f images/s", float64(r.texts)/seconds)
	if r.model != nil {
		said = fmt.Sprintf("%.0f texts/s, %.0f tokens/s", float64(r.texts)/seconds, float64(r.model.Tokens())/seconds)
	}
	if at := r.in.position(); at > r.from && r.in.size > 0 {
		left := time.Duration(float64(spent) * float64(r.in.size-at) / float64(at-r.from))
		said += fmt.Sprintf(", %d %%, %v left", 100*at/r.in.size, left.Round(time.Second))
	}
	r.bar.Describe(said)
}
