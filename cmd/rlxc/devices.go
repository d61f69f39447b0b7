package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/page"
)

// A deviceRow is something that runs models.
type deviceRow struct {
	Backend string `json:"backend"`
	Device  string `json:"device,omitempty"` // what --device takes; backend cpu has one device
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Driver  string `json:"driver,omitempty"`
	// Binding is the largest part of a model's memory that a kernel sees at once, in bytes, Buffer the largest allocation.
	Binding uint64 `json:"binding,omitempty"`
	Buffer  uint64 `json:"buffer,omitempty"`
	// Features are those of WebGPU that the backend uses: --precision f16 needs shader-f16.
	Features []string `json:"features,omitempty"`
	// Refused is a feature that the library lists and does not give, or that does not work, with the reason.
	Refused string `json:"refused,omitempty"`
}

// A deviceReport is what devices prints.
type deviceReport struct {
	Devices []deviceRow `json:"devices"`
	// Missing says why there are no devices of a backend, by its name.
	Missing map[string]string `json:"missing,omitempty"`
}

func devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "list the devices that run models",
		Long: `devices lists the CPU with its instruction level, NVIDIA's devices, and the GPU adapters that wgpu-native
finds. DEVICE is the value of --device. BINDING is the largest buffer binding: larger tensors are split
or stay on the host.`,
		Example: `  rlxc devices
  rlxc run bert-tiny --backend cuda --precision f16 --random --dim batch=1 --dim seq=8
  rlxc run bert-tiny --backend wgpu --device 0 --random --dim batch=1 --dim seq=8`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := kernel.Select(os.Getenv(options.EnvCPU))
			if err != nil {
				return err
			}
			report := &deviceReport{Devices: []deviceRow{{Backend: "cpu", Name: runtime.GOARCH + " " + set.Level.String(),
				Kind: fmt.Sprintf("%d processors", runtime.GOMAXPROCS(0))}}}
			for _, list := range deviceLists {
				rows, err := list.devices()
				if err != nil {
					if report.Missing == nil {
						report.Missing = map[string]string{}
					}
					report.Missing[list.backend] = err.Error()
				}
				report.Devices = append(report.Devices, rows...)
			}
			return emit(c, report, report.text)
		},
	}
}

func (r *deviceReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BACKEND\tDEVICE\tNAME\tKIND\tBINDING\tFEATURES\tDRIVER")
	for _, d := range r.Devices {
		binding := ""
		if d.Binding > 0 {
			binding = page.Bytes(int64(d.Binding))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Backend, d.Device, d.Name, d.Kind, binding, strings.Join(d.Features, " "),
			d.Driver)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, d := range r.Devices {
		if d.Refused == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "device %s of backend %s: %s\n", d.Device, d.Backend, d.Refused); err != nil {
			return err
		}
	}
	for _, backend := range slices.Sorted(maps.Keys(r.Missing)) {
		if _, err := fmt.Fprintf(out, "no device for backend %s: %s\n", backend, r.Missing[backend]); err != nil {
			return err
		}
	}
	return nil
}
