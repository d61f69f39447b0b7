package imaging

import (
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func model(files ...string) func(string) ([]byte, error) {
	out := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		out[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return out.ReadFile
}

// as returns the settings of a class.
func as(class, settings string) string {
	if settings != "" {
		settings = "," + settings
	}
	return `{"image_processor_type":"` + class + `ImageProcessor"` + settings + `}`
}

const preprocessor = "preprocessor_config.json"

func TestFilesOfAllGenerationsAreRead(t *testing.T) {
	for _, x := range []struct {
		name  string
		files []string
		want  Shape // of an image of 400×300 pixels
	}{
		{"defaults", []string{preprocessor, as("CLIP", "")}, Shape{224, 224, 224, 224}},
		{"fast", []string{preprocessor, `{"image_processor_type":"ViTImageProcessorFast","size":{"height":96,"width":64}}`},
			Shape{96, 64, 96, 64}},
		{"feature extractor", []string{preprocessor, `{"feature_extractor_type":"DeiTFeatureExtractor","size":256,"crop_size":[8,9]}`},
			Shape{8, 9, 8, 9}},
		{"null", []string{preprocessor, as("CLIP", `"size":null,"crop_size":null,"image_mean":null`)},
			Shape{224, 224, 224, 224}},
		{"model type", []string{preprocessor, `{"size":32}`, "config.json", `{"model_type":"swinv2"}`}, Shape{32, 32, 32, 32}},
		{"nested", []string{preprocessor, `{"image_processor_type":"Broken"}`,
			"processor_config.json", `{"image_processor":{"image_processor_type":"SiglipImageProcessor","size":{"height":48,"width":48}}}`},
			Shape{48, 48, 48, 48}},
		{"processor without images", []string{preprocessor, as("Blip", ""),
			"processor_config.json", `{"processor_class":"X"}`}, Shape{384, 384, 384, 384}},
		{"one number for the shortest edge", []string{preprocessor, as("CLIP", `"size":60,"do_center_crop":false`)},
			Shape{60, 80, 60, 80}},
		{"one number with a longest edge", []string{preprocessor, as("Detr", `"size":60,"max_size":70`)},
			Shape{52, 70, 52, 70}},
		{"two edges", []string{preprocessor, as("Yolos", "")}, Shape{800, 1056, 800, 1056}},
		{"pad_size", []string{preprocessor, as("Detr", `"pad_size":{"height":1000,"width":1400}`)},
			Shape{1000, 1400, 800, 1066}},
		{"no resize", []string{preprocessor, as("ViT", `"do_resize":false`)}, Shape{300, 400, 300, 400}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, err := Load(model(x.files...))
			require.NoError(t, err)
			s, err := p.Shape(400, 300)
			require.NoError(t, err)
			require.Equal(t, x.want, s)
		})
	}
}

func TestNullLeavesTheDefault(t *testing.T) {
	plain, err := Load(model(preprocessor, as("CLIP", "")))
	require.NoError(t, err)
	null, err := Load(model(preprocessor, as("CLIP", `"image_mean":null,"image_std":null,"size":null,"resample":null,"do_resize":null`)))
	require.NoError(t, err)
	require.Equal(t, plain, null)
}

// TestSizesRoundAsInTransformers has sizes at which another order of operations, or another rounding, gives another size.
func TestSizesRoundAsInTransformers(t *testing.T) {
	for _, x := range []struct {
		name, class, settings string
		width, height         int
		want                  Shape
	}{
		{"half to even", "Detr", `"size":60,"max_size":70`, 400, 300, Shape{52, 70, 52, 70}},
		{"upright that fits", "Detr", `"size":{"shortest_edge":800,"longest_edge":1327}`, 496, 1328, Shape{1328, 496, 1328, 496}},
		{"upright YOLOS", "Yolos", `"size":{"shortest_edge":800,"longest_edge":1327}`, 496, 1328, Shape{1312, 496, 1312, 496}},
		{"up to multiples", "Mask2Former", "", 501, 333, Shape{800, 1216, 800, 1216}},
		{"down", "CLIP", `"do_center_crop":false`, 501, 333, Shape{224, 337, 224, 337}},
		{"within a box", "DINOv3ViT", `"size":{"max_height":100,"max_width":90}`, 77, 99, Shape{100, 77, 100, 77}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, err := Load(model(preprocessor, as(x.class, x.settings)))
			require.NoError(t, err)
			s, err := p.Shape(x.width, x.height)
			require.NoError(t, err)
			require.Equal(t, x.want, s)
		})
	}
}

func TestUnsupportedProcessorsAreNamed(t *testing.T) {
	for _, x := range []struct{ name, file, err string }{
		{"class", as("Sam", ""),
			"preprocessor_config.json: image processor SamImageProcessor is not supported: describe what it does as one of Beit"},
		{"no class", `{}`, `no image_processor_type, and none follows from model type ""`},
		{"form of size", as("ViT", `"size":{"longest_edge":224}`), "ViTImageProcessor: size has an unsupported form"},
		{"key of size", as("ViT", `"size":{"min_pixels":224}`), `size {"min_pixels":224}: want a number`},
		{"huge size", as("ViT", `"size":1000000`), "want 1 to 65535 pixels"},
		{"ConvNeXT's size", as("ConvNext", `"size":{"height":8,"width":8}`),
			"ConvNextImageProcessor has size without shortest_edge"},
		{"crop beside crop_pct", as("ConvNext", `"size":224,"do_center_crop":true`), "do_center_crop beside crop_pct"},
		{"crop without a size", as("ViT", `"do_center_crop":true`), "crop_size has no height and width"},
		{"channels", as("ViT", `"image_mean":[0.5]`), "want 3 numbers, for red, green and blue"},
		{"deviation of 0", as("ViT", `"image_std":0`), "image_std contains 0"},
		{"filter", as("ViT", `"resample":9`), "resample 9 is unknown"},
		{"padding", as("Detr", `"pad_size":{"height":9}`), "pad_size has no height and width"},
		{"no JSON", `{`, "unexpected end of JSON input"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := Load(model(preprocessor, x.file))
			require.ErrorContains(t, err, x.err)
		})
	}
	_, err := Load(model())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNarrowImagesAreRejectedByTheirSize(t *testing.T) {
	for _, x := range []struct {
		name, file    string
		width, height int
		err           string
	}{
		{"empty", as("Detr", ""), 10000, 1, "image of 10000×1 pixels is too narrow: it would be resized to 1333×0"},
		{"huge", as("CLIP", `"do_center_crop":false`), 1, 65535, "and the limit is 89478485 pixels"},
		{"padding", as("Detr", `"pad_size":64`), 30, 30, "which is more than pad_size: 64×64"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, err := Load(model(preprocessor, x.file))
			require.NoError(t, err)
			_, err = p.Shape(x.width, x.height)
			require.ErrorContains(t, err, x.err)
		})
	}
	p, err := Load(model(preprocessor, as("CLIP", "")))
	require.NoError(t, err)
	tensor := make([]float32, 3*224*224)
	before := allocated()
	require.NoError(t, p.Float32(tensor, newRaster(1, 65535)), "the part that a crop leaves is small")
	require.Less(t, allocated()-before, int64(16<<20))
	require.ErrorContains(t, p.Float32(tensor[1:], newRaster(1, 1)), "tensor of 150527 values for an image that has 150528")
}

func TestEveryClassHasDefaultsThatWork(t *testing.T) {
	for name := range classes {
		p, err := parse([]byte(`{"image_processor_type":"`+name+`"}`), "")
		require.NoError(t, err, name)
		_, err = p.Shape(400, 300)
		require.NoError(t, err, name)
	}
}

func TestProcessorIsSharedByGoroutines(t *testing.T) {
	r := decode(t, recorded(t), "png-rgb.png")
	p, err := parse([]byte(as("CLIP", "")), "")
	require.NoError(t, err)
	var results [2][]float32
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() {
			results[i] = make([]float32, 3*224*224)
			if err := p.Float32(results[i], r); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, results[0], results[1])
}
