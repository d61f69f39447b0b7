package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/hub"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/pipeline"
)

func pullCommand() *cobra.Command {
	var revision, variant string
	var include []string
	c := &cobra.Command{
		Use:   "pull ID",
		Short: "download a model from the Hugging Face Hub",
		Long: `pull downloads the files of a model that the text commands need into the cache that Python's
huggingface_hub uses, unless they are there: configuration, tokenizer, and the ONNX file of a variant.
--include chooses files by patterns instead.

It follows huggingface_hub's environment variables, such as HF_HOME, HF_ENDPOINT, HF_TOKEN and
HF_HUB_OFFLINE. An interrupted download continues where it stopped.`,
		Example: `  rlxc pull sentence-transformers/all-MiniLM-L6-v2
  rlxc pull BAAI/bge-small-en-v1.5 --variant quantized
  rlxc pull ORG/NAME --revision v1.0 --include '*.json' --include 'onnx/*'`,
		Args:              oneModel,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			client := hub.FromEnv()
			bars := &transfers{bar: progress(c, -1, args[0]), done: map[string]int64{}}
			client.Progress = bars.update
			want := pipeline.Files(variant)
			if len(include) > 0 {
				for _, p := range include {
					if _, err := path.Match(p, ""); err != nil {
						return usagef("--include %q: %v", p, err)
					}
				}
				want = func(paths []string) []string { return matching(paths, include) }
			}
			s, err := client.Snapshot(c.Context(), args[0], revision, want)
			bars.bar.Finish()
			if err != nil {
				return err
			}
			return emit(c, s, func(out io.Writer) error {
				if s.Stale != nil {
					fmt.Fprintf(c.ErrOrStderr(), "using cached files, which may be outdated: %v\n", s.Stale)
				}
				_, err := fmt.Fprintf(out, "%s\n", s.Dir)
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&revision, "revision", "main", "branch, tag or commit")
	f.StringVar(&variant, "variant", "", "ONNX file to take, such as quantized for model_quantized.onnx")
	f.StringArrayVar(&include, "include", nil, "pattern of the paths or names of files (repeatable)")
	c.MarkFlagsMutuallyExclusive("variant", "include")
	return c
}

// matching are the paths that match a pattern, whole or by their last part.
func matching(paths, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return !slices.ContainsFunc(patterns, func(pattern string) bool {
			whole, _ := path.Match(pattern, p)
			name, _ := path.Match(pattern, path.Base(p))
			return whole || name
		})
	})
}

// transfers shows how many bytes of all files have arrived.
type transfers struct {
	bar  *progressbar.ProgressBar
	done map[string]int64
}

func (t *transfers) update(file string, done, total int64) {
	before, known := t.done[file]
	if !known && total > 0 {
		t.bar.ChangeMax64(max(t.bar.GetMax64(), 0) + total)
	}
	t.done[file] = done
	t.bar.Add64(done - before)
}

func cacheCommand() *cobra.Command {
	var remove string
	c := &cobra.Command{
		Use:   "cache",
		Short: "list the models in the hub's cache, or remove one",
		Long: `cache lists the models in the cache that rlxc pull and Python's huggingface_hub fill, with their sizes
and revisions. --remove removes a model, and those files of the cache's shared store that only it used.`,
		Example: `  rlxc cache
  rlxc cache --remove sentence-transformers/all-MiniLM-L6-v2`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client := hub.FromEnv()
			if remove != "" {
				freed, err := client.Remove(c.Context(), remove)
				if err != nil {
					return err
				}
				return emit(c, map[string]any{"removed": remove, "bytes": freed}, func(out io.Writer) error {
					_, err := fmt.Fprintf(out, "%s: %s freed\n", remove, mebibytes(freed))
					return err
				})
			}
			repos, err := client.List()
			if err != nil {
				return err
			}
			return emit(c, repos, func(out io.Writer) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "MODEL\tSIZE\tREVISION\tCOMMIT\tFILES\tMODIFIED")
				for _, r := range repos {
					for _, rev := range r.Revisions {
						fmt.Fprintf(w, "%s\t%s\t%s\t%.10s\t%d\t%s\n", r.ID, mebibytes(r.Bytes), options.Join(rev.Refs), rev.Commit,
							rev.Files, rev.Used.Format(time.DateOnly))
					}
				}
				return w.Flush()
			})
		},
	}
	c.Flags().StringVar(&remove, "remove", "", "id of a model to remove")
	return c
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
