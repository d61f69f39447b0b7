package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
)

func modelsCommand() *cobra.Command {
	var output string
	var seed uint64
	c := &cobra.Command{
		Use:   "models [NAME]",
		Short: "list the built-in models, or write one to a file",
		Long: `models lists the built-in models. Commands take their names, except for serve and the commands on texts:
built-in models have no tokenizer. With a name and -o it writes the model to an .onnx file. The weights are
random, and equal seeds produce equal bytes. A suffix selects a form: -int8, -qdq and -int4 are quantised,
-fp16 is half precision, and -fused uses the operators that onnxruntime's optimiser writes.`,
		Example: `  rlxc models
  rlxc models bert-base -o bert-base.onnx
  rlxc models bert-base-int8 -o small.onnx
  rlxc models bert-tiny-classifier --seed 7 -o tiny.onnx`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed of the weights")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			if output != "" {
				return usagef("no model name: want rlxc models NAME -o %s (rlxc models lists the names)", output)
			}
			return listModels(c)
		}
		if output == "" {
			return usagef("no file name: add -o %s.onnx", args[0])
		}
		return writeModel(c, args[0], seed, output)
	}
	return c
}

// A modelRow is what the list says of a built-in model.
type modelRow struct {
	Name string `json:"name"`
	models.Config
}

func listModels(c *cobra.Command) error {
	var rows []modelRow
	for _, name := range models.Names() {
		config, _ := models.Lookup(name)
		rows = append(rows, modelRow{name, config})
	}
	return emit(c, rows, func(out io.Writer) error {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tLAYERS\tHIDDEN\tHEADS\tVOCABULARY\tHEAD")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", r.Name, r.Layers, r.Hidden, r.Heads, r.Vocabulary, r.Head)
		}
		w.Flush()
		_, err := fmt.Fprintf(out, "Suffixes for other forms: -%s.\n", strings.ReplaceAll(options.Join(models.Forms()), ", ", ", -"))
		return err
	})
}

func writeModel(c *cobra.Command, name string, seed uint64, file string) error {
	config, ok := models.Lookup(name)
	if !ok {
		return fmt.Errorf("unknown built-in model %q (rlxc models lists them)", name)
	}
	config.Seed = seed
	p, err := models.Build(config)
	if err != nil {
		return err
	}
	if err := onnx.Save(file, p); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return errors.Join(errors.New("cannot write the model"), err)
	}
	report := struct {
		Model string `json:"model"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{name, file, info.Size()}
	return emit(c, report, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%s: %s, %s\n", report.File, report.Model, page.Bytes(report.Bytes))
		return err
	})
}
