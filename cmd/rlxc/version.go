package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a release; its build sets it (-ldflags "-X main.release=…").
var release string

// A versionReport is what rlxc version prints.
type versionReport struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the source was not that of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildReport is what the program knows of how it was built.
func buildReport() *versionReport {
	r := &versionReport{Version: cmp.Or(release, "unknown"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	r.Version = cmp.Or(release, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Commit = s.Value
		case "vcs.time":
			r.Time = s.Value
		case "vcs.modified":
			r.Modified = s.Value == "true"
		}
	}
	return r
}

// version returns the version of the release or of the module, or else the commit of the build.
func version() string { return buildReport().Version }

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version and the commit",
		Long:    "version prints the version, the commit of the source if the build recorded it, Go's version and the platform.",
		Example: "  rlxc version --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r := buildReport()
			return emit(c, r, func(out io.Writer) error {
				commit := cmp.Or(r.Commit, "unknown")
				if r.Modified {
					commit += ", modified"
				}
				_, err := fmt.Fprintf(out, "rlxc %s\ncommit %s\n%s %s\n", r.Version, commit, r.Go, r.Platform)
				return err
			})
		},
	}
}
