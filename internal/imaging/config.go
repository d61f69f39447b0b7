package imaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// A config is the settings of an image processor. Its fields begin as those of the class, and a model's file replaces the ones that it
// has. As in transformers, null leaves the default of the class.
type config struct {
	DoResize        bool     `json:"do_resize"`
	Size            size     `json:"size"`
	DefaultToSquare bool     `json:"default_to_square"` // whether a size of one number is height and width, or else the shortest edge
	MaxSize         int      `json:"max_size"`          // longest edge beside a size of one number; 0 for none
	Resample        Filter   `json:"resample"`
	DoCenterCrop    bool     `json:"do_center_crop"`
	CropSize        size     `json:"crop_size"`
	DoPad           bool     `json:"do_pad"`
	PadSize         size     `json:"pad_size"`
	DoRescale       bool     `json:"do_rescale"`
	RescaleFactor   float64  `json:"rescale_factor"`
	DoNormalize     bool     `json:"do_normalize"`
	Mean            channels `json:"image_mean"`
	Std             channels `json:"image_std"`

	CropPct       float64 `json:"crop_pct"`              // part of the resized image that a crop keeps; 0 for none
	SizeDivisor   int     `json:"size_divisor"`          // resized sides are rounded up to multiples; 0 for none
	RescaleOffset bool    `json:"rescale_offset"`        // subtract 1 after rescaling
	IncludeTop    bool    `json:"include_top"`           // divide by the standard deviation once more
	FlipChannels  bool    `json:"do_flip_channel_order"` // blue first
	floorMultiple int     // resized sides are rounded down to multiples; 0 for none
	letterbox     bool    // resized sides are rounded to the nearest number, and at least 1
	stride        int     // a crop that reaches beyond the image does so by less than this many pixels; 0 for no limit
	fill          byte    // the pixels of a crop beyond the image
}

// channels is a number for each of red, green and blue. In a file it may be one number for all.
type channels [3]float64

// UnmarshalJSON reads one number or three.
func (c *channels) UnmarshalJSON(data []byte) error {
	var one float64
	if json.Unmarshal(data, &one) == nil {
		if string(data) != "null" {
			*c = channels{one, one, one}
		}
		return nil
	}
	var list []float64
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 3 {
		return fmt.Errorf("mean or standard deviation %s: want 3 numbers, for red, green and blue", data)
	}
	copy(c[:], list)
	return nil
}

// size is a size in one of the forms that files have. Fields are 0 where the form lacks them.
type size struct {
	Height   int `json:"height"`
	Width    int `json:"width"`
	Shortest int `json:"shortest_edge"`
	Longest  int `json:"longest_edge"`
	MaxH     int `json:"max_height"`
	MaxW     int `json:"max_width"`
	one      int // the form of one number, until resolve gives it a meaning
}

func square(side int) size { return size{Height: side, Width: side} }

// UnmarshalJSON reads a number, [height, width], or an object.
func (s *size) UnmarshalJSON(data []byte) error {
	type plain size // without this method
	var read plain
	var list []int
	switch {
	case string(data) == "null":
		return nil
	case json.Unmarshal(data, &read.one) == nil:
	case json.Unmarshal(data, &list) == nil && len(list) == 2:
		read.Height, read.Width = list[0], list[1]
	default:
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields()
		if err := d.Decode(&read); err != nil {
			return fmt.Errorf("size %s: want a number, [height, width], or an object with height and width, shortest_edge, longest_edge, "+
				"or max_height and max_width", data)
		}
	}
	for _, n := range []int{read.one, read.Height, read.Width, read.Shortest, read.Longest, read.MaxH, read.MaxW} {
		if n < 0 || n > maxSide {
			return fmt.Errorf("size %s: want 1 to %d pixels", data, maxSide)
		}
	}
	*s = size(read)
	return nil
}

// resolve gives a size of one number its meaning.
func (s size) resolve(toSquare bool, longest int) size {
	switch {
	case s.one == 0:
		return s
	case toSquare:
		return square(s.one)
	}
	return size{Shortest: s.one, Longest: longest}
}

// A class is an image processor class of transformers.
type class struct {
	models   string // model types whose class this is if their files name none, separated by spaces
	defaults config
	adjust   func(*config) error // rewrites what only this class does in terms of the other settings; nil for nothing
}

var (
	half         = channels{0.5, 0.5, 0.5}
	imageNetMean = channels{0.485, 0.456, 0.406}
	imageNetStd  = channels{0.229, 0.224, 0.225}
	openAIMean   = channels{0.48145466, 0.4578275, 0.40821073}
	openAIStd    = channels{0.26862954, 0.26130258, 0.27577711}
)

// standard are the defaults that most classes share, and with changes are those of one class.
func standard(s size, resample Filter, mean, std channels, with ...func(*config)) config {
	c := config{DoResize: true, Size: s, DefaultToSquare: true, Resample: resample, DoRescale: true, RescaleFactor: 1.0 / 255,
		DoNormalize: true, Mean: mean, Std: std}
	for _, f := range with {
		f(&c)
	}
	return c
}

func shortest(c *config) { c.DefaultToSquare = false }

// crop makes a centre crop of side × side pixels the default.
func crop(side int) func(*config) {
	return func(c *config) { c.DoCenterCrop, c.CropSize = true, square(side) }
}

// cropSize sets the default size of a crop, which happens only if a file has do_center_crop.
func cropSize(side int) func(*config) { return func(c *config) { c.CropSize = square(side) } }

func edge(side int) size { return size{Shortest: side} }

var clipDefaults = standard(edge(224), Bicubic, openAIMean, openAIStd, shortest, crop(224))

// detection are the defaults of classes that find objects. A size of one number has a limit of 1,333 for the longest edge.
func detection(with ...func(*config)) config {
	return standard(size{Shortest: 800, Longest: 1333}, Bilinear, imageNetMean, imageNetStd,
		append([]func(*config){shortest, func(c *config) { c.MaxSize, c.DoPad = 1333, true }}, with...)...)
}

func divisor(c *config) { c.SizeDivisor, c.MaxSize = 32, 0 }

// classes has the classes by name, with their defaults in transformers 5. Variants for one library, such as CLIPImageProcessorFast, and
// older names, such as CLIPFeatureExtractor, are the same classes.
var classes = map[string]class{
	"BeitImageProcessor":            {models: "beit data2vec-vision", defaults: standard(square(224), Bicubic, half, half, cropSize(224))},
	"BitImageProcessor":             {models: "bit dinov2 focalnet hiera", defaults: clipDefaults},
	"BlipImageProcessor":            {models: "blip blip-2", defaults: standard(square(384), Bicubic, openAIMean, openAIStd)},
	"ChineseCLIPImageProcessor":     {models: "chinese_clip", defaults: clipDefaults},
	"CLIPImageProcessor":            {models: "clip aimv2 aimv2_vision_model altclip groupvit metaclip_2 mlcd", defaults: clipDefaults},
	"ConditionalDetrImageProcessor": {models: "conditional_detr", defaults: detection()},
	"ConvNextImageProcessor": {models: "convnext convnextv2 cvt regnet resnet", adjust: convNext,
		defaults: standard(edge(384), Bicubic, half, half, shortest, func(c *config) { c.CropPct = 224.0 / 256 })},
	"DeformableDetrImageProcessor": {models: "deformable_detr lw_detr", defaults: detection()},
	"DeiTImageProcessor":           {models: "deit", defaults: standard(square(256), Bicubic, half, half, crop(224))},
	"DetrImageProcessor":           {models: "detr table-transformer", defaults: detection()},
	"DINOv3ViTImageProcessor":      {models: "dinov3_vit", defaults: standard(square(224), Bilinear, imageNetMean, imageNetStd)},
	"EfficientNetImageProcessor": {models: "efficientnet align",
		defaults: standard(square(346), Bicubic, half, half, cropSize(289), func(c *config) { c.IncludeTop = true })},
	"LevitImageProcessor": {models: "levit", adjust: levit,
		defaults: standard(edge(224), Bicubic, imageNetMean, imageNetStd, shortest, crop(224))},
	"Mask2FormerImageProcessor": {models: "mask2former", defaults: detection(divisor)},
	"MaskFormerImageProcessor":  {models: "maskformer", defaults: detection(divisor)},
	"MobileNetV1ImageProcessor": {models: "mobilenet_v1", defaults: standard(edge(256), Bilinear, half, half, shortest, crop(224))},
	"MobileNetV2ImageProcessor": {models: "mobilenet_v2", defaults: standard(edge(256), Bilinear, half, half, shortest, crop(224))},
	"MobileViTImageProcessor": {models: "mobilevit mobilevitv2", adjust: unnormalized,
		defaults: standard(edge(224), Bicubic, half, half, shortest, crop(256), func(c *config) { c.FlipChannels = true })},
	"OwlViTImageProcessor": {models: "owlvit", defaults: standard(square(768), Bicubic, openAIMean, openAIStd, cropSize(768))},
	"PoolFormerImageProcessor": {models: "poolformer", adjust: poolFormer,
		defaults: standard(edge(224), Bicubic, imageNetMean, imageNetStd, shortest, crop(224), func(c *config) { c.CropPct = 0.9 })},
	"PvtImageProcessor": {models: "pvt pvt_v2", defaults: standard(square(224), Bicubic, imageNetMean, imageNetStd)},
	"RTDetrImageProcessor": {models: "rt_detr rt_detr_v2 d_fine deimv2", defaults: detection(func(c *config) {
		c.Size, c.MaxSize, c.DoPad, c.DoNormalize = square(640), 0, false, false
	})},
	"SegformerImageProcessor": {models: "segformer upernet", defaults: standard(square(512), Bilinear, imageNetMean, imageNetStd)},
	"SiglipImageProcessor":    {models: "siglip", defaults: standard(square(224), Bicubic, half, half, shortest)},
	"ViTImageProcessor": {models: "vit clipseg ijepa swiftformer swin swinv2 vit_mae vit_msn",
		defaults: standard(square(224), Bilinear, half, half)},
	"YolosImageProcessor": {models: "yolos", defaults: detection(func(c *config) { c.floorMultiple = 16 })},
}

// convNext scales the shortest edge to more than the size and crops, or at 384 and more ignores the proportions.
func convNext(c *config) error {
	side := c.Size.Shortest
	switch {
	case side == 0:
		return errors.New("size without shortest_edge")
	case side >= 384:
		c.Size = square(side)
	case c.DoCenterCrop:
		return errors.New("do_center_crop beside crop_pct, which crops as well")
	default:
		c.Size, c.DoCenterCrop, c.CropSize = edge(int(float64(side)/c.CropPct)), true, square(side)
	}
	return nil
}

// levit scales the shortest edge to 256/224 of the size.
func levit(c *config) error {
	if c.Size.Shortest > 0 {
		c.Size = edge(int(256.0 / 224 * float64(c.Size.Shortest)))
	}
	return nil
}

// poolFormer scales to more than the size, of which a crop keeps crop_pct.
func poolFormer(c *config) error {
	scaled := func(side int) int { return int(float64(side) / c.CropPct) }
	switch s := c.Size; {
	case s.Shortest > 0:
		c.Size = edge(scaled(s.Shortest))
	case s.Height == s.Width:
		c.Size = edge(scaled(s.Height))
	default:
		c.Size = size{Height: scaled(s.Height), Width: scaled(s.Width)}
	}
	return nil
}

func unnormalized(c *config) error {
	c.DoNormalize = false
	return nil
}

// Letterbox returns the processor of YOLO models, whose files do not describe it. An image is scaled, without antialiasing, to the largest
// size that fits height × width pixels. It is centred on grey, and its bytes are divided by 255. If stride is not 0, the grey stripes
// only make both sides multiples of stride, as height and width are. Letterbox fails if a side is 0 or the tensor has more than MaxPixels.
func Letterbox(height, width, stride int) (*Processor, error) {
	if min(height, width) < 1 || max(height, width) > maxSide || height*width > MaxPixels {
		return nil, fmt.Errorf("size of %d×%d pixels: want 1 to %d on a side, and at most %d", width, height, maxSide, MaxPixels)
	}
	p, err := newProcessor(config{DoResize: true, Size: size{MaxH: height, MaxW: width}, letterbox: true, DoCenterCrop: true,
		CropSize: size{Height: height, Width: width}, stride: stride, fill: 114, DoRescale: true, RescaleFactor: 1.0 / 255})
	if err == nil {
		p.config.Resample = linear
	}
	return p, err
}

// Load reads the image processor in a model's folder: the part image_processor of processor_config.json, or else
// preprocessor_config.json. If neither names a class, model_type in config.json does. read reads a file of the folder, and fails with
// fs.ErrNotExist if it is missing. Load fails with that error if both files are missing, and with the name of the class if it is not
// supported.
func Load(read func(name string) ([]byte, error)) (*Processor, error) {
	var combined struct {
		Image json.RawMessage `json:"image_processor"`
	}
	if _, err := readJSON(read, "processor_config.json", &combined); err != nil {
		return nil, err
	}
	file, data := "processor_config.json", []byte(combined.Image)
	if data == nil {
		file = "preprocessor_config.json"
		var whole json.RawMessage
		if found, err := readJSON(read, file, &whole); err != nil {
			return nil, err
		} else if !found {
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
		data = whole
	}
	var model struct {
		Type string `json:"model_type"`
	}
	if _, err := readJSON(read, "config.json", &model); err != nil {
		return nil, err
	}
	p, err := parse(data, model.Type)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// readJSON reads a file into to. It returns false if the file is missing.
func readJSON(read func(string) ([]byte, error), name string, to any) (bool, error) {
	data, err := read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// parse reads an image processor. modelType is for data that names no class.
func parse(data []byte, modelType string) (*Processor, error) {
	var named struct {
		Type    string `json:"image_processor_type"`
		OldType string `json:"feature_extractor_type"`
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return nil, err
	}
	name := named.Type
	if name == "" {
		name = named.OldType
	}
	name = strings.Replace(strings.TrimSuffix(strings.TrimSuffix(name, "Fast"), "Pil"), "FeatureExtractor", "ImageProcessor", 1)
	if name == "" {
		for class, row := range classes {
			if slices.Contains(strings.Fields(row.models), modelType) {
				name = class
			}
		}
	}
	if name == "" {
		return nil, fmt.Errorf("no image_processor_type, and none follows from model type %q: add it, such as \"ViTImageProcessor\"",
			modelType)
	}
	row, ok := classes[name]
	if !ok {
		return nil, fmt.Errorf("image processor %s is not supported: describe what it does as one of %s, if one can",
			name, strings.Join(sortedNames(), ", "))
	}
	c := row.defaults
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.Size = c.Size.resolve(c.DefaultToSquare, c.MaxSize)
	c.CropSize, c.PadSize = c.CropSize.resolve(true, 0), c.PadSize.resolve(true, 0)
	if row.adjust != nil {
		if err := row.adjust(&c); err != nil {
			return nil, fmt.Errorf("%s has %w: set size to {\"shortest_edge\": N} and nothing else", name, err)
		}
	}
	p, err := newProcessor(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.class = name
	return p, nil
}
