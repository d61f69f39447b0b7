package rewrite

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// unpadEncoder is an encoder with all that the cases of TestUnpadClauses need. What nothing reads goes away.
const unpadEncoder = `graph "" (%0 "ids": i64[b,s], %1 "mask": i64[b,s]) {
const %2: f32[9,4] = data
const %3: f32[6,4] = data
const %4: f32[4,12] = data
const %5: f32[] = [0]
const %6: f32[] = [-3.4028235e+38]
const %7: f32[4,4] = data
const %8: f32[4] = data
const %9: i64[] = [0]
const %100: f32[1,4,4] = data
const %101: f32[] = [1]
const %102: f32[] = [-10000]
const %103: i64[] = [1]
const %104: f32[] = [-9000]
const %105: f32[] = [-0.5]
const %106: f32[6] = data
const %107: f32[] = [0.01]
const %108: u8[] = [128]
const %109: f32[4] = [0.01, 0.02, 0.03, 0.04]
const %110: u8[4] = [128, 128, 128, 128]
const %111: f32[] = [0.003921569]
const %112: u8[] = [0]
%10 = embedding(%8, %8, %2, %0, %3, _) {eps=1e-05}
%11 = reshape(%1) {shape=[b,1,1,s]}
%12 = cast(%11) {to=bool}
%40: i64[s] = range() {start=0, step=1, len=s, dtype=i64}
%41 = reshape(%40) {shape=[1,1,s,1]}
%42 = reshape(%40) {shape=[1,1,1,s]}
%43 = sub(%42, %41)
%44 = abs(%43)
%45 = cast(%44) {to=f32}
%46 = mul(%45, %105)
%47 = cast(%40) {to=f32}
%48 = reshape(%47) {shape=[1,s,1]}
%50 = cast(%1) {to=f32}
%51 = reshape(%50) {shape=[b,s,1]}
%52 = reshape(%12) {shape=[b,s,1]}
%13 = where(%12, %5, %6)
%14 = matmul(%10, %4)
%15 = slice(%14) {starts=[0,0,0], sizes=[b,s,4], steps=[1,1,1]}
%16 = slice(%14) {starts=[0,0,4], sizes=[b,s,4], steps=[1,1,1]}
%17 = slice(%14) {starts=[0,0,8], sizes=[b,s,4], steps=[1,1,1]}
%18 = reshape(%15) {shape=[b,s,2,2]}
%19 = reshape(%16) {shape=[b,s,2,2]}
%20 = reshape(%17) {shape=[b,s,2,2]}
%21 = attention(%18, %19, %20, %13) {scale=0.7} from "attention"
%22 = reshape(%21) {shape=[b,s,4]}
%23 = matmul(%22, %7, %8, %10) {act=gelu}
%24 = layernorm(%23, %8, %8) {axes=1}
`

// encoderWith returns the encoder with other lines: one that defines a value replaces the line that did, with those before
// it, and the last are the end, of which %25 is the result.
func encoderWith(lines string) string {
	lead := regexp.MustCompile(`^%\d+[ :]`)
	text, before := unpadEncoder, ""
	for _, line := range strings.Split(lines, "; ") {
		before += line + "\n"
		if name := lead.FindString(line); name != "" {
			if at := strings.Index(text, "\n"+name) + 1; at > 0 {
				text = text[:at] + before + text[at+strings.Index(text[at:], "\n")+1:]
				before = ""
			}
		}
	}
	if !strings.Contains(before, "return") {
		before += "return %" + map[bool]string{true: "25", false: "24"}[strings.Contains(before, "%25 =")] + "\n"
	}
	return text + before + "}\n"
}

// TestUnpadClauses has, for the clauses of the proof, encoders that lack one, which are refused with these words, and encoders that
// nearly do, which run as their rows alone with padding.
func TestUnpadClauses(t *testing.T) {
	const (
		hidden   = "is not known to hide padding and nothing else"
		input    = "does not follow from an input [batch,seq] alone"
		bounds   = "it masks keys by position, which may leave a token without keys"
		sum      = "the sum includes padding, which is not 0"
		all      = "over all positions of the padded sequence"
		along    = "which is an axis of tokens or sequences"
		position = "it selects tokens by their position in the padded sequence"
		moves    = "it moves the axis of tokens"
		one      = "which may mix tokens"
		apart    = "cannot be separated by token"

		again  = "%25 = reshape(%24) {shape=[b,s,2,2]}; "
		end    = "%28 = reshape(%27) {shape=[b,s,4]}; return %28"
		summed = "%26 = reduce_sum(%25) {axes=[1]}; return %26"
		// Of 5 vectors, that of the distance, from −2 to 2, times the query.
		distances = "const %60: f32[2,5,2] = data; const %61: i64[] = [2]; const %62: i64[] = [-2]; " +
			"%63 = transpose(%18) {perm=[0,2,1,3]}; %64 = matmul(%63, %60) {transb=true}; %65 = max(%43, %62); %68 = min(%65, %61); " +
			"%69 = add(%68, %61); %70 = expand(%69) {shape=[b,2,s,s]}; %66 = gather_elements(%64, %70) {axis=3}; "
		beside    = "%72 = where(%12, %66, %6); %21 = attention(%18, %19, %20, %72) {scale=0.7}; "
		quantized = "%30 = quantize(%18, %107, %108) {to=u8}; %31 = quantize(%19, %107, %108) {to=u8}; " +
			"%32 = quantize(%20, %107, %108) {to=u8}; "
	)
	for _, c := range []struct{ name, lines, refused string }{
		// The mask: maskOf, hidesPadding.
		{"truths", "%21 = attention(%18, %19, %20, %12) {scale=0.7}", ""},
		{"truths by codes without a zero point",
			"%30 = cast(%11) {to=f32}; %31 = quantize(%30, %101, _) {to=u8}; %12 = cast(%31) {to=bool}", ""},
		{"truths turned over", "%30 = not(%12); %21 = attention(%18, %19, %20, %30) {scale=0.7}", hidden},
		{"numbers turned over", "%13 = where(%12, %6, %5)", hidden},
		{"turned over twice", "%30 = not(%12); %13 = where(%30, %6, %5)", ""},
		{"the weakest fill", "%13 = where(%12, %5, %102)", ""},
		{"a weaker fill", "%13 = where(%12, %5, %104)", hidden},
		{"a fill above 0", "%13 = where(%12, %5, %101)", hidden},
		{"a number for tokens", "%13 = where(%12, %101, %6)", hidden},
		{"a number by position for tokens", "%13 = where(%12, %46, %6)", ""},
		{"a number by position for padding", "%13 = where(%12, %5, %46)", hidden},
		{"a number by position for both", "%30 = where(%12, %5, %105); %13 = add(%30, %46)", hidden},
		{"a number by position beside a fill", "%30 = where(%12, %5, %6); %13 = add(%30, %46)", ""},
		{"position or mask", "%30 = less(%44, %103); %31 = or(%12, %30); %13 = where(%31, %5, %6)", hidden},
		{"keys of all queries", "%30 = where(%12, %5, %6); %13 = expand(%30) {shape=[b,1,s,s]}", ""},
		{"queries", "%11 = reshape(%1) {shape=[b,1,s,1]}", hidden},
		{"queries of all keys",
			"%11 = reshape(%1) {shape=[b,1,s,1]}; %30 = where(%12, %5, %6); %13 = expand(%30) {shape=[b,1,s,s]}", hidden},
		{"queries or keys", "%30 = reshape(%12) {shape=[b,1,s,1]}; %31 = or(%12, %30); %13 = where(%31, %5, %6)", hidden},
		{"queries and keys", "%30 = reshape(%12) {shape=[b,1,s,1]}; %31 = and(%12, %30); %13 = where(%31, %5, %6)", ""},
		{"other texts", "%30 = reshape(%12) {shape=[1,b,1,s]}; %31 = and(%30, %12); %13 = where(%31, %5, %6)", input},
		{"the ids as well", "%30 = mul(%0, %1); %11 = reshape(%30) {shape=[b,1,1,s]}", input},
		{"two masks",
			"%30 = reshape(%0) {shape=[b,1,1,s]}; %31 = cast(%30) {to=bool}; " + again + "%27 = attention(%25, %25, %25, %31); " + end,
			`inputs "mask" and "ids" are both masks`},
		{"one mask, twice", again + "%27 = attention(%25, %25, %25, %12); " + end, ""},
		{"no mask", again + "%27 = attention(%25, %25, %25); " + end, "its mask: there is none"},
		// Attention.
		{"no key of its own", "%30 = less(%42, %41); %31 = and(%12, %30); %13 = where(%31, %5, %6)", bounds},
		{"a window within a window", "%30 = less(%44, %103); %31 = and(%30, %12); %13 = where(%31, %5, %6); " +
			"%21 = attention(%18, %19, %20, %13) {scale=0.7, window=1}", bounds},
		{"a window, or less of it", "%30 = less_or_equal(%42, %41); %31 = sub(%41, %103); %32 = greater(%42, %31); %33 = and(%30, %32); " +
			"%34 = less_or_equal(%44, %103); %35 = or(%33, %34); %36 = and(%35, %12); %13 = where(%36, %5, %6)", ""},
		{"a window, or no part of it", "%30 = less_or_equal(%42, %41); %31 = less_or_equal(%44, %103); %32 = or(%30, %31); " +
			"%33 = and(%32, %12); %13 = where(%33, %5, %6)", bounds},
		{"a window within two bounds", "%30 = less_or_equal(%42, %41); %31 = sub(%41, %103); %32 = greater_or_equal(%42, %31); " +
			"%33 = and(%30, %32); %34 = less(%44, %103); %35 = or(%33, %34); %36 = and(%35, %12); %13 = where(%36, %5, %6)", bounds},
		{"two windows that hold neither", "%30 = less_or_equal(%42, %41); %31 = sub(%41, %103); %32 = sub(%31, %103); " +
			"%33 = greater(%42, %32); %34 = and(%30, %33); %35 = less(%44, %103); %36 = add(%42, %103); %37 = less_or_equal(%36, %41); " +
			"%38 = or(%34, %37); %39 = and(%38, %12); %13 = where(%39, %5, %6)", bounds},
		{"any position", "const %120: bool[] = [true]; %30 = less_or_equal(%42, %41); %31 = or(%30, %120); %32 = and(%31, %12); " +
			"%13 = where(%32, %5, %6)", ""},
		{"a window before an axis of heads", "%30 = reshape(%40) {shape=[s,1]}; %31 = sub(%40, %30); %32 = abs(%31); " +
			"%33 = less_or_equal(%32, %103); %34 = reshape(%12) {shape=[b,1,s]}; %35 = and(%33, %34); " +
			"%36 = reshape(%35) {shape=[b,1,s,s]}; %13 = where(%36, %5, %6)", ""},
		{"a window beside a bound", "%21 = attention(%18, %19, %20, %13) {scale=0.7, causal=true, window=2}", ""},
		{"bounds from the last key",
			"%21 = attention(%18, %19, %20, %13) {scale=0.7, causal=true, offset=true}", "count from the last key"},
		{"quantised values",
			quantized + "%21 = qattention(%30, %31, %32, %13, %107, %108, %107, %108, %107, %108, _, _, %111, %112)", ""},
		{"quantised scores",
			quantized + "%21 = qattention(%30, %31, %32, %13, %107, %108, %107, %108, %107, %108, %107, %108, %111, %112)",
			"the lowest quantised value does not hide padding"},
		{"quantised values and a bias", "%33 = add(%13, %46); " + quantized +
			"%21 = qattention(%30, %31, %32, %33, %107, %108, %107, %108, %107, %108, _, _, %111, %112)",
			"quantised attention with a bias by position"},
		{"keys of the first token",
			"%25 = slice(%24) {starts=[0,0,0], sizes=[b,1,4], steps=[1,1,1]}; %26 = reshape(%25) {shape=[b,1,2,2]}; " +
				"%27 = reshape(%24) {shape=[b,s,2,2]}; %28 = attention(%27, %26, %26, %13); return %28", "has no token axis in front"},
		// Scores by distance: relativeOf, maskNodes.
		{"scores by distance", distances + beside, ""},
		{"scores by distance, for keys", distances + "%71 = transpose(%66) {perm=[0,1,3,2]}; %72 = where(%12, %71, %6); " +
			"%21 = attention(%18, %19, %20, %72) {scale=0.7}", ""},
		{"scores by distance, twice", distances + beside + again + "%27 = attention(%25, %25, %25, %72); " + end, ""},
		{"scores by distance that a result shows", distances + beside + "return %24, %72", moves},
		{"scores by distance that another node reads", distances + beside + "%26 = tanh(%72); return %24, %26", moves},
		{"scores by distance as queries", distances + beside + "%30 = reshape(%47) {shape=[1,s,1,1]}; " +
			"%31 = expand(%30) {shape=[b,s,s,s]}; %27 = attention(%72, %31, %31, %12); return %24, %27", moves},
		{"scores by distance whose products a result shows", distances + beside + "return %24, %64", moves},
		{"scores of tokens by tokens in a second mask", "%60 = transpose(%24) {perm=[0,2,1]}; %61 = matmul(%24, %60); " +
			"%62 = reshape(%61) {shape=[b,1,s,s]}; %72 = where(%12, %62, %6); " + again + "%27 = attention(%25, %25, %25, %72); " + end,
			"does not follow from an input [batch,seq] alone"},
		// Sums: isZero, keepsZero.
		{"a sum", "%25 = mul(%24, %51); " + summed, ""},
		{"a sum of all", "%25 = tanh(%24); " + summed, sum},
		{"a sum of weights that are not 0", "%30 = where(%52, %101, %105); %25 = mul(%24, %30); " + summed, sum},
		{"a sum of weights that are", "%30 = where(%52, %105, %5); %25 = mul(%24, %30); " + summed, ""},
		{"a sum of padding", "%30 = where(%52, %5, %101); %25 = mul(%24, %30); " + summed, sum},
		{"a sum of weights by position, and 0", "%30 = where(%52, %48, %5); %25 = mul(%24, %30); " + summed, ""},
		{"a sum of weights by position at padding", "%30 = where(%52, %101, %48); %25 = mul(%24, %30); " + summed, sum},
		{"a sum beside numbers", "%30 = mul(%24, %51); %25 = add(%30, %101); " + summed, sum},
		{"a sum beside tokens", "%30 = mul(%24, %51); %25 = add(%30, %24); " + summed, sum},
		{"a sum less tokens", "%30 = mul(%24, %51); %25 = sub(%24, %30); " + summed, sum},
		{"a sum of the larger", "%30 = mul(%24, %51); %25 = max(%30, %101); " + summed, sum},
		{"a sum of powers", "%30 = mul(%24, %51); %25 = exp(%30); " + summed, sum},
		{"a sum of products", "%30 = mul(%24, %51); %31 = matmul(%30, %7, %8); %25 = tanh(%31); " + summed, sum},
		{"a sum of what was cut, moved and made numbers",
			"%30 = mul(%24, %51); %31 = slice(%30) {starts=[0,0,1], sizes=[b,s,2], steps=[1,1,1]}; " +
				"%32 = reshape(%31) {shape=[b,s,1,2]}; " +
				"%33 = transpose(%32) {perm=[0,1,3,2]}; %34 = reshape(%33) {shape=[b,s,2]}; %25 = cast(%34) {to=i32}; " +
				"%26 = reduce_sum(%25) {axes=[1]}; return %26", ""},
		{"a sum of truths", "%30 = mul(%24, %51); %31 = cast(%30) {to=bool}; %32 = not(%31); %25 = cast(%32) {to=f32}; " + summed, sum},
		{"a sum of features, too", "%25 = mul(%24, %51); %26 = reduce_sum(%25) {axes=[1,2]}; return %26", all},
		{"a mean", "%25 = mul(%24, %51); %26 = reduce_mean(%25) {axes=[1]}; return %26", all},
		{"the largest", "%25 = mul(%24, %51); %26 = reduce_max(%25) {axes=[1]}; return %26", all},
		// What tokens meet in: alone, product, scales.
		{"largest features", "%25 = reduce_max(%24) {axes=[2], keepdims=true}; %26 = mul(%24, %25); return %26", ""},
		{"largest of the batch", "%25 = reduce_max(%24) {axes=[0]}", along},
		{"largest of all", "%25 = reduce_max(%24) {axes=[0,1,2]}", all},
		{"distributions of features", "%25 = softmax(%24) {axis=2}", ""},
		{"distributions of tokens", "%25 = softmax(%24) {axis=1}", along},
		{"which feature", "%25 = argmax(%24) {axis=2, keepdims=true}; %26 = cast(%25) {to=f32}; return %26", ""},
		{"which token", "%25 = argmax(%24) {axis=1, keepdims=true}", along},
		{"norms over tokens", "%25 = layernorm(%24, %8, %8) {axes=2}", along},
		{"features side by side", "%25 = concat(%24, %24) {axis=2}", ""},
		{"texts one after the other", "%25 = concat(%24, %24) {axis=1}", "has no token axis in front"},
		{"moved features",
			"%30 = reshape(%24) {shape=[b,s,2,2]}; %31 = transpose(%30) {perm=[0,1,3,2]}; %25 = reshape(%31) {shape=[b,s,4]}", ""},
		{"moved tokens", "%25 = transpose(%24) {perm=[0,2,1]}", moves},
		{"moved texts", "%30 = reshape(%24) {shape=[b,s,2,2]}; %25 = transpose(%30) {perm=[1,0,2,3]}", moves},
		{"some features", "%25 = slice(%24) {starts=[0,0,1], sizes=[b,s,2], steps=[1,1,2]}", ""},
		{"the last token", "%25 = slice(%24) {starts=[0,s-1,0], sizes=[b,1,4], steps=[1,1,1]}", position},
		{"tokens backwards", "%25 = slice(%24) {starts=[0,s-1,0], sizes=[b,s,4], steps=[1,-1,1]}", position},
		{"texts backwards", "%25 = slice(%24) {starts=[b-1,0,0], sizes=[b,s,4], steps=[-1,1,1]}", position},
		{"the first token of the first text", "%25 = slice(%24) {starts=[0,0,0], sizes=[1,1,4], steps=[1,1,1]}", position},
		{"the first token",
			"%25 = slice(%24) {starts=[0,0,0], sizes=[b,1,4], steps=[1,1,1]}; %26 = reshape(%25) {shape=[b,4]}; return %26", ""},
		{"the first token, taken", "%25 = gather(%24, %9) {axis=1}", ""},
		{"the second token, taken", "%25 = gather(%24, %103) {axis=1}", position},
		{"a feature, taken", "%30 = gather(%24, %103) {axis=2}; %25 = reshape(%30) {shape=[b,s,1]}", ""},
		{"padding before features", "%25 = pad(%24) {mode=constant, before=[0,0,1], after=[0,0,0]}", ""},
		{"padding before texts", "%30 = pad(%24) {mode=constant, before=[0,1,0], after=[0,0,0]}; " +
			"%25 = slice(%30) {starts=[0,0,0], sizes=[b,s,4], steps=[1,1,1]}", "it puts padding between the sequences"},
		{"padding after texts", "%30 = pad(%24) {mode=constant, before=[0,0,0], after=[0,1,0]}; " +
			"%25 = slice(%30) {starts=[0,1,0], sizes=[b,s,4], steps=[1,1,1]}", "it puts padding between the sequences"},
		{"a matrix of each text", "%30 = transpose(%10) {perm=[0,1,2]}; %25 = matmul(%24, %30) {transb=true}", one},
		{"one matrix in a batch", "%25 = matmul(%24, %100)", one},
		{"one matrix", "%25 = matmul(%24, %7)", ""},
		{"one matrix of tokens in one axis",
			"%30 = reshape(%24) {shape=[b*s,4]}; %31 = matmul(%30, %7); %25 = reshape(%31) {shape=[b,s,4]}",
			""},
		{"one scale", "%30 = quantize(%24, %107, %108) {to=u8}; %25 = dequantize(%30, %107, %108) {to=f32}", ""},
		{"scales of features", "%30 = quantize(%24, %109, %110) {to=u8, axis=2}; %25 = dequantize(%30, %109, %110) {to=f32, axis=2}", ""},
		{"tokens in one vector", "%30 = reshape(%24) {shape=[4*b*s]}; %31 = tanh(%30); %25 = reshape(%31) {shape=[b,s,4]}",
			"has no token axis in front"},
		// What goes along: align.
		{"a vector of each text", "%30 = slice(%24) {starts=[0,0,0], sizes=[b,1,4], steps=[1,1,1]}; %25 = add(%24, %30)", apart},
		{"a number by position", "%25 = add(%24, %48)", ""},
		{"a number by position, of fewer axes", "%30 = reshape(%47) {shape=[s,1]}; %25 = add(%24, %30)", ""},
		{"numbers by position and feature", "%30 = expand(%48) {shape=[1,s,4]}; %25 = add(%24, %30)", ""},
		{"numbers by position and feature, of fewer axes", "%30 = reshape(%47) {shape=[s,1]}; %31 = expand(%30) {shape=[s,4]}; " +
			"%25 = add(%24, %31)", ""},
		{"a number by position, for features", "%30 = reshape(%47) {shape=[1,s]}; %25 = add(%24, %30)", apart},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := encoderWith(c.lines)
			before, after := parse(t, text), parse(t, text)
			dce(before)
			dce(after)
			n, miss := unpad(after, nil, false)
			if c.refused != "" {
				require.NotEmpty(t, miss, "it was not refused:\n%s", after)
				require.Contains(t, miss, c.refused)
				require.Equal(t, before.String(), after.String())
				return
			}
			require.Empty(t, miss)
			require.Positive(t, n)
			require.NoError(t, ir.Verify(after))
			for seed := range uint64(8) {
				requireEqualRows(t, before, after, rand.New(rand.NewPCG(seed, 5)))
			}
		})
	}
}

// TestUnpadPositions: no token is beyond what a table has from where it is read.
func TestUnpadPositions(t *testing.T) {
	for lines, want := range map[string]int{
		"%25 = add(%24, %48)": 6,
		"%30 = slice(%3) {starts=[2,0], sizes=[s,4], steps=[1,1]}; %25 = add(%24, %30)": 4,
	} {
		g := parse(t, encoderWith(lines))
		n, miss := unpad(g, nil, false)
		require.Empty(t, miss)
		require.Positive(t, n)
		at := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool { _, ok := n.Op.(ir.Pack); return ok })
		require.Equal(t, want, g.Nodes[at].Op.(ir.Pack).Positions)
	}
}

// TestUnpadWithoutKernel: padding stays if the backend's attention has a kernel for batches with padding alone.
func TestUnpadWithoutKernel(t *testing.T) {
	padded := &target.Target{Name: "padded"}
	padded.Kernels[ir.KindAttention] = target.Kernel{Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool { return !n.HasOperand(ir.AttentionSequences) }}
	text := encoderWith("")
	before, after := parse(t, text), parse(t, text)
	_, miss := unpad(after, padded, false)
	require.Contains(t, miss, "backend padded has no kernel for packed attention")
	require.Equal(t, before.String(), after.String())
	n, miss := unpad(after, &target.Target{Name: "host"}, false)
	require.Empty(t, miss)
	require.Positive(t, n)
}
