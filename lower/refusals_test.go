package lower

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// sliding is a decoder's attention with caches for 3 positions.
const sliding = `ms.GroupQueryAttention f32[1,1,4] f32[1,1,4] f32[1,1,4] f32[1,2,3,2] f32[1,2,3,2] i32[1] i32[]=2 ` +
	`num_heads=2 kv_num_heads=2 sliding_window_cache=1 `

// refusals are nodes that cannot be lowered, with the reason: an operator, with its domain in short before it and an opset behind "@";
// inputs as types; constants as types and what all their elements are; attributes.
var refusals = []struct{ node, why string }{
	{`Attention f32[1,3,4] f32[1,3,4] f32[1,3,4] q_num_heads=3 kv_num_heads=3`, "q_num_heads is 3 for f32[1,3,4]"},
	{`Attention f32[1,2,3,4] f32[1,2,3,4] f32[1,2,3,4] q_num_heads=3`, "q_num_heads is 3 for f32[1,2,3,4]"},
	{`Attention f32[3,4] f32[1,2,3,4] f32[1,2,3,4]`, "has neither three axes nor four"},
	{`Attention@25 f32[1,2,3,4] f32[1,2,3,4] f32[1,2,3,4] left_window_size=-2`, "window sizes -2 and -1"},
	{`Attention f32[1,2,3,4] f32[1,2,3,4] f32[1,2,3,4] softmax_precision=7`, "softmax_precision 7 is not a floating-point type"},
	{`Attention f32[1,2,3,4] f32[1,2,3,4] f32[1,2,3,4] _ f32[1,2,3] f32[1,2,3]`, "has not four axes"},
	{`Attention f32[1,2,3,4] f32[1,2,3,4] f32[1,2,3,4] _ f32[1,2,3,4]`, "past_key and past_value must be given together"},
	{`RotaryEmbedding f32[1,2,3,4] f32[1,4] f32[1,4]`, "have not three axes"},
	{`Concat f32[2]`, "attribute axis is missing"},
	{`Split@18 f32[4] num_outputs=3`, "num_outputs is 3, the node has 1"},
	{`Split@13 f32[4] i64[2]=3`, "2 sizes"},
	{`Unsqueeze@11 f32[4] axes=[0,0]`, "axis 0 is named twice"},
	{`Squeeze@11 f32[1,1] axes=[0,0]`, "axis 0 is named twice"},
	{`DepthToSpace f32[1,4,2,2] blocksize=2 mode="X"`, `mode "X" is neither DCR nor CRD`},
	{`Pad@13 f32[4] i64[2]=1 mode="wrap"`, `mode "wrap" is not known in opset 13`},
	{`Cast f32[4]`, "attribute to is missing"},
	{`Cast@24 f32[4] to=24 round_mode="sideways"`, "round_mode"},
	{`Dropout f32[4] f32[]=1`, "the ratio f32[] is not one number from 0 to below 1"},
	{`Dropout f32[4] f32[]=0.5 bool[2]`, "not a scalar"},
	{`OneHot i64[2] i64[2]=1 f32[2]`, "operand 1 is i64[2] where one number is needed"},
	{`OneHot i64[2] i64[]=0 f32[2]`, "depth 0 is not positive"},
	{`ReverseSequence f32[2,3] i64[2] batch_axis=0 time_axis=0`, "along batch axis 0 and time axis 0"},
	{`ReverseSequence f32[2,3] i64[5] batch_axis=0 time_axis=1`, "5 lengths for a batch of 2"},
	{`TopK f32[4] i64[2]=1`, "a vector of one element is needed"},
	{`BitShift u8[2] u8[2] direction="UP"`, "direction is neither LEFT nor RIGHT"},
	{`Mean i32[2] i32[2]`, "operand 0"},
	{`LpNormalization f32[2,2] p=3`, "p is neither 1 nor 2"},
	{`Resize f32[1,1,2,2] _ f32[4]=1 i64[4]=2`, "both scales and sizes are given"},
	{`Resize f32[1,1,2,2] _ f32[3]=1`, "3 scales for 4 axes"},
	{`Resize f32[1,1,2,2] _ _ i64[3]=2`, "3 sizes for 4 axes"},
	{`Resize f32[1,1,2,2] _ f32[2]=1 axes=[1,1]`, "name an axis twice"},
	{`Resize f32[1,1,2,2] _ f32[4]=-1`, "scale -1"},
	{`Resize f32[1,1,2,2] f32[3]=1 f32[4]=2 coordinate_transformation_mode="tf_crop_and_resize"`, "roi has 3 numbers for 4 axes"},
	{`Resize f32[1,1,2,2] _ _ i64[4]=2 keep_aspect_ratio_policy="x"`, `keep_aspect_ratio_policy "x" is not known`},
	{`AffineGrid f32[1,2] i64[4]=2`, "theta f32[1,2]"},
	{`Compress f32[4] bool[2,2]`, "is not a vector of booleans"},
	{`ConstantOfShape i64[2,2]=1`, "a shape is a vector"},
	{`Range i64[2]=1 i64[]=3 i64[]=1`, "where one number is needed"},
	{`Range i64[]=1 i32[]=3 i64[]=1`, "operand 0 (start) is int64 and operand 1 (limit) is int32"},
	{`Range i64[]=1 i64[]=3 i64[]=0`, "has no end"},
	{`EyeLike f32[2]`, "is not a matrix"},
	{`BatchNormalization@8 f32[2,3,4] f32[3] f32[3] f32[3] f32[3] spatial=0`, "statistics for every position (spatial = 0)"},
	{`BatchNormalization f32[2,3,4] f32[4] f32[4] f32[4] f32[4]`, "is not one number for each channel"},
	{`InstanceNormalization f32[2] f32[2] f32[2]`, "has no axes after the channels"},
	{`LayerNormalization f32[2,3] f32[3] stash_type=7`, "stash_type 7 is not a floating-point type"},
	{`GlobalAveragePool f32[2]`, "f32[2]"},
	{`MaxPool f32[2] kernel_shape=[2]`, "has no spatial axes: [N,C,…] is needed"},
	{`MaxPool f32[1,1,4] kernel_shape=[2,2]`, "kernel"},
	{`Conv f32[1,2,4] f32[2,2,2] group=0`, "0 groups"},
	{`Conv f32[1,2,4] f32[2,2]`, "weights f32[2,2] for"},
	{`MaxUnpool f32[1,1,2] i64[1,1,2] i64[2]=4 kernel_shape=[2]`, "output_shape"},
	{`RoiAlign f32[1,1,4,4] f32[1,4] i64[1] mode="min"`, `mode "min" is neither avg nor max`},
	{`RoiAlign f32[1,1,4,4] f32[1,4] i64[1] coordinate_transformation_mode="x"`, `coordinate_transformation_mode "x"`},
	{`MaxRoiPool f32[1,1,4,4] f32[1,5] pooled_shape=[2]`, "want two numbers"},
	{`DeformConv f32[1,1,4] f32[1,1,2] f32[1,2,3]`, "two spatial axes are needed"},
	{`Einsum f32[2,2] f32[2] equation="ij,jk->ik"`, `"jk" for f32[2]`},
	{`Einsum f32[] equation="i..."`, "want an axis for each label"},
	{`Einsum f32[2,2] equation="...i->i"`, "the axes of ... are missing from its result"},
	{`DFT f32[1,4,1] _ i64[]=2`, "axis 2 holds the parts of complex numbers"},
	{`STFT f32[4] i64[]=1 f32[2]`, "signal f32[4]"},
	{`STFT f32[1,4,1] i64[]=1 f32[2,2]`, "window f32[2,2]"},
	{`ScatterElements@13 f32[4] i64[2] f32[2] reduction="add"`, "reduction"},
	{`TensorScatter f32[1,2,4] f32[1,2,2] i64[1] mode="x" axis=-1`, `mode "x" is neither linear nor circular`},
	{`TensorScatter f32[1,2,4] f32[1,2,2] i64[1,1] axis=-1`, "are not a vector"},
	{`NegativeLogLikelihoodLoss f32[2,3] i64[3]`, "targets"},
	{`NegativeLogLikelihoodLoss f32[2,3] i64[2] reduction="x"`, `reduction "x" is not none, sum or mean`},
	{`DequantizeLinear u8[4] f32[2] u8[2] block_size=-1`, "block_size is -1"},
	{`DequantizeLinear u8[4] i32[]`, "operand 1"},
	{`QuantizeLinear f32[2] f32[] u8[2]`, "zero points"},
	{`QuantizeLinear f32[2] f32[] i8[] output_dtype=2`, "output_dtype is uint8 and the zero point int8"},
	{`RandomNormal`, "attribute shape is missing"},
	{`RandomNormal shape=[-1]`, "axis 0 has size -1"},
	{`RandomUniform shape=[1] dtype=7`, "random numbers of type"},
	{`Multinomial f32[2] sample_size=2`, "samples of type"},
	{`StringNormalizer str[2] locale="tr_TR" case_change_action="LOWER"`, "its cases are not Unicode's default ones"},
	{`RegexFullMatch str[2]`, "attribute pattern is missing"},
	{`TfIdfVectorizer i64[4] mode="TF" min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=[0] ngram_indexes=[0]`, "pool"},
	{`LinearAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] q_num_heads=1 kv_num_heads=1 update_rule="x"`, `update_rule "x"`},
	{`LinearAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] q_num_heads=1 kv_num_heads=1 update_rule="gated"`, "decay given: false"},
	{`CausalConvWithState f32[2,4] f32[2,1,3]`, "weights f32[2,1,3] for f32[2,4]"},
	{`CausalConvWithState f32[1,2,4] f32[2,1,3] activation="tanh"`, `activation "tanh", 3 taps`},
	{`preview.FlexAttention f32[1,2,4] f32[1,2,4] f32[1,2,4]`, "f32[1,2,4], f32[1,2,4] and f32[1,2,4]"},
	{`preview.FlexAttention f32[1,3,2,4] f32[1,2,2,4] f32[1,2,2,4]`, "3 heads over 2"},
	{`preview.FlexAttention f32[1,2,2,4] f32[1,2,2,4] f32[1,2,2,4] softmax_precision=7`, "softmax_precision is"},
	{`nchwc.Upsample f32[1,16,2,2] scales=[1,1,0,2]`, "scales [1 1 0 2]"},
	{`nchwc.Upsample f32[1,16,2,2] scales=[1,1,2]`, "scales [1 1 2] of"},
	{`nchwc.ReorderInput f32[16,2,2]`, "has not four axes"},
	{`nchwc.ReorderOutput f32[1,16,2,2] channels=0`, "channels = 0"},
	{`nchwc.Conv f32[1,16,2,2] f32[16,16,1,1]`, "constants with four axes are needed"},
	{`ms.GatherPacked u8[4,144] i64[1] packed_type=12 K=256`, "packed_type = 12"},
	{`ms.GatherPacked u8[4,18] i64[1] packed_type=2 K=40`, "K = 40: want a multiple of 32, which a block of format Q4_0 holds"},
	{`ms.GatherPacked u8[4,18] i64[1] packed_type=2 K=0`, "K = 0"},
	{`ms.GatherPacked u8[4,18] i64[1] packed_type=2 K=64`, "want u8 with rows of 36 bytes, which 64 numbers in format Q4_0 have"},
	{`ms.GatherPacked u8[4] i64[1] packed_type=2 K=32`, "table u8[4]"},
	{`ms.MoEGroupRouter f32[2,12] f32[12]`, "attribute top_k is missing"},
	{`ms.MoEGroupRouter f32[2,12] f32[12] top_k=0`, "top_k = 0"},
	{`ms.MoEGroupRouter f32[2,12] f32[12] top_k=2 n_group=5`, "12 experts in n_group = 5 groups"},
	{`ms.MoEGroupRouter f32[2,12] f32[12] top_k=4 n_group=4 topk_group=1`, "have top_k = 4 experts"},
	{`ms.MoEGroupRouter f32[2,12] f32[12] top_k=1 n_group=2 topk_group=3`, "topk_group = 3"},
	{`ms.MoEGroupRouter f32[2,12] f32[8] top_k=2`, "for 8 experts"},
	{`ms.MoEGroupRouter f32[2,12] f32[1,12] top_k=2`, "want at least one axis, and one"},
	{`ms.MoEGroupRouter f32[2,4] f32[12] f32[12,4] top_k=2`, "projection_weight is for selection_scores"},
	{`ms.GatherBlockQuantized u8[4,8] i64[1] f32[4,1] block_size=16 gather_axis=0 quantize_axis=1 bits=4`,
		"packed values that a run computes"},
	{`ms.CDist f32[2,3] f32[2,3] metric="cosine"`, `metric "cosine" is neither sqeuclidean nor euclidean`},
	{`ms.CDist f32[2,3] f32[2,4]`, "rows of f32[2,3] and of f32[2,4]"},
	{`ms.SkipLayerNormalization f32[3] f32[3] f32[3]`, "input f32[3] and skip f32[3]"},
	{`ms.EmbedLayerNormalization i32[2] _ f32[5,4] f32[6,4] _ f32[4] f32[4]`, "are not [batch, sequence]"},
	{`ms.EmbedLayerNormalization i32[1,2] i32[1,2] f32[5,4] f32[6,4] _ f32[4] f32[4]`, "segment_embedding must be given together"},
	{`ms.BiasSplitGelu f32[1,2,3] f32[3]`, "the last axis of f32[1,2,3] cannot be halved"},
	{`ms.BiasDropout f32[2] f32[2] _ f32[]=0.5 bool[]=1`, "dropout in training mode is random"},
	{`ms.FusedGemm f32[2,2] f32[2,2] f32[2] activation="X"`, `activation "X"`},
	{`ms.ExpandDims f32[2] i32[2]=0`, "axis is not a single number"},
	{`ms.NhwcMaxPool u8[2,2] kernel_shape=[2]`, "has no spatial axes: [N,…,C] is needed"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] num_heads=0`, "num_heads is 0"},
	{`ms.MRotaryEmbedding f32[1,2,8] i64[3,1,2] f32[] f32[9,4] mrope_section=[2,1,1] num_heads=1`, "cos_cache"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[1] f32[6,1] f32[6] num_heads=2`, "have not two axes"},
	{`ms.RotaryEmbedding f32[4] i64[1] f32[6,1] f32[6,1]`, "input f32[4]"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[3,3] f32[6,1] f32[6,1]`, "position_ids i64[3,3] for"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] K=32 N=4 bits=5 block_size=32`, "bits = 5: 2, 4 and 8 are understood"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] K=32 N=4 bits=4 block_size=24`, "block_size = 24 is not a power of two from 16 on"},
	{`ms.MatMulNBits f32[1,32] u8[5,1,16] f32[4] K=32 N=4 bits=4 block_size=32`, "its first axis is N = 4"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,15] f32[4] K=32 N=4 bits=4 block_size=32`, "need 64"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[5] K=32 N=4 bits=4 block_size=32`, "needs 4"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] _ _ f32[1,4] K=32 N=4 bits=4 block_size=32`, "is f32[1,4] and not a vector"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] K=32 N=4 bits=4 block_size=32 weight_prepacked=1`, "weight_prepacked"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2]=1 K=32 N=4 block_size=0 quant_type=1`, "block_size = 0"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[3]=1 K=32 N=4 block_size=64 quant_type=1`, "for 2 blocks"},
	{`ms.MatMulBnb4 f32[1,32] u8[63]=1 f32[2]=1 K=32 N=4 block_size=64 quant_type=1`, "no constant of 64 bytes"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2]=1 K=32 N=4 block_size=64 quant_type=1 transB=0`, "transB = 0"},
	{`ms.GatherBlockQuantized u8[4,16]=1 i64[1] f32[4,1] block_size=24 gather_axis=0 quantize_axis=1`, "block_size = 24"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4,2] block_size=16 gather_axis=0 quantize_axis=0`, "are both 0"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4,3] block_size=16 gather_axis=0 quantize_axis=1`, "scales f32[4,3]"},
	{`ms.DynamicQuantizeMatMul f32[2,3] u8[3] f32[]`, "is not a matrix"},
	{`ms.QLinearAdd u8[2] f32[2] u8[] u8[2] f32[] u8[] f32[] u8[]`, "where one number is needed"},
	{`ms.MoE f32[2,4] f32[2] f32[2,4,4] _ f32[2,4,4]`, "input f32[2,4] and router_probs f32[2]"},
	{`ms.QMoE f32[2,32] f32[2,2] u8[2,32,16] f32[2,32] _ u8[2,32,16] f32[2,32] block_size=24`, "block_size = 24"},
	{`ms.PackedAttention f32[1,4,4] f32[4,12] f32[12] i32[1,4] i32[2] num_heads=2`, "input f32[1,4,4] and weights f32[4,12]"},
	{`ms.RelativePositionBias f32[4] i64[] i64[] max_distance=8`, "has not two axes"},
	{`ms.RelativePositionBias f32[8,2] i64[]=3 i64[]=3 max_distance=4`, "max_distance = 4 with 8 buckets"},
	{`ms.RelativePositionBias f32[8,2] i64[]=3 i64[]=3`, "max_distance"},
	{`ms.RelativePositionBias f32[1,2] i64[]=3 i64[]=3 max_distance=8`, "max_distance = 8 with 1 buckets"},
	{`ms.RelativePositionBias f32[3,2] i64[]=3 i64[]=3 max_distance=8 is_bidirectional=1`, "max_distance = 8 with 3 buckets"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ i32[1] i32[] num_heads=2 kv_num_heads=2 k_quant_type="PER_TENSOR"`,
		"a quantised cache"},
	{`ms.DecoderMaskedMultiHeadAttention f32[1,2,4] num_heads=2`, "of more than one token"},
	{`ms.Attention f32[1,2,4] f32[4,10] f32[10] num_heads=2`, "hidden sizes [3,3,3] do not make up 10"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] num_heads=3`, "is not [batch, length, hidden] of 3 heads"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] num_heads=2 qkv_hidden_sizes=[4,4]`, "qkv_hidden_sizes [4 4] are not three"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] num_heads=2 qkv_hidden_sizes=[4,4,2]`, "do not make up"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] i32[1,1,1,1,1] num_heads=2`, "mask i32[1,1,1,1,1]"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] _ f32[1,2,2] num_heads=2`, "is not [2, batch, heads, length, size]"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] _ f32[3,1,2,2,2] num_heads=2`, "is not [2, batch, heads, length, size]"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] num_heads=2 do_rotary=1`, "attribute do_rotary"},
	{`ms.Attention f32[1,2,4] f32[4,12] f32[12] _ _ _ i32[1] num_heads=2`, "past_sequence_length"},
	{`ms.Attention f32[2,4] f32[4,12] f32[12] num_heads=2`, "input f32[2,4] and weights"},
	{`ms.Attention f32[1,2,4] f32[12] f32[12] num_heads=2`, "and weights f32[12]"},
	{`ms.QAttention u8[2,4] u8[4,12] f32[12] f32[] f32[] _ u8[] u8[] num_heads=2`, "input u8[2,4] and weights"},
	{`ms.QAttention u8[1,2,4] u8[12] f32[12] f32[] f32[] _ u8[] u8[] num_heads=2`, "and weights u8[12]"},
	{`ms.MultiHeadAttention f32[1,2,4] num_heads=2`, "query f32[1,2,4]"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] f32[] num_heads=2`, "bias f32[] is not a vector"},
	{`ms.GroupQueryAttention f32[1,2,4] _ _ _ _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2 qk_output=1`,
		"qk_output = 1 with output_qk: false"},
	{sliding + ` qk_output=2`, "qk_output = 2 with output_qk: false"},
	{`ms.GroupQueryAttention f32[2,4] _ _ _ _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2`, "query f32[2,4] has not three axes"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] _ _ _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2`, "key and value must be given"},
	{`ms.MultiHeadAttention f32[2,4] f32[1,2,4] f32[1,2,4] num_heads=2`, "query f32[2,4]"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] num_heads=2`, "key f32[1,2,4] without value"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] num_heads=3`, "of 3 heads"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] num_heads=2 unidirectional=1 results=4`,
		"the products of queries and keys of a decoder as a result"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ _ f32[1,2,3,2] num_heads=2`, "past_value must be given together"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ _ f32[1,2,3] f32[1,2,3] num_heads=2`, "has not four axes"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ _ f32[1,2,3,2] f32[1,2,3,2] i32[2] num_heads=2`, "is not one number"},
	{`ms.MultiHeadAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ i32[1,1,1,1,1] num_heads=2`, "mask i32[1,1,1,1,1]"},
	{`ms.QLinearConv u8[2,3] f32[] u8[] u8[3,3] f32[] u8[] f32[] u8[] channels_last=1`, "u8[2,3] has no spatial axes"},
	{`ms.GatedAdd f32[1,4] f32[1,4] f32[1,4] f32[4]`, "operand 3 is not supported in the operators of onnxruntime 1.32.0"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[1] f32[6,1] f32[6,1] is_packed_batching=1`, "attribute is_packed_batching"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[1] f32[6,1] f32[6,1] rotary_embedding_dim=4 num_heads=1`, "rotary_embedding_dim = 4 for"},
	{`ms.RotaryEmbedding f32[1,2,5] i64[1] f32[6,1] f32[6,1]`, "is not a number of heads of 2"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[1,1,1] f32[6,1] f32[6,1]`, "position_ids i64[1,1,1] for"},
	{`ms.RotaryEmbedding f32[1,2,4] i64[1] f32[6] f32[6,1]`, "have not two axes"},
	{sliding + `_ _ _ f32[1,3] local_window_size=3`,
		"attention_bias f32[1,3] has not four axes"},
	{sliding + `local_window_size=3 causal=0`,
		"sliding_window_cache without causality"},
	{`ms.GroupQueryAttention f32[1,1,4] f32[1,1,4] f32[1,1,4] _ _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2 local_window_size=3 ` +
		`sliding_window_cache=1`, "sliding_window_cache without past_key"},
	{sliding + `local_window_size=4`,
		"local_window_size = 4 of caches f32[1,2,3,2]"},
	{sliding, "local_window_size = -1 of caches"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] f32[1,2,3,2] _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2`,
		"past_key and past_value must be given together"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] f32[1,2,3] f32[1,2,3,2] i32[1] i32[]=2 num_heads=2 kv_num_heads=2`,
		"past_key f32[1,2,3] and past_value"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] f32[1,2,3,2] f32[1,2,3] i32[1] i32[]=2 num_heads=2 kv_num_heads=2`,
		"and past_value f32[1,2,3]"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] f32[1,2,3,2] f32[1,2,4,2] i32[1] i32[]=2 num_heads=2 kv_num_heads=2`,
		"and past_value f32[1,2,4,2]"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ i32[1] i32[]=3 num_heads=2 kv_num_heads=2`,
		"total_sequence_length [3] for a cache of 0 and 2 more"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ i32[1] i32[]=0 num_heads=2 kv_num_heads=2`,
		"total_sequence_length [0] for"},
	{`ms.GroupQueryAttention f32[1,2,4] f32[1,2,4] f32[1,2,4] _ _ i32[1] i32[]=2 num_heads=2 kv_num_heads=2 v_quant_type="PER_TENSOR"`,
		"v_quant_type"},
	{`ms.QGemm u8[2,3,4] f32[] u8[] u8[4,6] f32[] u8[]`, "are not matrices"},
	{`ms.QGemm u8[3,4] f32[] u8[] u8[4] f32[] u8[]`, "are not matrices"},
	{`ms.QLinearConcat f32[] u8[] u8[2] f32[] axis=0`, "4 operands are not a list"},
	{`ms.QLinearConcat f32[] u8[] u8[2] f32[] u8[] u8[2] axis=0`, "6 operands are not a list"},
	{`ms.QLinearAveragePool u8[2,2] f32[] u8[] f32[] u8[] kernel_shape=[2]`, "has no spatial axes"},
	{`ms.QLinearGlobalAveragePool u8[2,2] f32[] u8[] f32[] u8[]`, "has no axes after the channels"},
	{`ms.MatMulIntegerToFloat u8[2,4] u8[4,3] f32[2] f32[]`, "operand 2 is f32[2]"},
	{`ms.MatMulIntegerToFloat u8[2,4] u8[4,3] f32[] f32[2]`, "operand 3 is f32[2] for 3 columns"},
	{`ms.MatMulIntegerToFloat u8[2,4] u8[4,3] f32[] f32[2,3]`, "operand 3 is f32[2,3] for 3 columns"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] K=0 N=4 bits=4 block_size=32`, "sizes K = 0"},
	{`ms.MatMulNBits f32[1,32] u8[4] f32[4] K=32 N=4 bits=4 block_size=32`, "its first axis is N = 4"},
	{`ms.MatMulNBits f32[1,32] u8[4,1,16] f32[4] K=32 N=4 bits=4 block_size=8`, "block_size = 8 is not a power of two"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2]=1 K=0 N=4 block_size=64 quant_type=1`, "K = 0, N = 4"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2]=1 K=32 N=0 block_size=64 quant_type=1`, "N = 0"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2]=1 K=32 N=4 block_size=48 quant_type=1`, "block_size = 48"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[8]=1 K=32 N=4 block_size=15 quant_type=1`, "block_size = 15"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[8]=1 K=32 N=4 block_size=8 quant_type=1`, "block_size = 8"},
	{`ms.MatMulBnb4 f32[1,32] u8[64] f32[2]=1 K=32 N=4 block_size=64 quant_type=1`, "no constant of 64 bytes"},
	{`ms.MatMulBnb4 f32[1,32] u8[64]=1 f32[2,1]=1 K=32 N=4 block_size=64 quant_type=1`, "for 2 blocks"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4]=1 block_size=16 gather_axis=0 quantize_axis=1`, "scales f32[4]"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4,4]=1 u8[4,3]=1 block_size=16 gather_axis=0 quantize_axis=1`,
		"zero points u8[4,3] for"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4,2]=1 block_size=8 gather_axis=0 quantize_axis=1`, "block_size = 8"},
	{`ms.GatherBlockQuantized u8[4,32]=1 i64[1] f32[4,2]=1 block_size=16 gather_axis=0 quantize_axis=1 bits=5`, "bits = 5"},
	{`ms.SkipLayerNormalization f32[2,3] f32[1,2,3] f32[3]`, "input f32[2,3] and skip f32[1,2,3]"},
	{`ms.EmbedLayerNormalization i32[1,2] _ f32[5,4] f32[6,4] f32[2,4] f32[4] f32[4]`, "segment_embedding must be given together"},
	{`ms.CDist f32[2] f32[2,3]`, "rows of f32[2] and of"},
	{`ms.CDist f32[2,3] f32[3]`, "rows of f32[2,3] and of f32[3]"},
	{`ms.ExpandDims f32[2] i32[]=5`, "axis 5 for rank 2"},
	{`ms.QMoE f32[2,32] f32[2,2] u8[2,32,16] f32[2,32] _ u8[2,32,16] f32[2,32] quant_type="fp4"`, "quant_type = fp4"},
	{`ms.QMoE f32[2,32] f32[2,2] u8[2,32,16] f32[2,32] _ u8[2,32,16] f32[2,32] block_size=8`, "block_size = 8"},
	{`ms.MoE f32[4] f32[2,2] f32[2,4,4] _ f32[2,4,4]`, "input f32[4] and router_probs"},
	{`ms.MoE f32[2,4] f32[2,0] f32[2,4,4] _ f32[2,4,4]`, "of no experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[3,4,4] _ f32[2,4,4]`, "operand 2 is f32[3,4,4] for 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[4,4] _ f32[2,4,4]`, "operand 2 is f32[4,4] for 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] f32[3,4] f32[2,4,4]`, "is not for 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] f32[2] f32[2,4,4]`, "is not for 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] _ f32[2,4,4] k=3`, "k = 3 of 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] _ f32[2,4,4] k=0`, "k = 0 of 2 experts"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] _ f32[2,4,4] activation_type="tanh"`, `activation_type = "tanh" is not`},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,4,4] _ f32[2,4,4] activation_type="swiglu"`, "with swiglu_fusion = 0 and a third layer: false"},
	{`ms.MoE f32[2,4] f32[2,2] f32[2,5,4] _ f32[2,4,4] activation_type="swiglu" swiglu_fusion=1`, "5 columns have no two halves"},
	{`ms.PackedAttention f32[4,4] f32[4] f32[12] i32[1,4] i32[2] num_heads=2`, "and weights f32[4]"},
	{`ms.PackedAttention f32[4,4] f32[4,12] f32[12] i32[1,4] i32[2] f32[2,4,4] num_heads=2`, "attention bias f32[2,4,4] for"},
	{`ms.PackedAttention f32[4,4] f32[4,12] f32[12] i32[4] i32[2] f32[1,2,4,4] num_heads=2`, "attention bias f32[1,2,4,4] for"},
	{`ms.PackedAttention f32[4,4] f32[4,12] f32[12] i32[1,4] i32[2] f32[1,2,3,4] num_heads=2`, "attention bias f32[1,2,3,4] for"},
	{`ms.PackedAttention f32[4,4] f32[4,12] f32[12] i32[1,4] i32[2] f32[1,2,4,3] num_heads=2`, "attention bias f32[1,2,4,3] for"},
	{`ms.DecoderMaskedMultiHeadAttention f32[1,1,4] f32[1,1,4] f32[1,1,4] i32[1,5] _ f32[1,2,3,2] f32[1,2,3,2] i32[1] num_heads=2`,
		"i32[1,5] masks more keys than the cache f32[1,2,3,2] has"},
	{`ms.DecoderMaskedMultiHeadAttention f32[1,1,4] f32[1,1,4] f32[1,1,4] _ f32[1,2,1,5] f32[1,2,3,2] f32[1,2,3,2] i32[1] num_heads=2`,
		"f32[1,2,1,5] masks more keys than the cache f32[1,2,3,2] has"},
	{`ms.DecoderMaskedMultiHeadAttention f32[1,1,4] f32[1,1,4] f32[1,1,4] _ _ f32[1,2,3,2] num_heads=2`,
		"past_key and past_value must be given together"},
	{`QuantizeLinear f32[2] i32[]`, "scales of int32"},
	{`QLinearMatMul u8[2,4] f32[] u8[] u8[4,3] f32[2,2] u8[] f32[] u8[]`, "scales f32[2,2]"},
	{`DequantizeLinear u8[4] f32[2,2]`, "scales f32[2,2] for"},
	{`DequantizeLinear@21 u8[4] f32[] block_size=2`, "scales f32[] for"},
	{`DequantizeLinear@21 u8[4,4] f32[2] block_size=2`, "scales f32[2] for"},
	{`QuantizeLinear f32[2] f32[]=0`, "scale 0 is 0"},
	{`ml.ArrayFeatureExtractor f32[] i64[1]`, "has no axis to pick from"},
	{`ml.ArrayFeatureExtractor f32[2] i64[0]`, "it picks nothing"},
	{`ml.Scaler f32[2,3] offset=[1.0,2.0] scale=[1.0]`, "2 offsets and 1 scales"},
	{`ml.LinearRegressor f32[2,3] targets=0 coefficients=[1.0]`, "for 0 sums"},
	{`ml.LinearRegressor f32[2,3] targets=-2 coefficients=[1.0,1.0]`, "for -2 sums"},
	{`ml.LinearRegressor f32[2,3] targets=2 coefficients=[1.0]`, "coefficients"},
	{`ml.Imputer f32[2,3] imputed_value_floats=[1.0,2.0]`, "2 imputed values for f32[2,3]"},
	{`ml.FeatureVectorizer f32[2,3] inputdimensions=[1,2]`, "inputdimensions [1 2] for 1 operands"},
	{`ml.OneHotEncoder f32[2]`, "there are no categories"},
	{`ml.LabelEncoder f32[2]`, "keys"},
	{`ml.FeatureVectorizer f32[2,2,2] inputdimensions=[2]`, "2 features of operand 0, which is f32[2,2,2]"},
	{`ml.FeatureVectorizer f32[2,2] inputdimensions=[-1]`, "-1 features of operand 0, which is f32[2,2]"},
	{`Col2Im f32[1,4,4] i64[2]=4 i64[1]=2`, "blocks [2] of an image [4 4]: want equally many axes"},
	{`Col2Im f32[1,4,4] i64[1]=4 i64[2]=2`, "blocks [2,2] of an image [4]: want equally many axes"},
	{`ml.CategoryMapper i64[2] cats_int64s=[1,2]`, "0 strings for 2 integers"},
}

var (
	refusedType      = regexp.MustCompile(`^(\w+)\[([\w,]*)\](?:=(.*))?$`)
	refusedAttribute = regexp.MustCompile(`^(\w+)=(.*)$`)
)

// refused makes the model of a refusal.
func refused(t *testing.T, text string) *onnxpb.ModelProto {
	s, n := &sketch{}, &onnxpb.NodeProto{Output: []string{"y"}}
	opsets, results := map[string]int64{"": MaxOpset}, 1
	for i, word := range strings.Fields(text) {
		if i == 0 {
			name, version, given := strings.Cut(word, "@")
			if given {
				v, err := strconv.Atoi(version)
				require.NoError(t, err)
				opsets[""] = int64(v)
			}
			n.OpType = name
			if prefix, op, ok := strings.Cut(name, "."); ok {
				domain := map[string]string{"ms": "com.microsoft", "nchwc": blockedDomain, "ml": "ai.onnx.ml",
					"preview": "ai.onnx.preview"}[prefix]
				n.OpType, n.Domain, opsets[domain] = op, domain, int64(latest[domain])
			}
			continue
		}
		if word == "_" {
			n.Input = append(n.Input, "")
			continue
		}
		if m := refusedType.FindStringSubmatch(word); m != nil {
			n.Input = append(n.Input, s.operand(t, m[1], m[2], m[3]))
			continue
		}
		m := refusedAttribute.FindStringSubmatch(word)
		require.NotNil(t, m, word)
		if m[1] == "results" {
			results = int(m[2][0] - '0')
			continue
		}
		n.Attribute = append(n.Attribute, attributeOf(t, m[1], m[2]))
	}
	if schema := findSchema(cmp.Or(n.Domain, "ai.onnx"), n.OpType, int(opsets[n.Domain])); schema != nil {
		results = max(results, schema.outs) // all must be listed
	}
	for len(n.Output) < results {
		n.Output = append(n.Output, "y"+strconv.Itoa(len(n.Output)))
	}
	s.g.Node, s.g.Output = []*onnxpb.NodeProto{n}, []*onnxpb.ValueInfoProto{{Name: "y"}}
	p := &onnxpb.ModelProto{Graph: &s.g}
	for domain, version := range opsets {
		p.OpsetImport = append(p.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: domain, Version: version})
	}
	return p
}

// operand is an input, or a constant of one number.
func (s *sketch) operand(t *testing.T, dtype, sizes, number string) string {
	d, err := tensor.ParseDType(dtype)
	require.NoError(t, err)
	var shape []any
	var known []int
	for _, size := range strings.FieldsFunc(sizes, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(size)
		if known = append(known, n); err != nil {
			shape = append(shape, size)
			continue
		}
		shape = append(shape, n)
	}
	if number == "" {
		s.next++
		return s.input("x"+strconv.Itoa(s.next), d, shape...)
	}
	x, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	c := tensor.New(d, known...)
	for i := range c.Len() {
		c.SetFloat64(i, x)
	}
	return s.constant(c)
}

func attributeOf(t *testing.T, name, text string) *onnxpb.AttributeProto {
	list, isList := strings.CutPrefix(text, "[")
	if isList {
		a := &onnxpb.AttributeProto{Name: name}
		for _, x := range strings.Split(strings.TrimSuffix(list, "]"), ",") {
			one := attributeOf(t, name, x)
			a.Type = one.Type + (onnxpb.AttributeProto_INTS - onnxpb.AttributeProto_INT)
			if one.Type == onnxpb.AttributeProto_INT {
				a.Ints = append(a.Ints, one.I)
			} else {
				a.Floats = append(a.Floats, one.F)
			}
		}
		return a
	}
	if text[0] == '"' {
		return stringAttr(name, strings.Trim(text, `"`))
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return intAttr(name, n)
	}
	x, err := strconv.ParseFloat(text, 32)
	require.NoError(t, err)
	return floatAttr(name, float32(x))
}

// TestRefusals: a node that cannot be lowered is one clear error that names it.
func TestRefusals(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.node, func(t *testing.T) {
			_, err := Model(refused(t, c.node))
			require.ErrorContains(t, err, c.why)
		})
	}
}

// TestBlockedDefaults: attributes that no public schema describes default as onnxruntime's code has it.
func TestBlockedDefaults(t *testing.T) {
	for node, attributes := range map[string]string{
		`nchwc.ReorderInput f32[1,16,2,3]`:                    "channels_last=0",
		`nchwc.ReorderOutput f32[1,16,2,3] channels=16`:       "channels_last=0",
		`nchwc.Upsample f32[1,16,2,3] scales=[1,1,2,3]`:       `mode="nearest" coordinate_transformation_mode="asymmetric"`,
		`nchwc.MaxPool f32[1,16,4,5] kernel_shape=[2,2]`:      `auto_pad="NOTSET" ceil_mode=0 storage_order=0 strides=[1,1] pads=[0,0,0,0]`,
		`nchwc.AveragePool f32[1,16,4,5] kernel_shape=[2,2]`:  `auto_pad="NOTSET" ceil_mode=0 count_include_pad=0 strides=[1,1]`,
		`nchwc.Conv f32[1,16,4,5] f32[16,16,2,2]=1 f32[16]=1`: `auto_pad="NOTSET" group=1 dilations=[1,1] strides=[1,1] pads=[0,0,0,0]`,
	} {
		var texts [2]string
		for i, spec := range []string{node, node + " " + attributes} {
			g, err := Model(refused(t, spec))
			require.NoError(t, err, spec)
			texts[i] = g.String()
		}
		require.Equal(t, texts[1], texts[0], node)
	}
}

// TestWaits: what sizes of a run alone decide is no error before one, and has the type that was said of it in a run.
func TestWaits(t *testing.T) {
	for node, sizes := range map[string]ir.Binding{
		`GatherND f32[b,4] i64[n,k]`: {"b": 3, "n": 2, "k": 1},
		`ms.MoE f32[3,4] f32[3,e] f32[2,8,4] _ f32[2,4,8] k=1 activation_type="relu"`:                   {"e": 2},
		`ms.MatMulIntegerToFloat u8[2,4] u8[4,3] f32[k] f32[]`:                                          {"k": 1},
		`ms.MRotaryEmbedding f32[1,2,8] i64[3,1,2] f32[9,n] f32[9,n] mrope_section=[2,1,1] num_heads=1`: {"n": 4},
		`ms.RelativePositionBias f32[n,2] i64[]=3 i64[]=3 max_distance=8`:                               {"n": 8},
		`Einsum f32[n,k,2] equation="iij->ij"`:                                                          {"n": 3, "k": 3},
		`ms.QLinearSigmoid u8[2] f32[k] u8[] f32[] u8[]`:                                                {"k": 1},
	} {
		g, err := Model(refused(t, node))
		require.NoError(t, err, node)
		require.True(t, slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { _, ok := n.Op.(ops.Deferred); return ok }), node)
		in := make([]*tensor.Tensor, len(g.Inputs))
		for i, v := range g.Inputs {
			at, err := ir.MapType(v.Type, sizes.Number)
			require.NoError(t, err, node)
			in[i] = tensor.New(at.DType, at.Sizes()...)
			for k := range in[i].Len() {
				if at.DType.IsFloat() {
					in[i].SetFloat64(k, 1)
				}
			}
		}
		_, err = ir.Interpret(g, in)
		require.NoError(t, err, node)
	}
}

// TestIndicesBelowZero: where an operator does not count from the end, an index below 0 is an error of a run.
func TestIndicesBelowZero(t *testing.T) {
	for _, node := range []string{
		`RotaryEmbedding f32[1,2,4] f32[3,2] f32[3,2] i64[1,2]=-1 num_heads=1`,
		`ms.RotaryEmbedding f32[1,2,4] i64[1,2]=-1 f32[3,2] f32[3,2]`,
		`ms.MRotaryEmbedding f32[1,2,8] i64[3,1,2]=-1 f32[9,4] f32[9,4] mrope_section=[2,1,1] num_heads=1`,
		`ms.GroupQueryAttention f32[1,1,8] f32[1,1,8] f32[1,1,8] _ _ i32[1]=0 i32[]=1 f32[9,2] f32[9,2] i64[1,1]=-1 num_heads=2 ` +
			`kv_num_heads=2 do_rotary=1`,
		`ReverseSequence f32[2,3] i64[3]=-1`,
		`NegativeLogLikelihoodLoss f32[2,3] i64[2]=-1`,
		`ml.ArrayFeatureExtractor f32[2,3] i64[1]=-1`,
		`MaxUnpool f32[1,1,2] i64[1,1,2]=-1 kernel_shape=[2]`,
		`TensorScatter f32[1,1,4,2] f32[1,1,2,2] i64[1]=-1`,
	} {
		g, err := Model(refused(t, node))
		require.NoError(t, err, node)
		in := make([]*tensor.Tensor, len(g.Inputs))
		for i, v := range g.Inputs {
			in[i] = tensor.New(v.Type.DType, v.Type.Sizes()...)
		}
		_, err = ir.Interpret(g, in)
		require.ErrorContains(t, err, "outside an axis", node)
	}
}

// TestListedResults: a node that lists more results than its operator had is not supported, and no crash.
func TestListedResults(t *testing.T) {
	c := &context{operator: operator{version: 1, outputs: []string{"y", "state", "update"}}}
	require.Len(t, c.listed(make([]*ir.Value, 4)), 3)
	defer func() {
		f, ok := recover().(failure)
		require.True(t, ok)
		require.ErrorIs(t, f.err, ErrUnsupported)
		require.ErrorContains(t, f.err, "result 2 is not supported in opset 1")
	}()
	c.listed(make([]*ir.Value, 2))
}
