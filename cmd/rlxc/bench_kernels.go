package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/options"
)

// A kernelReport is what bench --kernels prints.
type kernelReport struct {
	Level   string       `json:"level"` // level of the processor's instructions
	Kernels []kernelRate `json:"kernels"`
}

// A kernelRate is what one kernel does on one core, beside what the core can do.
type kernelRate struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Rate float64 `json:"rate"`
	// Peak is the rate of a loop that does nothing but the multiply-adds of this type, or but read memory, measured in turn
	// with the kernel. Kernels that neither bounds have none.
	Peak  float64 `json:"peak,omitempty"`
	Share float64 `json:"share,omitempty"` // rate divided by the peak
}

// benchKernels measures every kernel of the level that programs use.
func benchKernels(c *cobra.Command) error {
	set, err := kernel.Select(os.Getenv(options.EnvCPU))
	if err != nil {
		return err
	}
	report := &kernelReport{Level: set.Level.String()}
	bar := progress(c, -1, "measuring")
	set.Benchmark(func(r kernel.Rate) {
		report.add(r)
		bar.Add(1)
	})
	bar.Finish()
	return emit(c, report, report.text)
}

func (r *kernelReport) add(k kernel.Rate) {
	row := kernelRate{Name: k.Name, Unit: k.Unit, Rate: k.Rate, Peak: k.Peak}
	if k.Peak > 0 {
		row.Share = k.Rate / k.Peak
	}
	r.Kernels = append(r.Kernels, row)
}

// text prints a row a kernel.
func (r *kernelReport) text(out io.Writer) error {
	fmt.Fprintf(out, "one core, level %s; kernels and peaks are measured alternately\n\n", r.Level)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "RATE\tPEAK\tSHARE\tUNIT\t  KERNEL")
	for _, k := range r.Kernels {
		peak, share := "", ""
		if k.Peak > 0 {
			peak, share = fmt.Sprintf("%.1f", k.Peak), fmt.Sprintf("%.1f%%", 100*k.Share)
		}
		fmt.Fprintf(w, "%.4g\t%s\t%s\t%s\t  %s\n", k.Rate, peak, share, k.Unit, k.Name)
	}
	return w.Flush()
}
