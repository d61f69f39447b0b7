package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/planner"
)

// A variable is an environment variable that changes what rlxc does.
type variable struct {
	Name  string `json:"name"`
	Does  string `json:"does"`
	Value string `json:"value,omitempty"` // its current value
}

// environment lists them, but for those that stand for the flags of serve.
var environment = append(optionVariables(), []variable{
	{Name: rewrite.EnvDump, Does: "folder to write the options of a compilation to, " +
		"and the IR after each pass that changes it, with a page that shows all of them"},
	{Name: onnxruntime.Env, Does: "path of onnxruntime's shared library; tests that need it run only if it is set"},
	{Name: "RLXC_CUDA", Does: "path of NVIDIA's driver library, libcuda.so.1"},
	{Name: "RLXC_NVRTC", Does: "path of NVRTC, which compiles custom operators in CUDA text for backend cuda"},
	{Name: "RLXC_SPEED", Does: "models and precisions that the device tests of backend cuda time, as bert-base:f16"},
	{Name: "RLXC_WGPU", Does: "path of the wgpu-native library; tests that need it run only if it is set"},
	{Name: planner.EnvNoReuseSource, Does: "the same as RLXC_ARENA_NO_REUSE, by another planner's name"},
	{Name: planner.EnvNoReuse, Does: "1 gives each buffer its own memory, to find out whether sharing causes a wrong result"},
	{Name: "RLXC_ATTACK", Does: "attack that a child process of the robustness tests runs; the tests set it"},
	{Name: "RLXC_CUDA_HEADERS", Does: "folder of the headers of CUDA, with which the emulated tests of backend cuda compile its kernels"},
	{Name: "RLXC_DECODER", Does: "file of the decoder that BenchmarkDecode runs"},
	{Name: "RLXC_FIXTURES", Does: "folder of the large fixtures; tests that need them run only if it is set"},
	{Name: "RLXC_HOSTILE_MODELS", Does: "files that a child process of the robustness tests runs; the tests set it"},
	{Name: "RLXC_PACKAGES", Does: "folder of the models that models/scripts/packages.py takes from public packages; the test of them " +
		"runs only if it is set"},
	{Name: "RLXC_PLANNER_INSTANCES", Does: "folder of the planner's instances; tests that need them run only if it is set"},
	{Name: "RLXC_PYTHON", Does: "Python interpreter; the test that compares plan --check with verify_plan.py runs only if it is set"},
	{Name: "RLXC_TEST_PREFIX", Does: "command before rlxc in tests of hostile clients and inputs; .ci/hostile sets a memory group"},
	{Name: "RLXC_TOKENIZER_BENCH", Does: "folder of the benchmark that models/scripts/bench_tokenizers.py runs; the script sets it"},
}...)

// optionVariables are those of the options of a compilation.
func optionVariables() (list []variable) {
	for _, row := range options.Table {
		if row.Env == "" {
			continue
		}
		v := variable{Name: row.Env, Does: row.Usage}
		if row.Flag != "" {
			v.Does += fmt.Sprintf(", without --%s", row.Flag)
			if c, ok := row.Value(&options.Compile{}).(options.Choice); ok {
				v.Does += ": " + options.Join(c.Words())
			}
		}
		list = append(list, v)
	}
	return list
}

// serveVariables are those of the flags of serve.
func serveVariables() []variable {
	list := []variable{{Name: envName("models"), Does: "models that serve serves, separated by spaces"}}
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		list = append(list, variable{Name: envName(f.Name), Does: "serve --" + f.Name + ": " + f.Usage})
	})
	return list
}

func environmentCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "environment",
		Short:   "list the environment variables",
		Long:    "environment lists the environment variables that rlxc and its tests read, with their meanings and values.",
		Example: "  rlxc environment",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list := append(slices.Clone(environment), serveVariables()...)
			for i := range list {
				list[i].Value = os.Getenv(list[i].Name)
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
