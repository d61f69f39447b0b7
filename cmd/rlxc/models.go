package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
)

func modelsCommand() *cobra.Command {
	var output string
	var seed uint64
	c := &cobra.Command{
		Use:   "models [NAME]",
		Short: "list the built-in models, or write one to a file",
		Long: `models lists the built-in models, which every command takes by name. With a name and -o it writes the model as an .onnx file: its
weights come from the seed, equal seeds give equal bytes. A form may stand behind a name: -int8, -qdq and -int4 are what quantize
writes, -fp16 is half precision, -fused has the operators that onnxruntime's optimiser writes.`,
		Example: `  rlxc models
  rlxc models bert-base -o bert-base.onnx
  rlxc models bert-base-int8 -o small.onnx
  rlxc models bert-tiny-classifier --seed 7 -o tiny.onnx`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeModel,
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the file to write")
	c.Flags().Uint64Var(&seed, "seed", 0, "of the weights")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			if output != "" {
				return usagef("name the model to write (rlxc models lists them): rlxc models NAME -o %s", output)
			}
			return listModels(c)
		}
		if output == "" {
			return usagef("name the file to write: -o %s.onnx", args[0])
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
		_, err := fmt.Fprintf(out, "Each in other forms too: behind the name, -%s.\n", strings.ReplaceAll(join(models.Forms()), ", ", ", -"))
		return err
	})
}

func writeModel(c *cobra.Command, name string, seed uint64, file string) error {
	config, ok := models.Lookup(name)
	if !ok {
		return fmt.Errorf("there is no built-in model %q (rlxc models lists them)", name)
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
		return errors.Join(errors.New("the model was not written"), err)
	}
	report := struct {
		Model string `json:"model"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{name, file, info.Size()}
	return emit(c, report, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%s: %s, %s\n", report.File, report.Model, bytesText(report.Bytes))
		return err
	})
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
