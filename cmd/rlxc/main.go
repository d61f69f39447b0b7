// Command rlxc compiles, runs, validates, plans and measures ONNX models.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/internal/files"
)

// The exit codes.
const (
	exitDone  = 0
	exitCheck = 1 // the check that the command makes failed
	exitUsage = 2 // the command line is invalid
	exitInput = 3 // the model, an input or the environment is invalid

	exitSignal = 128 // plus the signal's number, as in shells
)

// errCheck ends a command whose check failed and that has printed why.
var errCheck = errors.New("the check failed")

// A usageError is a mistake in the command line that the command finds, not cobra.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, interrupted := catch()
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(interrupted(code))
}

// patience is the time that an interrupted command gets before the process exits.
const patience = 300 * time.Millisecond

// draining is the time in nanoseconds that a command needs to shut down; 0 if it needs none.
var draining atomic.Int64

// patient gives an interrupted command more time. If it then ends without an error, the exit code is 0.
func patient(time time.Duration) { draining.Store(int64(time)) }

// interruptNote is the line that a signal prints about results that stay when the process ends; nil in a command without them.
var interruptNote atomic.Pointer[string]

// catch cancels the context on SIGINT and SIGTERM, and exits if the command does not return in time. It removes files that are being
// written. interrupted returns the exit code of an interrupted command.
func catch() (_ context.Context, interrupted func(code int) int) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var got atomic.Int32
	go func() {
		s := exitSignal + int(syscall.SIGINT)
		if <-signals == syscall.SIGTERM {
			s = exitSignal + int(syscall.SIGTERM)
		}
		got.Store(int32(s))
		if text := interruptNote.Load(); text != nil {
			fmt.Fprintf(&printer{to: os.Stderr}, "\n%s\n", *text)
		}
		cancel()
		select {
		case <-signals: // a second signal
		case <-time.After(patience + time.Duration(draining.Load())):
		}
		files.DiscardDrafts()
		os.Exit(s)
	}()
	return ctx, func(code int) int {
		if draining.Load() > 0 {
			return code
		}
		return cmp.Or(int(got.Load()), code)
	}
}

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root, started := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(&printer{to: stderr}) // messages of commands contain names and paths
	describeStandard(root)
	cmd, err := root.ExecuteContextC(ctx)
	out := root.ErrOrStderr()
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheck):
		return exitCheck
	case !*started || errors.As(err, &usage):
		fmt.Fprintf(out, "%s: %s\nRun \"%s --help\" for usage.\n", cmd.CommandPath(), plainUsage(err), cmd.CommandPath())
		return exitUsage
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errInterrupted
	}
	fmt.Fprintf(out, "rlxc: %v\n", err)
	return exitInput
}

// errInterrupted is the message of a command that was cancelled, wherever it learned so.
var errInterrupted = errors.New("interrupted")

// groupError matches what cobra reports of flags that require or exclude each other.
var groupError = regexp.MustCompile(`flags in the group \[(.*?)\](.*)`)

// plainUsage is the text of an error in the command line.
func plainUsage(err error) string {
	m := groupError.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	flags := "--" + strings.ReplaceAll(m[1], " ", ", --")
	switch {
	case strings.Contains(m[2], "none of the others"):
		return "these flags exclude each other: " + flags
	case strings.Contains(m[2], "must all be set"):
		return "these flags require each other: " + flags
	}
	return "one of these flags is required: " + flags
}

// newRoot returns the command tree. started is set when a command starts. An error before that is a mistake in the command line that
// cobra found.
func newRoot() (root *cobra.Command, started *bool) {
	root = &cobra.Command{
		Use:   "rlxc",
		Short: "compile ONNX models, run them, and prove the results",
		Long: `rlxc compiles ONNX models ahead of time and runs them.

M is a model file, a compiled .rlxc file, a folder that holds model.onnx, or the name of a built-in model
(see "rlxc models"). A path that exists takes precedence over a name. Commands on texts and serve take the
id of a model on the Hugging Face Hub instead of the name of a built-in model.

The exit code is 0 on success, 1 if a check failed, 2 if the command line is invalid, 3 if the model, an
input or the environment is invalid, and 130 or 143 after an interrupt.`,
		Example: `  rlxc validate bert-tiny
  rlxc run bert-tiny --random --dim batch=1 --dim seq=8
  rlxc plan bert-tiny --dim batch=1 --dim seq=128`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().Bool("json", false, "print JSON")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var number *strconv.NumError
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), "--", names))
		}
		if errors.As(err, &number) { // whose text names Go functions
			return fmt.Errorf("%sinvalid value %q: want a number", strings.TrimSuffix(err.Error(), number.Error()), number.Num)
		}
		return err
	})
	for _, g := range []struct {
		id, title string
		complete  cobra.CompletionFunc // completes operands of commands that do not; nil completes names of files
		commands  []*cobra.Command
	}{
		{"texts", "Commands on texts:", nil, []*cobra.Command{embedCommand(), searchCommand(), rerankCommand(), classifyCommand(),
			tagCommand(), answerCommand(), tokenizeCommand()}},
		{"models", "Commands on models:", completeModel, []*cobra.Command{runCommand(), validateCommand(), benchCommand(), planCommand(),
			compileCommand(), inspectCommand(), quantizeCommand(), modelsCommand(), pullCommand(), cacheCommand()}},
		{"images", "Commands on images:", nil, []*cobra.Command{detectCommand()}},
		{"server", "Server:", nil, []*cobra.Command{serveCommand()}},
		{"tools", "Tools:", cobra.NoFileCompletions, []*cobra.Command{devicesCommand(), environmentCommand(), versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			if c.GroupID = g.id; c.ValidArgsFunction == nil {
				c.ValidArgsFunction = g.complete
			}
		}
		root.AddCommand(g.commands...)
	}
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.AddCommand(benchWorkerCommand())
	started = new(bool)
	for _, c := range root.Commands() {
		requireUTF8(c, c.GroupID == "texts")
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) (err error) {
			*started = true
			defer fault(&err, debug.SetPanicOnFault(true))
			return run(c, args)
		}
	}
	return root, started
}

// describeStandard gives cobra's own commands help texts in the style of the others.
func describeStandard(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short, c.Long = "describe a command", "help describes a command, as --help does."
		case "completion":
			c.Short = "print a script that completes command lines in a shell"
			c.Long = "completion prints a script that completes the command lines of rlxc. The --help of each shell shows how to load it."
			for _, shell := range c.Commands() {
				shell.Short = "print the completion script of " + shell.Name()
			}
		}
	}
}

// fault returns the panic of a read beyond the end of a truncated model file as an error. Any command may cause such a read.
func fault(err *error, before bool) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		if *err = files.FaultError(r); *err == nil {
			panic(r)
		}
	}
}

// emit writes the report of a command: as JSON with --json, as text otherwise.
func emit(c *cobra.Command, v any, text func(io.Writer) error) error {
	if asJSON, _ := c.Flags().GetBool("json"); !asJSON {
		out := &printer{to: c.OutOrStdout()}
		return cmp.Or(text(out), out.err)
	}
	out := machine(c)
	if long, ok := v.(interface{ writeJSON(io.Writer) error }); ok {
		return cmp.Or(long.writeJSON(out), out.err)
	}
	return encodeJSON(out, v)
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
