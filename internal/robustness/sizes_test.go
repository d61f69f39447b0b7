package robustness

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// reals are the floats at which conversions to sizes go wrong.
var reals = map[string]float32{"0": 0, "−1": -1, "NaN": float32(math.NaN()), "∞": float32(math.Inf(1)), "−∞": float32(math.Inf(-1)),
	"1e30": 1e30, "1e10": 1e10, "least": math.SmallestNonzeroFloat32}

// floats puts them where an operator computes a size or a position from a float.
func floats() (out []hostile) {
	one4 := []any{1, 1, 4, 4}
	f := func(v ...float32) *tensor.Tensor { return tensor.FromSlice(v) }
	s := func(v float32) *tensor.Tensor { return tensor.Scalar(v) }
	y := names("y")
	for what, m := range map[string]func(v float32) *onnxpb.ModelProto{
		"Resize scale": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("s", f(1, 1, v, 1)), node("Resize", names("x", "", "s"), y))
		},
		"Resize roi": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", f(0, 0, 0, v, 1, 1, v, 1)), constant("s", ints(1, 1, 3, 3)),
				node("Resize", names("x", "r", "", "s"), y, attribute("coordinate_transformation_mode", "tf_crop_and_resize")))
		},
		"Range step": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("a", s(0)), constant("b", s(10)), constant("c", s(v)),
				node("Range", names("a", "b", "c"), y))
		},
		"Range end": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("a", s(0)), constant("b", s(v)), constant("c", s(1)),
				node("Range", names("a", "b", "c"), y))
		},
		"Range at run time": func(v float32) *onnxpb.ModelProto {
			return model(graph(infos{value("x", f32)}, infos{unranked("y", f32)}, constant("b", s(v)), constant("c", s(1)),
				node("Range", names("x", "b", "c"), y)))
		},
		"Pad value": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("p", ints(0, 0, 1, 1, 0, 0, 1, 1)), constant("v", s(v)),
				node("Pad", names("x", "p", "v"), y))
		},
		"Clip": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), node("Clip", names("x", "v", "v"), y))
		},
		"Cast to int8": func(v float32) *onnxpb.ModelProto {
			return one(f32, tensor.I8, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("Cast", names("a"), y, attribute("to", 3)))
		},
		"Cast to int64": func(v float32) *onnxpb.ModelProto {
			return one(f32, i64, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("Cast", names("a"), y, attribute("to", 7)))
		},
		"Cast to uint64": func(v float32) *onnxpb.ModelProto {
			return one(f32, tensor.U64, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("Cast", names("a"), y, attribute("to", 13)))
		},
		"Cast to a size": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", f(v)), node("Cast", names("v"), names("n"), attribute("to", 7)),
				node("ConstantOfShape", names("n"), y))
		},
		"GridSample": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", tensor.FromSlice([]float32{v, v, 0, v}, 1, 1, 2, 2)),
				node("GridSample", names("x", "v"), y))
		},
		"GridSample, reflected": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", tensor.FromSlice([]float32{v, v, 0, v}, 1, 1, 2, 2)),
				node("GridSample", names("x", "v"), y, attribute("padding_mode", "reflection")))
		},
		"GridSample, cubic": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", tensor.FromSlice([]float32{v, v, 0, v}, 1, 1, 2, 2)),
				node("GridSample", names("x", "v"), y, attribute("mode", "cubic")))
		},
		"RoiAlign": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", tensor.FromSlice([]float32{0, 0, v, v}, 1, 4)), constant("b", ints(0)),
				node("RoiAlign", names("x", "r", "b"), y, attribute("output_height", 2), attribute("output_width", 2)))
		},
		"RoiAlign scale": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", tensor.FromSlice([]float32{0, 0, 3, 3}, 1, 4)), constant("b", ints(0)),
				node("RoiAlign", names("x", "r", "b"), y, attribute("output_height", 2), attribute("output_width", 2),
					attribute("spatial_scale", float64(v))))
		},
		"MaxRoiPool": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", tensor.FromSlice([]float32{0, 0, 0, v, v}, 1, 5)),
				node("MaxRoiPool", names("x", "r"), y, attribute("pooled_shape", []int64{2, 2})))
		},
		"MaxRoiPool image": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", tensor.FromSlice([]float32{v, 0, 0, 1, 1}, 1, 5)),
				node("MaxRoiPool", names("x", "r"), y, attribute("pooled_shape", []int64{2, 2})))
		},
		"DeformConv": func(v float32) *onnxpb.ModelProto {
			o := tensor.New(f32, 1, 8, 3, 3)
			for i := range o.Len() {
				o.SetFloat64(i, float64(v))
			}
			return one(f32, f32, one4, constant("w", tensor.New(f32, 1, 1, 2, 2)), constant("o", o),
				node("DeformConv", names("x", "w", "o"), y))
		},
		"AffineGrid": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("t", tensor.FromSlice([]float32{v, 0, 0, 0, v, 0}, 1, 2, 3)),
				constant("s", ints(1, 1, 2, 2)), node("AffineGrid", names("t", "s"), y))
		},
		"NonMaxSuppression": func(v float32) *onnxpb.ModelProto {
			return one(f32, i64, []any{1, 1, 2}, constant("b", tensor.FromSlice([]float32{0, 0, v, v, v, 0, 1, 1}, 1, 2, 4)),
				constant("n", ints(9)), constant("t", f(v)), node("NonMaxSuppression", names("b", "x", "n", "t", "t"), y))
		},
		"QuantizeLinear scale": func(v float32) *onnxpb.ModelProto {
			return one(f32, tensor.I8, one4, constant("s", s(v)), constant("z", tensor.Scalar(int8(1))),
				node("QuantizeLinear", names("x", "s", "z"), y))
		},
		"QLinearMatMul scales": func(v float32) *onnxpb.ModelProto {
			return one(tensor.U8, tensor.U8, []any{2, 2}, constant("s", s(v)), constant("z", tensor.Scalar(uint8(1))),
				node("QLinearMatMul", names("x", "s", "z", "x", "s", "z", "s", "z"), y))
		},
		"Bernoulli": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("Bernoulli", names("a"), names("r")), node("Shape", names("r"), names("n")),
				node("Cast", names("n"), y, attribute("to", 1)))
		},
		"Multinomial": func(v float32) *onnxpb.ModelProto {
			return one(f32, i64, []any{1, 3}, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("Multinomial", names("a"), names("r"), attribute("sample_size", 4)), node("Shape", names("r"), y))
		},
		"Dropout ratio": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("r", s(v)), node("Dropout", names("x", "r"), y))
		},
		"Upsample": func(v float32) *onnxpb.ModelProto {
			m := one(f32, f32, one4, constant("s", f(1, 1, v, 1)), node("Upsample", names("x", "s"), y))
			m.OpsetImport[0].Version = 9
			return m
		},
		"MelWeightMatrix": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("n", tensor.Scalar(int64(4))), constant("v", s(v)),
				node("MelWeightMatrix", names("n", "n", "n", "v", "v"), y))
		},
		"Softmax": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")), node("Softmax", names("a"), y))
		},
		"TopK": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), constant("k", ints(2)), node("Mul", names("x", "v"), names("a")),
				node("TopK", names("a", "k"), names("y", "i")))
		},
		"Unique": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), node("Mul", names("x", "v"), names("a")), node("Unique", names("a"), y))
		},
		"LpNormal": func(v float32) *onnxpb.ModelProto {
			return one(f32, f32, one4, constant("v", s(v)), node("Add", names("x", "v"), names("a")),
				node("LpNormalization", names("a"), y))
		},
	} {
		for name, v := range reals {
			out = append(out, of(what+" "+name, "either", m(v)))
		}
	}
	return out
}

// lists puts whole numbers where operators of signals, images and windows read them.
func lists() (out []hostile) {
	image, plane, y := []any{1, 4, 4, 4}, []any{2, 3}, names("y")
	// What a message repeats of a model has a bound.
	out = append(out, of("a permutation of 200,000 axes", "refused",
		one(f32, f32, plane, node("Transpose", names("x"), y, attribute("perm", make([]int64, 200_000))))),
		of("an equation of 100,000 letters", "refused",
			one(f32, f32, plane, node("Einsum", names("x"), y, attribute("equation", string(make([]byte, 100_000)))))))
	scalar := func(v int64) *tensor.Tensor { return tensor.Scalar(v) }
	for what, m := range map[string]func(v int64) *onnxpb.ModelProto{
		"DFT length": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 4, 1}, constant("n", scalar(v)), node("DFT", names("x", "n"), y))
		},
		"DFT axis": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 4, 1}, constant("n", scalar(v)), node("DFT", names("x", "", "n"), y))
		},
		"STFT step": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 16, 1}, constant("n", scalar(v)), constant("l", scalar(4)),
				node("STFT", names("x", "n", "", "l"), y))
		},
		"STFT length": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 16, 1}, constant("n", scalar(2)), constant("l", scalar(v)),
				node("STFT", names("x", "n", "", "l"), y))
		},
		"BlackmanWindow": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", scalar(v)), node("BlackmanWindow", names("n"), y))
		},
		"Mel bins": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", scalar(v)), constant("k", scalar(4)), constant("f", tensor.Scalar(float32(1))),
				node("MelWeightMatrix", names("n", "k", "k", "f", "f"), y))
		},
		"Mel length": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", scalar(v)), constant("k", scalar(4)), constant("f", tensor.Scalar(float32(1))),
				node("MelWeightMatrix", names("k", "n", "k", "f", "f"), y))
		},
		"Mel rate": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", scalar(v)), constant("k", scalar(4)), constant("f", tensor.Scalar(float32(1))),
				node("MelWeightMatrix", names("k", "k", "n", "f", "f"), y))
		},
		"CenterCropPad": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", ints(v, 2)), node("CenterCropPad", names("x", "n"), y))
		},
		"Col2Im image": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 4, 9}, constant("n", ints(v, 4)), constant("b", ints(2, 2)),
				node("Col2Im", names("x", "n", "b"), y))
		},
		"Col2Im block": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 4, 9}, constant("n", ints(4, 4)), constant("b", ints(v, 2)),
				node("Col2Im", names("x", "n", "b"), y))
		},
		"Col2Im strides": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 4, 9}, constant("n", ints(4, 4)), constant("b", ints(2, 2)),
				node("Col2Im", names("x", "n", "b"), y, attribute("strides", []int64{v, 1})))
		},
		"MaxUnpool": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 1, 1, 1}, constant("n", tensor.FromSlice([]int64{v}, 1, 1, 1, 1)),
				node("MaxUnpool", names("x", "n"), y, attribute("kernel_shape", []int64{2, 2}), attribute("strides", []int64{2, 2})))
		},
		"MaxUnpool shape": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 1, 1, 1}, constant("n", tensor.FromSlice([]int64{0}, 1, 1, 1, 1)),
				constant("s", ints(1, 1, v, 2)), node("MaxUnpool", names("x", "n", "s"), y, attribute("kernel_shape", []int64{2, 2})))
		},
		"ConvTranspose out": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 4, 1, 2, 2)),
				node("ConvTranspose", names("x", "w"), y, attribute("output_shape", []int64{v, 4})))
		},
		"ConvTranspose padding": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 4, 1, 2, 2)),
				node("ConvTranspose", names("x", "w"), y, attribute("output_padding", []int64{v, 0})))
		},
		"ConvTranspose strides": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 4, 1, 2, 2)),
				node("ConvTranspose", names("x", "w"), y, attribute("strides", []int64{v, 1})))
		},
		"DeformConv group": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 1, 4, 2, 2)), constant("o", tensor.New(f32, 1, 8, 3, 3)),
				node("DeformConv", names("x", "w", "o"), y, attribute("offset_group", int(v))))
		},
		"LpPool p": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("LpPool", names("x"), y, attribute("kernel_shape", []int64{2, 2}), attribute("p", int(v))))
		},
		"LpNormalization": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("LpNormalization", names("x"), y, attribute("p", int(v))))
		},
		"RoiAlign samples": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("r", tensor.FromSlice([]float32{0, 0, 3, 3}, 1, 4)), constant("b", ints(0)),
				node("RoiAlign", names("x", "r", "b"), y, attribute("sampling_ratio", int(v))))
		},
		"RoiAlign height": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("r", tensor.FromSlice([]float32{0, 0, 3, 3}, 1, 4)), constant("b", ints(0)),
				node("RoiAlign", names("x", "r", "b"), y, attribute("output_height", int(v))))
		},
		"RoiAlign image": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("r", tensor.FromSlice([]float32{0, 0, 3, 3}, 1, 4)), constant("b", ints(v)),
				node("RoiAlign", names("x", "r", "b"), y))
		},
		"MaxRoiPool shape": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("r", tensor.FromSlice([]float32{0, 0, 0, 3, 3}, 1, 5)),
				node("MaxRoiPool", names("x", "r"), y, attribute("pooled_shape", []int64{v, 2})))
		},
		"NMS boxes": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, []any{1, 1, 2}, constant("b", tensor.New(f32, 1, 2, 4)), constant("n", ints(v)),
				node("NonMaxSuppression", names("b", "x", "n"), y))
		},
		"NMS format": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, []any{1, 1, 2}, constant("b", tensor.New(f32, 1, 2, 4)), constant("n", ints(2)),
				node("NonMaxSuppression", names("b", "x", "n"), y, attribute("center_point_box", int(v))))
		},
		"RandomUniform": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("RandomUniform", nil, names("r"), attribute("shape", []int64{v, 2})),
				node("Shape", names("r"), y))
		},
		"Multinomial": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("Multinomial", names("x"), names("r"), attribute("sample_size", int(v))),
				node("Shape", names("r"), y))
		},
		"ReverseSequence": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", ints(v, 1, 1)), node("ReverseSequence", names("x", "n"), y))
		},
		"GatherElements": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", tensor.FromSlice([]int64{v}, 1, 1)), node("GatherElements", names("x", "n"), y))
		},
		"GatherND batch": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", tensor.FromSlice([]int64{0, 0}, 2, 1)),
				node("GatherND", names("x", "n"), y, attribute("batch_dims", int(v))))
		},
		"ScatterElements": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("n", tensor.FromSlice([]int64{v}, 1, 1)), constant("u", tensor.New(f32, 1, 1)),
				node("ScatterElements", names("x", "n", "u"), y))
		},
		"OneHot index": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("d", scalar(3)), constant("v", tensor.FromSlice([]float32{0, 1})),
				constant("i", ints(v)), node("OneHot", names("i", "d", "v"), y))
		},
		"Compress axis": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("c", tensor.FromSlice([]bool{true, false})),
				node("Compress", names("x", "c"), y, attribute("axis", int(v))))
		},
		"Unique axis": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Unique", names("x"), y, attribute("axis", int(v))))
		},
		"Shape start": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("Shape", names("x"), y, attribute("start", int(v))))
		},
		"Shape end": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("Shape", names("x"), y, attribute("end", int(v))))
		},
		"ArgMax axis": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("ArgMax", names("x"), y, attribute("axis", int(v))))
		},
		"Block size": func(v int64) *onnxpb.ModelProto {
			return one(f32, tensor.I8, []any{2, 4}, constant("s", tensor.FromSlice([]float32{1, 1, 1, 1}, 2, 2)),
				constant("z", tensor.New(tensor.I8, 2, 2)), node("QuantizeLinear", names("x", "s", "z"), y, attribute("axis", 1),
					attribute("block_size", int(v))))
		},
		"Dequantize axis": func(v int64) *onnxpb.ModelProto {
			return one(tensor.I8, f32, plane, constant("s", tensor.FromSlice([]float32{1, 1, 1})),
				node("DequantizeLinear", names("x", "s"), y, attribute("axis", int(v))))
		},
		"NLL label": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("l", ints(v, 0)), node("NegativeLogLikelihoodLoss", names("x", "l"), y))
		},
		"Group norm": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("s", tensor.New(f32, 4)),
				node("GroupNormalization", names("x", "s", "s"), y, attribute("num_groups", int(v))))
		},
		"RMSNorm axis": func(v int64) *onnxpb.ModelProto {
			return inOpset(23, one(f32, f32, plane, constant("s", tensor.New(f32, 3)),
				node("RMSNormalization", names("x", "s"), y, attribute("axis", int(v)))))
		},
		"Rotary position": func(v int64) *onnxpb.ModelProto {
			return inOpset(23, one(f32, f32, []any{1, 1, 1, 4}, constant("c", tensor.New(f32, 3, 2)),
				constant("p", tensor.FromSlice([]int64{v}, 1, 1)), node("RotaryEmbedding", names("x", "c", "c", "p"), y)))
		},
		"Rotary size": func(v int64) *onnxpb.ModelProto {
			return inOpset(23, one(f32, f32, []any{1, 1, 1, 4}, constant("c", tensor.New(f32, 1, 1, 2)),
				node("RotaryEmbedding", names("x", "c", "c"), y, attribute("rotary_embedding_dim", int(v)))))
		},
		"Attention softcap": func(v int64) *onnxpb.ModelProto {
			return inOpset(23, one(f32, f32, []any{1, 1, 2, 4},
				node("Attention", names("x", "x", "x"), y, attribute("softcap", float64(v)))))
		},
		"GQA lengths": func(v int64) *onnxpb.ModelProto {
			k := tensor.New(tensor.I32, 1, 1)
			k.SetInt64(0, v)
			n := node("GroupQueryAttention", names("x", "x", "x", "", "", "k", "t"), names("y", "pk", "pv"), attribute("num_heads", 1),
				attribute("kv_num_heads", 1))
			n.Domain = "com.microsoft"
			total := tensor.New(tensor.I32)
			total.SetInt64(0, 2)
			return one(f32, f32, []any{1, 2, 8}, constant("k", k), constant("t", total), n)
		},
		"TensorScatter": func(v int64) *onnxpb.ModelProto {
			return inOpset(24, one(f32, f32, []any{1, 4, 2}, constant("u", tensor.New(f32, 1, 1, 2)), constant("w", ints(v)),
				node("TensorScatter", names("x", "u", "w"), y)))
		},
		"Gelu of a huge axis": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{0, 3}, node("ReduceMax", names("x"), y, attribute("keepdims", int(v))))
		},
		"GRU lengths": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{2, 1, 3}, constant("w", tensor.New(f32, 1, 6, 3)), constant("r", tensor.New(f32, 1, 6, 2)),
				constant("l", toI32(v)), node("GRU", names("x", "w", "r", "", "l"), y, attribute("hidden_size", 2)))
		},
		"RNN layout": func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{2, 1, 3}, constant("w", tensor.New(f32, 1, 2, 3)), constant("r", tensor.New(f32, 1, 2, 2)),
				node("RNN", names("x", "w", "r"), y, attribute("hidden_size", 2), attribute("layout", int(v))))
		},
		"Bitcast": func(v int64) *onnxpb.ModelProto {
			return inOpset(26, one(f32, f32, plane, node("BitCast", names("x"), y, attribute("to", int(v)))))
		},
		"StringSplit": func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, node("Cast", names("x"), names("t"), attribute("to", 8)),
				node("StringSplit", names("t"), names("p", "y"), attribute("delimiter", "."), attribute("maxsplit", int(v))))
		},
		"TfIdf": func(v int64) *onnxpb.ModelProto {
			return one(i64, f32, []any{4}, node("TfIdfVectorizer", names("x"), y, attribute("mode", "TF"),
				attribute("min_gram_length", 1), attribute("max_gram_length", 2), attribute("max_skip_count", int(v)),
				attribute("ngram_counts", []int64{0, 1}), attribute("ngram_indexes", []int64{0, 1, 2}),
				attribute("pool_int64s", []int64{1, 2, 3, 4})))
		},
		"TfIdf index": func(v int64) *onnxpb.ModelProto {
			return one(i64, f32, []any{4}, node("TfIdfVectorizer", names("x"), y, attribute("mode", "TF"),
				attribute("min_gram_length", 1), attribute("max_gram_length", 1), attribute("max_skip_count", 0),
				attribute("ngram_counts", []int64{0}), attribute("ngram_indexes", []int64{v}), attribute("pool_int64s", []int64{1})))
		},
		"TfIdf length": func(v int64) *onnxpb.ModelProto {
			return one(i64, f32, []any{4}, node("TfIdfVectorizer", names("x"), y, attribute("mode", "TF"),
				attribute("min_gram_length", 1), attribute("max_gram_length", int(v)), attribute("max_skip_count", 0),
				attribute("ngram_counts", []int64{0}), attribute("ngram_indexes", []int64{0}), attribute("pool_int64s", []int64{1})))
		},
		"TfIdf counts": func(v int64) *onnxpb.ModelProto {
			return one(i64, f32, []any{4}, node("TfIdfVectorizer", names("x"), y, attribute("mode", "TF"),
				attribute("min_gram_length", 1), attribute("max_gram_length", 2), attribute("max_skip_count", 0),
				attribute("ngram_counts", []int64{0, v}), attribute("ngram_indexes", []int64{0}), attribute("pool_int64s", []int64{1})))
		},
	} {
		for _, v := range append([]int64{1, 2, -2, 100003, 1 << 20}, numbers...) { // a large prime among them
			want := "either"
			if wrong, ok := outside[what]; ok && wrong(v) {
				want = "refused "
			}
			out = append(out, of(fmt.Sprintf("%s %d", what, v), want, m(v)))
		}
	}
	return out
}

// outside says which of the numbers in lists have no meaning, where ONNX leaves no doubt.
var outside = func() map[string]func(int64) bool {
	above := func(low, high int64) func(int64) bool { return func(v int64) bool { return v < low || v > high } }
	return map[string]func(int64) bool{
		"DFT length": above(1, 1<<20), "DFT axis": above(-2, 1), "STFT step": above(1, 1<<40), "STFT length": above(1, 16),
		"BlackmanWindow": above(0, 1<<40),
		"CenterCropPad":  above(0, 1<<40), "Col2Im block": above(1, 4), "Col2Im strides": above(1, 1<<40), "MaxUnpool": above(0, 3),
		"ConvTranspose out": above(0, 1<<40), "ConvTranspose padding": above(0, 1<<40), "ConvTranspose strides": above(1, 1<<40),
		"DeformConv group": above(1, 4),
		"LpPool p":         above(1, math.MaxInt64), "LpNormalization": above(1, 2), "RoiAlign samples": above(0, 1<<40),
		"RoiAlign height": above(1, 1<<40),
		"RoiAlign image":  above(0, 0), "NMS format": above(0, 1), "ReverseSequence": above(0, 2), "GatherElements": above(-2, 1),
		"GatherND batch":  above(0, 1),
		"ScatterElements": above(-2, 1), "Compress axis": above(-2, 1), "Unique axis": above(-2, 1), "ArgMax axis": above(-2, 1),
		"Block size":      above(0, 4),
		"Dequantize axis": above(-2, 1), "NLL label": above(0, 2), "Group norm": above(1, 4), "RMSNorm axis": above(-2, 1),
		"GRU lengths": func(v int64) bool { return above(0, 2)(int64(int32(v))) },
		"RNN layout":  above(0, 1), "TensorScatter": above(0, 3), "TfIdf length": above(1, math.MaxInt64), "TfIdf index": above(0, 1<<40),
		"Mel length": above(1, 1<<40),
		"Mel bins":   above(1, 1<<40), "RandomUniform": above(0, 1<<40), "Multinomial": above(0, 1<<40),
	}
}()

func toI32(v int64) *tensor.Tensor {
	t := tensor.New(tensor.I32, 1)
	t.SetInt64(0, v)
	return t
}
