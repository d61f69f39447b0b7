package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progress shows how far a command is, on stderr and only where that is a terminal.
func progress(c *cobra.Command, steps int, doing string) *progressbar.ProgressBar {
	f, ok := c.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return progressbar.DefaultSilent(int64(steps))
	}
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(doing),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount())
}
