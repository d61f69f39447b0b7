package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
)

const imageFolder = "testdata/images"

func photos(t *testing.T) []Image {
	t.Helper()
	files, err := filepath.Glob(imageFolder + "/*.png")
	require.NoError(t, err)
	images := make([]Image, len(files))
	for i, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		images[i] = Image{filepath.Base(f), data}
	}
	return images
}

func openImages(t *testing.T, name string, o Options) *ImageModel {
	t.Helper()
	m, err := OpenImages(t.Context(), filepath.Join(imageFolder, name), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func TestImageVectorsAreThoseOfTransformers(t *testing.T) {
	images := photos(t)
	for _, name := range []string{"vit", "dinov2", "clip", "resnet"} {
		t.Run(name, func(t *testing.T) {
			var want map[string][]float32
			data, err := os.ReadFile(filepath.Join(imageFolder, name, "vectors.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &want))
			vectors, err := openImages(t, name, Options{}).Embed(t.Context(), images, ImageOptions{})
			require.NoError(t, err)
			for i, v := range vectors {
				require.Len(t, v, len(want[images[i].Name]))
				require.Greater(t, Cosine.Of(v, want[images[i].Name]), 0.9999, images[i].Name)
			}
			require.Less(t, Cosine.Of(vectors[0], vectors[1]), 0.995, "other images have other vectors")
		})
	}
}

func TestImageOptions(t *testing.T) {
	images := photos(t)
	yes := true
	m := openImages(t, "dinov2", Options{})
	whole, err := m.Embed(t.Context(), images, ImageOptions{})
	require.NoError(t, err)
	unit, err := m.Embed(t.Context(), images, ImageOptions{Normalize: &yes})
	require.NoError(t, err)
	short, err := m.Embed(t.Context(), images, ImageOptions{Dimensions: 5})
	require.NoError(t, err)
	for i := range images {
		Normalize(whole[i])
		require.InDeltaSlice(t, whole[i], unit[i], 1e-6)
		want := whole[i][:5]
		Normalize(want)
		require.InDeltaSlice(t, want, short[i], 1e-6)
	}
	_, err = m.Embed(t.Context(), images, ImageOptions{Dimensions: 17})
	require.ErrorIs(t, err, ErrInvalid)

	// A variant that is named takes precedence over the vision tower.
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(imageFolder+"/clip")))
	other, err := os.ReadFile(imageFolder + "/dinov2/onnx/model.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(folder+"/onnx/model.onnx", other, 0o600))
	for variant, size := range map[string]int{"": 12, "vision_model": 12, "model": 16} {
		m, err := OpenImages(t.Context(), folder, Options{Variant: variant})
		require.NoError(t, err)
		v, err := m.Embed(t.Context(), images[:1], ImageOptions{})
		require.NoError(t, err)
		require.Len(t, v[0], size, variant)
		require.NoError(t, m.Close())
	}

	// DINOv2's pooler_output is the first vector of last_hidden_state.
	first, err := openImages(t, "dinov2", Options{Pooling: PoolCLS, Normalize: &yes}).Embed(t.Context(), images, ImageOptions{})
	require.NoError(t, err)
	require.InDeltaSlice(t, unit[0], first[0], 1e-5)
	mean, err := openImages(t, "dinov2", Options{Pooling: PoolMean, Normalize: &yes}).Embed(t.Context(), images, ImageOptions{})
	require.NoError(t, err)
	require.Less(t, Cosine.Of(mean[0], unit[0]), 0.99)
}

// TestImagesShareBatchesBySize: calls run at once, with images of sizes that the processor does not change.
func TestImagesShareBatchesBySize(t *testing.T) {
	folder := t.TempDir()
	model, err := os.ReadFile(imageFolder + "/resnet/model.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(folder+"/model.onnx", model, 0o600))
	require.NoError(t, os.WriteFile(folder+"/preprocessor_config.json",
		[]byte(`{"image_processor_type":"ViTImageProcessor","do_resize":false}`), 0o600))
	m, err := OpenImages(t.Context(), folder, Options{Sessions: 1})
	require.NoError(t, err)
	images := photos(t)
	alone := make([][]float32, len(images))
	for i := range images {
		v, err := m.Embed(t.Context(), images[i:i+1], ImageOptions{})
		require.NoError(t, err)
		alone[i] = v[0]
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			many := slices.Repeat(images, 12) // more than imagesAtOnce
			vectors, err := m.Embed(t.Context(), many, ImageOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range vectors {
				if Cosine.Of(v, alone[i%len(images)]) < 0.99999 {
					t.Errorf("image %d has another vector in a batch", i)
				}
			}
		})
	}
	wait.Wait()
	require.NoError(t, m.Close())
	_, err = m.Embed(t.Context(), images, ImageOptions{})
	require.ErrorIs(t, err, rlxc.ErrClosed)
}

func TestImageErrorsNameTheirCause(t *testing.T) {
	m := openImages(t, "clip", Options{})
	_, err := m.Embed(t.Context(), append(photos(t), Image{"broken.jpg", []byte("\xff\xd8\xff\xe0 no JPEG")}), ImageOptions{})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "pipeline: broken.jpg: damaged or unsupported JPEG image")

	_, err = OpenImages(t.Context(), "testdata/minilm", Options{})
	require.ErrorIs(t, err, ErrNotImage)
	require.ErrorContains(t, err, "no preprocessor_config.json")
	_, err = OpenImages(t.Context(), imageFolder+"/vit", Options{Pooling: "middle"})
	require.ErrorContains(t, err, `invalid pooling "middle"`)
	_, err = OpenImages(t.Context(), imageFolder+"/none", Options{})
	require.Error(t, err)

	write := func(model, processor string) string {
		folder := t.TempDir()
		data, err := os.ReadFile(model)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(folder+"/model.onnx", data, 0o600))
		require.NoError(t, os.WriteFile(folder+"/preprocessor_config.json", []byte(processor), 0o600))
		return folder
	}
	_, err = OpenImages(t.Context(), write("testdata/minilm/onnx/model.onnx", `{"image_processor_type":"ViTImageProcessor"}`), Options{})
	require.ErrorIs(t, err, ErrNotImage)
	require.ErrorContains(t, err, `takes an input "input_ids"`)
	_, err = OpenImages(t.Context(), write(imageFolder+"/vit/model.onnx", `{"image_processor_type":"SamImageProcessor"}`), Options{})
	require.ErrorContains(t, err, "SamImageProcessor is not supported")

	infinite := `{"image_processor_type":"ViTImageProcessor","size":24,"image_std":1e-45}`
	m, err = OpenImages(t.Context(), write(imageFolder+"/vit/model.onnx", infinite), Options{})
	require.NoError(t, err)
	_, err = m.Embed(t.Context(), photos(t), ImageOptions{})
	require.ErrorIs(t, err, ErrNaN)
	require.NoError(t, m.Close())

	fixed := rlxc.CompileOptions{Dims: map[string]int{"height": 24, "width": 24}}
	m, err = OpenImages(t.Context(), write(imageFolder+"/vit/model.onnx", `{"image_processor_type":"ViTImageProcessor","size":32}`),
		Options{Compile: fixed})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Embed(t.Context(), photos(t), ImageOptions{})
	require.ErrorIs(t, err, ErrNotImage)
	require.ErrorContains(t, err, "takes images of 24×24 pixels, but preprocessor_config.json makes them 32×32")
}

// TestDecodingIsAccounted: a request asks for the memory of decoding before it decodes, and for that of tensors. Vectors are what it holds
// at the end.
func TestDecodingIsAccounted(t *testing.T) {
	m, images := openImages(t, "clip", Options{}), photos(t)
	ask := func(bytes int64) (held int64, err error) {
		p := memory.NewPool(bytes, 2)
		ctx, share, err := p.Enter(t.Context(), "peer")
		require.NoError(t, err)
		defer share.Leave()
		before := share.Bytes()
		_, err = m.Embed(ctx, images[:1], ImageOptions{})
		return share.Bytes() - before, err
	}
	held, err := ask(1 << 30)
	require.NoError(t, err)
	require.Equal(t, int64(4*12), held)
	_, err = ask(2 << 20) // a share has half, and decoding takes a mebibyte and some bytes per pixel
	require.ErrorIs(t, err, memory.ErrOver)
}
