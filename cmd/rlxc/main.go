// Command rlxc compiles ONNX models ahead of time, runs them, and proves, plans and measures what it made of them.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone  = 0
	exitCheck = 1 // the check that the command makes failed
	exitUsage = 2 // the command line is wrong
	exitInput = 3 // the model, an input or the environment is wrong
)

// errCheck ends a command whose check failed; the command has said why.
var errCheck = errors.New("the check failed")

// A usageError is a mistake in the command line that only the command itself can notice.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute runs a command line and gives its exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	root, started := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheck):
		return exitCheck
	case !*started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %v\nRun \"%s --help\" for what it takes.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(stderr, "rlxc: %v\n", err)
	return exitInput
}

// newRoot makes the command tree. started is set once a command runs: an error before that is a mistake in the command
// line, which cobra found.
func newRoot() (root *cobra.Command, started *bool) {
	root = &cobra.Command{
		Use:   "rlxc",
		Short: "compile ONNX models, run them, and prove the results",
		Long: `rlxc compiles ONNX models ahead of time and runs them.

M is a model file, a folder that holds model.onnx, or the name of a built-in model (see "rlxc models"); an existing path wins.

It exits with 0 when done, 1 when a check failed, 2 when the command line is wrong, and 3 when the model, an input or the
machine is.`,
		Example: `  rlxc validate bert-tiny
  rlxc run bert-tiny --random --dim batch=1 --dim seq=8
  rlxc plan bert-tiny --dim batch=1 --dim seq=128`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().Bool("json", false, "print JSON")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var number *strconv.NumError
		if errors.As(err, &number) { // it speaks of Go's functions
			return fmt.Errorf("%s%q is no number of its kind", strings.TrimSuffix(err.Error(), number.Error()), number.Num)
		}
		return err
	})
	root.AddCommand(runCommand(), validateCommand(), planCommand(), inspectCommand(), compileCommand(), benchCommand(),
		benchWorkerCommand(), quantizeCommand(), modelsCommand(), devicesCommand(), knobsCommand())
	started = new(bool)
	for _, c := range root.Commands() {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return run(c, args)
		}
	}
	return root, started
}

// version is that of the module, or the commit that it was built at.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// emit writes what a command found: as JSON where --json asks for it, as text otherwise.
func emit(c *cobra.Command, v any, text func(io.Writer) error) error {
	if asJSON, _ := c.Flags().GetBool("json"); !asJSON {
		out := &printer{to: c.OutOrStdout()}
		return cmp.Or(text(out), out.err)
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
