package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// commandProtocol is what a command of --against-cmd has to do: what bench-worker does, with arguments that do not change.
const commandProtocol = `--against-cmd compares with any engine that a command line starts. A shell runs the command for each cell, ` +
	`with these
arguments after it: the path of the model, the number of threads, and name=size for each free dimension. The command
  1. loads the model, runs it once, and prints one line of JSON: {"engine": "name 1.0", "load_ms": 12.5, "first_run_ms": 3.25};
  2. for each line on its standard input, which is a number n, runs the model n times and prints one line of JSON with the n times
     and its largest resident memory so far (0 if it does not know): {"ms": [1.5, 1.25], "peak_bytes": 90000000};
  3. ends when its standard input does.
What it says on standard error is shown where it fails.`

// commandWorker starts a foreign engine for a cell.
func commandWorker(ctx context.Context, command, model string, threads int, free []string, sizes map[string]int) (*worker, error) {
	args := []string{"-c", command + ` "$@"`, "sh", model, strconv.Itoa(threads)}
	for _, name := range free {
		args = append(args, fmt.Sprintf("%s=%d", name, sizes[name]))
	}
	w, err := startWorker(exec.CommandContext(ctx, "sh", args...))
	if err != nil {
		return nil, fmt.Errorf("--against-cmd %q: %w", command, err)
	}
	return w, nil
}
