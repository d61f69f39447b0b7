package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// commandProtocol is what a command of --against-cmd has to do: what bench-worker does, with arguments that do not change.
const commandProtocol = `--against-cmd compares with any engine that a command line starts. A shell runs the
command for each cell and adds arguments: the path of the model, the number of threads, and name=size for each free dimension.
The command
  1. loads the model, runs it once, and prints one line of JSON:
     {"engine": "name 1.0", "load_ms": 12.5, "first_run_ms": 3.25};
  2. reads lines from its standard input. Each is a number n: the command runs the model n times, and prints
     one line of JSON with the n times and its peak resident memory so far (0 if unknown):
     {"ms": [1.5, 1.25], "peak_bytes": 90000000};
  3. ends when its standard input ends.
Its standard error is printed if it fails.`

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
