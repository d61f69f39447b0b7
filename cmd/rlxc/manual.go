//go:build manual

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"
)

// With build tag manual the program writes what archives have beside it: go run -tags manual ./cmd/rlxc FOLDER writes man pages to
// FOLDER/man and completions to FOLDER/completions.
func init() {
	root, _ := newRoot()
	man, completions := filepath.Join(os.Args[1], "man"), filepath.Join(os.Args[1], "completions")
	err := errors.Join(os.MkdirAll(man, 0o777), os.MkdirAll(completions, 0o777))
	if err == nil {
		err = doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "rlxc", Manual: "rlxc"}, man)
	}
	for name, write := range map[string]func(file string) error{
		"rlxc.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"_rlxc":     root.GenZshCompletionFile,
		"rlxc.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
		"rlxc.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		err = errors.Join(err, write(filepath.Join(completions, name)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitInput)
	}
	os.Exit(exitDone)
}
