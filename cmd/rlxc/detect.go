package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/pipeline"
)

// A detectionLine is the line of an image.
type detectionLine struct {
	Image      string               `json:"image"` // path
	Detections []pipeline.Detection `json:"detections"`
}

// A detecting is one call of detect.
type detecting struct {
	textCommand
	threshold float32
	draw      string            // file or folder of pictures; empty for none
	pictures  map[string]string // PNG file of each image
}

func detectCommand() *cobra.Command {
	d := &detecting{}
	d.onError = "stop"
	c := &cobra.Command{
		Use:   "detect M IMAGE…",
		Short: "find objects in images",
		Long: `detect prints the objects in images, the best first: label, score, and the box in pixels of the upright
image, left, top, right and bottom. An IMAGE is a file, a folder, or - for the standard input: JPEG, PNG,
GIF, WebP, BMP and TIFF.

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
	d.registerVariant(f)
	d.registerResults(c)
	registerCompile(c, &d.open.Compile)
	return c
}

func (d *detecting) run(c *cobra.Command, model string, named []string) (err error) {
	if !(d.threshold >= 0 && d.threshold <= 1) {
		return usagef("--threshold %v: want 0 to 1", d.threshold)
	}
	if c.Flags().Changed("threshold") {
		d.threshold = max(d.threshold, math.SmallestNonzeroFloat32) // 0 stands for the default
	}
	if err := d.formats(c); err != nil {
		return err
	}
	d.images = named
	paths, err := imageFiles(named)
	if err != nil {
		return err
	}
	if err := d.findPictures(paths, named); err != nil {
		return err
	}
	m, err := d.imageModel(c, model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return d.do(c, nil, imageItems(paths), task{run: func(ctx context.Context, items []item, _ pipeline.Truncated) ([]any, error) {
		found, err := ofImages(c, items, func(images []pipeline.Image) ([][]pipeline.Detection, error) {
			found, err := m.Detect(ctx, images, pipeline.DetectOptions{Threshold: d.threshold})
			if err != nil || d.draw == "" {
				return found, err
			}
			for i, image := range images {
				draw := func(w io.Writer) error { return drawDetections(w, image, found[i]) }
				if err := files.ReplaceFile(d.pictures[image.Name], draw); err != nil {
					return nil, err
				}
			}
			return found, nil
		})
		return boxed(items, found, err, func(it item, v []pipeline.Detection) any {
			return &detectionLine{it.where, append([]pipeline.Detection{}, v...)}
		})
	}, example: &detectionLine{}, table: detectionTable})
}

// findPictures finds the PNG file of each image, and makes their folder. A single file is drawn to --draw itself.
func (d *detecting) findPictures(paths, named []string) error {
	if d.draw == "" {
		return nil
	}
	d.pictures = map[string]string{}
	if slices.Equal(paths, named) && len(paths) == 1 {
		if !strings.EqualFold(filepath.Ext(d.draw), ".png") {
			return usagef("--draw %s: want a name that ends in .png", d.draw)
		}
		d.pictures[paths[0]] = d.draw
		return nil
	}
	taken := map[string]string{}
	for _, path := range paths {
		base := filepath.Base(path)
		name := strings.TrimSuffix(base, filepath.Ext(base)) + ".png"
		if other, ok := taken[name]; ok && other != path {
			return fmt.Errorf("%s and %s would both be drawn to %s: rename one, or run the command for each folder", other, path,
				filepath.Join(d.draw, name))
		}
		taken[name], d.pictures[path] = path, filepath.Join(d.draw, name)
	}
	return os.MkdirAll(d.draw, 0o777)
}

// detectionTable prints the objects of images.
func detectionTable(w io.Writer, _ []item, results []any) error {
	fmt.Fprint(w, "LABEL\tSCORE\tLEFT\tTOP\tRIGHT\tBOTTOM\tIMAGE\n")
	for _, r := range results {
		image := r.(*detectionLine)
		for _, d := range image.Detections {
			fmt.Fprintf(w, "%s\t%.4f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\n", shown(d.Label), d.Score, d.Box[0], d.Box[1], d.Box[2], d.Box[3],
				image.Image)
		}
		if len(image.Detections) == 0 {
			fmt.Fprintf(w, "-\t\t\t\t\t\t%s\n", image.Image)
		}
	}
	return nil
}
