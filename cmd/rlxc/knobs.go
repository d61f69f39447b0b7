package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/backend/onnxruntime"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/rewrite"
)

// A knob is an environment variable that changes what rlxc does.
type knob struct {
	Name  string `json:"name"`
	Does  string `json:"does"`
	Value string `json:"value,omitempty"` // at present
}

// knobs is all of them.
var knobs = []knob{
	{Name: cpu.EnvLevel, Does: "forces a level of the processor's instructions: amx, avx512bf16, avx512vnni, avx512, avx2 or generic"},
	{Name: rewrite.EnvDump, Does: "a folder for the IR after each pass that changed it, and one page that shows all of them"},
	{Name: planner.EnvMode, Does: "the memory planner's mode where no --mode is given: disabled, remap, arena, best-fit, optimal or auto"},
	{Name: onnxruntime.Env, Does: "the path of onnxruntime's shared library, before any other place; tests that need it run where it is set"},
	{Name: rlxc.EnvVerify, Does: "1 checks the graph after every pass and proves every memory plan"},
	{Name: "RLXC_WGPU", Does: "the path of wgpu's native library, before any other place; tests that need it run where it is set"},
	{Name: planner.EnvNoReuse, Does: "1 gives each buffer memory of its own, to find out whether a wrong result comes from sharing"},
	{Name: "RLXC_FIXTURES", Does: "the folder of the large fixtures: tests that need them run where it is set"},
	{Name: "RLXC_HOSTILE_MODELS", Does: "the files that a process of the robustness tests runs; they set it themselves"},
	{Name: "RLXC_PLANNER_INSTANCES", Does: "the folder of the planner's instances: tests that need them run where it is set"},
	{Name: "RLXC_TOKENIZER_BENCH", Does: "the folder of the benchmark that models/scripts/bench_tokenizers.py runs; it sets it itself"},
}

func knobsCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "knobs",
		Short:             "list the environment variables",
		Long:              "knobs lists the environment variables that rlxc and its tests read, what each does, and its value.",
		Example:           "  rlxc knobs",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			list := make([]knob, len(knobs))
			for i, k := range knobs {
				k.Value = os.Getenv(k.Name)
				list[i] = k
			}
			return emit(c, list, func(out io.Writer) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				for _, k := range list {
					now := ""
					if k.Value != "" {
						now = " (now " + k.Value + ")"
					}
					fmt.Fprintf(w, "%s\t%s%s\n", k.Name, k.Does, now)
				}
				return w.Flush()
			})
		},
	}
}
