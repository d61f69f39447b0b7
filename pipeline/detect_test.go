package pipeline

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

var detectors = []string{"detr", "yolos", "conditional", "rtdetr", "yolov8", "yolov10", "yolov5", "end2end"}

// TestDetectionsAreThoseOfTransformersAndUltralytics compares with what models/scripts/detection_models.py has recorded.
func TestDetectionsAreThoseOfTransformersAndUltralytics(t *testing.T) {
	images := photos(t)
	for _, name := range detectors {
		t.Run(name, func(t *testing.T) {
			var want map[string][]Detection
			data, err := os.ReadFile(filepath.Join(imageFolder, name, "boxes.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &want))
			m := openImages(t, name, Options{})
			found, err := m.Detect(t.Context(), images, DetectOptions{})
			require.NoError(t, err)
			for i, got := range found {
				tolerance := float32(1e-4)
				if m.detector.letterbox && i > 0 { // OpenCV rounds once where the photo is scaled: up to 1 of 255 at each pixel
					tolerance = 5e-3
				}
				requireDetections(t, want[images[i].Name], got, tolerance, images[i].Name)
			}
		})
	}
}

// requireDetections finds each wanted detection among those that are left.
func requireDetections(t *testing.T, want, got []Detection, tolerance float32, name string) {
	t.Helper()
	require.Len(t, got, len(want), name)
	require.True(t, slices.IsSortedFunc(got, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) }), name)
	left := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g Detection) bool { return alike(w, g, tolerance) })
		require.GreaterOrEqual(t, i, 0, "%s: %v is missing in %v", name, w, left)
		left = slices.Delete(left, i, i+1)
	}
}

func alike(a, b Detection, tolerance float32) bool {
	near := a.Label == b.Label && max(a.Score-b.Score, b.Score-a.Score) < tolerance
	for k := range a.Box {
		near = near && max(a.Box[k]-b.Box[k], b.Box[k]-a.Box[k]) < 1
	}
	return near
}

// turned returns a PNG file whose stored pixels are turned by a quarter, and whose EXIF tag turns them back.
func turned(t *testing.T, file []byte) []byte {
	upright, err := png.Decode(bytes.NewReader(file))
	require.NoError(t, err)
	b := upright.Bounds()
	stored := image.NewNRGBA(image.Rect(0, 0, b.Dy(), b.Dx()))
	for y := range b.Dy() {
		for x := range b.Dx() {
			stored.Set(y, b.Dx()-1-x, upright.At(x, y))
		}
	}
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, stored))
	chunk := []byte("eXIfMM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00")
	var framed []byte
	framed = binary.BigEndian.AppendUint32(framed, uint32(len(chunk)-4))
	framed = binary.BigEndian.AppendUint32(append(framed, chunk...), crc32.ChecksumIEEE(chunk))
	const header = 8 + 25 // signature and IHDR
	return slices.Concat(out.Bytes()[:header], framed, out.Bytes()[header:])
}

func TestBoxesAreInUprightPixels(t *testing.T) {
	photo := photos(t)[0]
	for _, name := range detectors {
		t.Run(name, func(t *testing.T) {
			m := openImages(t, name, Options{})
			found, err := m.Detect(t.Context(), []Image{photo, {"turned.png", turned(t, photo.Data)}}, DetectOptions{})
			require.NoError(t, err)
			require.NotEmpty(t, found[0])
			require.Equal(t, found[0], found[1])
		})
	}
}

func TestThresholdKeepsTheBest(t *testing.T) {
	for _, name := range detectors {
		t.Run(name, func(t *testing.T) {
			m := openImages(t, name, Options{})
			all, err := m.Detect(t.Context(), photos(t)[:1], DetectOptions{Threshold: 0.3})
			require.NoError(t, err)
			middle := all[0][len(all[0])/2].Score
			best, err := m.Detect(t.Context(), photos(t)[:1], DetectOptions{Threshold: middle})
			require.NoError(t, err)
			require.NotEmpty(t, best[0])
			for _, d := range best[0] {
				require.Greater(t, d.Score, middle)
			}
		})
	}
	m := openImages(t, "yolos", Options{})
	for _, wrong := range []float32{-0.1, 1.1} {
		_, err := m.Detect(t.Context(), photos(t), DetectOptions{Threshold: wrong})
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := m.Embed(t.Context(), photos(t), ImageOptions{})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, "cannot embed images: it returns logits")
	_, err = openImages(t, "vit", Options{}).Detect(t.Context(), photos(t), DetectOptions{})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, "cannot detect images: it returns last_hidden_state")
}

// exported returns a folder with a model of the tests after a change.
func exported(t *testing.T, name string, change func(m *onnxpb.ModelProto, metadata map[string]string)) string {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(imageFolder, name))))
	file := filepath.Join(folder, "model.onnx")
	m, err := onnx.Open(file)
	require.NoError(t, err)
	metadata := map[string]string{}
	for _, x := range m.Proto.MetadataProps {
		metadata[x.Key] = x.Value
	}
	change(m.Proto, metadata)
	m.Proto.MetadataProps = nil
	for key, value := range metadata {
		m.Proto.MetadataProps = append(m.Proto.MetadataProps, &onnxpb.StringStringEntryProto{Key: key, Value: value})
	}
	data, err := onnx.Marshal(m.Proto)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return folder
}

func TestFormsFollowFromMetadata(t *testing.T) {
	for _, x := range []struct {
		name, model string
		set         map[string]string
		want        string // form, or error
	}{
		{"as exported", "yolov8", nil, "YOLO with raw boxes"},
		{"suppression in the model", "yolov8", map[string]string{"args": "{'nms': True, 'dynamic': False}"}, "YOLO with final boxes"},
		{"stated end2end", "yolov10", nil, "YOLO with final boxes"},
		{"rows of 6 numbers", "yolov10", map[string]string{"end2end": ""}, "YOLO with final boxes"},
		{"no task", "yolov5", nil, "YOLOv5 with raw boxes"},
		{"another task", "yolov8", map[string]string{"task": "pose"}, "has no output of a vision model"},
		{"no names", "yolov8", map[string]string{"names": ""}, "has no output of a vision model"},
		{"names of Python's other quotes", "yolov8", map[string]string{"names": `['a', "b's", 'c\'d']`}, "YOLO with raw boxes"},
		{"names without order", "yolov8", map[string]string{"names": "{1: 'a', 0: 'b'}"}, "want {0: 'label', 1: 'label'}"},
		{"names without quotes", "yolov8", map[string]string{"names": "{0: cat}"}, "want {0: 'label', 1: 'label'}"},
		{"a size that is none", "yolov8", map[string]string{"imgsz": "large"}, `imgsz "large" in the model's metadata`},
		{"a size of 0", "yolov8", map[string]string{"imgsz": "[0, 640]"}, "size of 640×0 pixels"},
	} {
		t.Run(x.name, func(t *testing.T) {
			folder := exported(t, x.model, func(_ *onnxpb.ModelProto, metadata map[string]string) {
				for key, value := range x.set {
					metadata[key] = value
				}
			})
			m, err := OpenImages(t.Context(), folder, Options{})
			if err != nil {
				require.ErrorContains(t, err, x.want)
				return
			}
			require.Equal(t, x.want, m.detector.name)
			require.NoError(t, m.Close())
		})
	}
}

func TestDetectionErrorsNameTheirCause(t *testing.T) {
	find := func(folder string) error {
		m, err := OpenImages(t.Context(), folder, Options{})
		require.NoError(t, err)
		defer m.Close()
		_, err = m.Detect(t.Context(), photos(t)[:1], DetectOptions{Threshold: 0.01})
		return err
	}
	none := func(*onnxpb.ModelProto, map[string]string) {}
	folder := exported(t, "detr", none)
	require.NoError(t, os.WriteFile(folder+"/config.json", []byte(`{"model_type":"detr","id2label":{"0":"a","1":"b"}}`), 0o600))
	err := find(folder)
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, `output "logits" has the sizes [12 4] for an image, where queries with a class for nothing has `+
		`[queries, classes+1] and the files name 2 labels`)

	err = find(exported(t, "yolov10", func(_ *onnxpb.ModelProto, metadata map[string]string) { metadata["names"] = "{0: 'only'}" }))
	require.ErrorContains(t, err, "returned class")

	infinite := func(m *onnxpb.ModelProto, _ map[string]string) {
		for _, w := range m.Graph.Initializer {
			if strings.HasSuffix(w.Name, "bias") || len(w.Dims) == 1 {
				for i := range w.RawData {
					w.RawData[i] = 0x7f // NaN
				}
			}
		}
	}
	require.ErrorIs(t, find(exported(t, "yolov8", infinite)), ErrNaN)
}

func TestOverlapsOfAClassKeepTheBest(t *testing.T) {
	r := &raw{most: 3}
	a := object{0, 0.9, [4]float64{0, 0, 10, 10}}
	inside := object{0, 0.8, [4]float64{0, 0, 10, 8}} // shares 80 of 100
	beside := object{0, 0.7, [4]float64{0, 5, 10, 15}}
	other := object{1, 0.6, [4]float64{0, 0, 10, 10}}
	empty := object{2, 0.5, [4]float64{3, 3, 3, 3}}
	require.Equal(t, []object{a, beside, other}, r.withoutOverlaps([]object{empty, other, inside, a, beside}, 0.7))
	require.Equal(t, []object{a, inside, beside}, r.withoutOverlaps([]object{other, inside, a, beside}, 0.8))
	r.most = 9
	require.Equal(t, []object{a, other, empty, empty}, r.withoutOverlaps([]object{empty, other, inside, a, beside, empty}, 0.3))
}
