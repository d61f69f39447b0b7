package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
)

// Engines are measured in separate processes, so that neither's threads and memory are in the other's way. The parent
// writes how many runs it wants, a line each time, and reads a line of JSON for each; the end of its input ends the worker.

// A started line is the first that a worker writes: what it took to get there.
type started struct {
	Engine string  `json:"engine"`
	LoadMS float64 `json:"load_ms"`      // from the model's file to a session
	RunMS  float64 `json:"first_run_ms"` // time of the first run, which plans and allocates
}

// A batch line answers a wish for runs. PeakBytes is the resident memory of the process at its highest so far, 0 where the
// system does not report it.
type batch struct {
	MS        []float64 `json:"ms"`
	PeakBytes int64     `json:"peak_bytes"`
	// ResidentBytes is what the process holds now, without garbage.
	ResidentBytes int64 `json:"resident_bytes,omitempty"`
}

func benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-worker JOB",
		Short:  "measure one engine for bench",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var job workerJob
			if err := json.Unmarshal([]byte(args[0]), &job); err != nil {
				return fmt.Errorf("bench-worker is internal to bench: %w", err)
			}
			return job.work(c)
		},
	}
}

// A workerJob is the job of a worker, as JSON.
type workerJob struct {
	Model       string
	Compile     rlxc.CompileOptions
	Library     string // path of onnxruntime's library
	Independent bool
	Sizes       map[string]int // sizes of the inputs' symbols
	// Limits are the rows of the smallest table that each input indexes, if the job measures memory: the worker would need memory to find
	// them. Otherwise nil.
	Limits map[string]int
}

// job is the job of a worker that runs a model with these flags.
func (o *modelFlags) job(model string, sizes map[string]int) workerJob {
	return workerJob{Model: model, Compile: o.CompileOptions, Library: o.library, Independent: o.independent, Sizes: sizes}
}

// work loads the model, runs it, and serves wishes.
func (j *workerJob) work(c *cobra.Command) error {
	o := &modelFlags{CompileOptions: j.Compile, library: j.Library, independent: j.Independent}
	src, err := o.find(j.Model)
	if err != nil {
		return err
	}
	answer := json.NewEncoder(c.OutOrStdout())
	begin := time.Now()
	e, err := o.load(c.Context(), src)
	if err != nil {
		return err
	}
	defer e.Close()
	s := started{Engine: "rlxc", LoadMS: ms(time.Since(begin))}
	if r, ok := e.(*ortEngine); ok {
		// What onnxruntime itself takes: the binding's own reading of the model is not its fault.
		s.Engine, s.LoadMS = onnxRuntime+" "+r.Version(), ms(r.LoadTime())
	}
	inputs := &maker{infos: e.Inputs(), limits: j.Limits}
	if j.Limits == nil {
		if inputs, err = newMaker(src, e); err != nil {
			return err
		}
	}
	in, err := inputs.random(j.Sizes)
	if err != nil {
		return err
	}
	begin = time.Now()
	out, err := e.Run(c.Context(), in)
	if err != nil {
		return err
	}
	s.RunMS = ms(time.Since(begin))
	if err := answer.Encode(s); err != nil {
		return err
	}
	var run func() error
	check := func() error { return nil }
	switch e := e.(type) {
	case *ortEngine:
		fixed, err := e.Fix(in)
		if err != nil {
			return err
		}
		defer fixed.Close()
		run = fixed.Run
	case *own:
		again, done, err := e.again(c.Context(), in, out)
		if err != nil {
			return err
		}
		defer done()
		run, check = again, func() error { return intact(e.program, nil) }
	}
	return serve(c.InOrStdin(), answer, j.Limits != nil, run, check)
}

// serve answers each line of wishes with the times of that many runs, after which it calls check.
func serve(wishes io.Reader, answer *json.Encoder, settled bool, run, check func() error) error {
	lines := bufio.NewScanner(wishes)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return fmt.Errorf("bench-worker is internal to bench: %w", err)
		}
		b := batch{MS: make([]float64, n)}
		for i := range b.MS {
			begin := time.Now()
			if err := run(); err != nil {
				return err
			}
			b.MS[i] = ms(time.Since(begin))
		}
		if err := check(); err != nil {
			return err
		}
		b.PeakBytes = peakMemory()
		if settled {
			debug.FreeOSMemory()
			b.ResidentBytes, _ = memory.Resident()
		}
		if err := answer.Encode(b); err != nil {
			return err
		}
	}
	return lines.Err()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// A worker is the parent's end of a process that measures.
type worker struct {
	started
	cmd    *exec.Cmd
	ended  func() error // error of the context, which kills the process; nil before
	in     io.WriteCloser
	out    *json.Decoder
	errors strings.Builder
}

// selfWorker starts this program again as a worker.
func selfWorker(ctx context.Context, job workerJob) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "bench-worker", string(text))
	cmd.Args[0] = os.Args[0]
	return startWorker(ctx, cmd)
}

// startWorker starts a worker and waits for its first run. ctx is that of cmd.
func startWorker(ctx context.Context, cmd *exec.Cmd) (w *worker, err error) {
	w = &worker{cmd: cmd, ended: ctx.Err}
	w.cmd.Stderr = &w.errors
	w.cmd.WaitDelay = time.Second // for child processes that hold its output open
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = json.NewDecoder(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := w.out.Decode(&w.started); err != nil {
		return nil, w.failure(err)
	}
	if !(w.LoadMS >= 0 && w.RunMS > 0) {
		return nil, w.failure(fmt.Errorf("invalid times: loaded in %v ms, ran in %v ms", w.LoadMS, w.RunMS))
	}
	return w, nil
}

// failure is what the process said when it ended, rather than that it ended.
func (w *worker) failure(err error) error {
	w.in.Close()
	if errors.Is(err, io.EOF) {
		err = errors.New("the command exited without the expected line of JSON")
	} else {
		w.cmd.Process.Kill() // it may wait for something else
	}
	w.cmd.Wait()
	if cancelled := w.ended(); cancelled != nil {
		return cancelled
	}
	if message := strings.TrimSpace(strings.TrimPrefix(w.errors.String(), "rlxc: ")); message != "" {
		return fmt.Errorf("%s", message)
	}
	return err
}

// measure asks for n runs.
func (w *worker) measure(n int) (*batch, error) {
	if _, err := fmt.Fprintln(w.in, n); err != nil {
		return nil, w.failure(err)
	}
	b := &batch{}
	if err := w.out.Decode(b); err != nil {
		return nil, w.failure(err)
	}
	if len(b.MS) != n || slices.Min(b.MS) <= 0 {
		return nil, w.failure(fmt.Errorf("invalid times: want %d positive numbers, got %v", n, b.MS))
	}
	return b, nil
}

// stop ends the process.
func (w *worker) stop() error {
	w.in.Close()
	return w.cmd.Wait()
}

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
	w, err := startWorker(ctx, exec.CommandContext(ctx, "sh", args...))
	if err != nil {
		return nil, fmt.Errorf("--against-cmd %q: %w", command, err)
	}
	return w, nil
}
