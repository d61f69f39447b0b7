package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/pipeline"
)

// A detectionLine is the line of an image.
type detectionLine struct {
	Image      string               `json:"image"` // path
	Detections []pipeline.Detection `json:"detections"`
}

// detectFlags are the flags of detect.
type detectFlags struct {
	open      pipeline.Options
	threshold float32
	draw      string // file or folder of pictures; empty for none
	onError   string
}

func detectCommand() *cobra.Command {
	d := &detectFlags{onError: "stop"}
	c := &cobra.Command{
		Use:   "detect M IMAGE…",
		Short: "find objects in images",
		Long: `detect prints the objects in images, the best first: label, score, and the box in pixels of the upright
image, left, top, right and bottom. An IMAGE is a file or a folder: JPEG, PNG, GIF, WebP, BMP and TIFF.

M is a folder that optimum wrote (DETR, Conditional and Deformable DETR, RT-DETR, YOLOS, Table
Transformer), or a YOLO export of ultralytics or YOLOv5, whose file says how images become tensors and
what the classes are.

--draw out.png writes the image with boxes and labels. Of several images, --draw names a folder, which
has out/NAME.png for each. --json prints a line of JSON for each image instead of a table.`,
		Example: `  rlxc detect path/to/detr photo.jpg --threshold 0.7
  rlxc detect yolov8n.onnx photo.jpg --draw out.png
  rlxc detect yolov8n.onnx holiday --draw boxes --json`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return d.run(c, args[0], args[1:]) },
	}
	f := c.Flags()
	f.Float32Var(&d.threshold, "threshold", 0, "score that objects exceed, 0 to 1 (default 0.5, of YOLO models 0.25)")
	f.StringVar(&d.draw, "draw", "", "PNG file for the image with boxes and labels, or a folder for several images")
	f.StringVar(&d.open.Variant, "variant", "", "ONNX file to take, such as quantized for model_quantized.onnx")
	f.StringVar(&d.open.Revision, "revision", "", "branch, tag or commit of a model of the hub (default main)")
	f.IntVar(&d.open.Sessions, "sessions", 0, "number of concurrent batches (default one per processor, four per GPU)")
	enum(c, &d.onError, "on-error", "what to do when an image cannot be read", "stop", "skip")
	registerCompile(c, &d.open.Compile)
	return c
}

func (d *detectFlags) run(c *cobra.Command, model string, named []string) (err error) {
	if err := least("sessions", d.open.Sessions, 0); err != nil {
		return err
	}
	if !(d.threshold >= 0 && d.threshold <= 1) {
		return usagef("--threshold %v: want 0 to 1", d.threshold)
	}
	if c.Flags().Changed("threshold") {
		d.threshold = max(d.threshold, math.SmallestNonzeroFloat32) // 0 stands for the default
	}
	paths, err := imageFiles(named)
	if err != nil {
		return err
	}
	pictures, err := d.pictures(paths, named)
	if err != nil {
		return err
	}
	boundHeap(0)
	m, err := pipeline.OpenImages(c.Context(), model, d.open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	warnRepacked(model, m.Program())
	asJSON, _ := c.Flags().GetBool("json")
	run := &imageRun{skip: d.onError == "skip", log: c.ErrOrStderr()}
	detect := func(images []pipeline.Image) ([][]pipeline.Detection, error) {
		return m.Detect(c.Context(), images, pipeline.DetectOptions{Threshold: d.threshold})
	}
	var all []detectionLine // for the table
	lines := json.NewEncoder(machine(c))
	lines.SetEscapeHTML(false)
	for round := range slices.Chunk(paths, imagesPerRound) {
		images, found, err := ofImages(run, round, detect)
		if err != nil {
			return err
		}
		for i, image := range images {
			if d.draw != "" {
				draw := func(w io.Writer) error { return drawDetections(w, image, found[i]) }
				if err := files.ReplaceFile(pictures[image.Name], draw); err != nil {
					return err
				}
			}
			line := detectionLine{image.Name, found[i]}
			if line.Detections == nil {
				line.Detections = []pipeline.Detection{}
			}
			if !asJSON {
				all = append(all, line)
			} else if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	if !asJSON {
		if err := detectionTable(&printer{to: c.OutOrStdout()}, all); err != nil {
			return err
		}
	}
	return run.end()
}

// pictures returns the PNG file of each image, and makes their folder. A single file is drawn to --draw itself.
func (d *detectFlags) pictures(paths, named []string) (map[string]string, error) {
	if d.draw == "" {
		return nil, nil
	}
	if slices.Equal(paths, named) && len(paths) == 1 {
		if !strings.EqualFold(filepath.Ext(d.draw), ".png") {
			return nil, usagef("--draw %s: want a name that ends in .png", d.draw)
		}
		return map[string]string{paths[0]: d.draw}, nil
	}
	all, taken := map[string]string{}, map[string]string{}
	for _, path := range paths {
		base := filepath.Base(path)
		name := strings.TrimSuffix(base, filepath.Ext(base)) + ".png"
		if other, ok := taken[name]; ok && other != path {
			return nil, fmt.Errorf("%s and %s would both be drawn to %s: rename one, or run the command for each folder", other, path,
				filepath.Join(d.draw, name))
		}
		taken[name], all[path] = path, filepath.Join(d.draw, name)
	}
	return all, os.MkdirAll(d.draw, 0o777)
}

// detectionTable prints the objects of images.
func detectionTable(out *printer, all []detectionLine) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "LABEL\tSCORE\tLEFT\tTOP\tRIGHT\tBOTTOM\tIMAGE\n")
	for _, image := range all {
		for _, d := range image.Detections {
			fmt.Fprintf(w, "%s\t%.4f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\n", d.Label, d.Score, d.Box[0], d.Box[1], d.Box[2], d.Box[3], image.Image)
		}
		if len(image.Detections) == 0 {
			fmt.Fprintf(w, "-\t\t\t\t\t\t%s\n", image.Image)
		}
	}
	return errors.Join(w.Flush(), out.err)
}
