//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/cpu"

// machineLevel is the highest level whose every feature this CPU and its operating system have.
func machineLevel() Level {
	x := &cpu.X86
	has := [numLevels]bool{
		Generic:    true,
		AVX2:       x.HasAVX2 && x.HasFMA,
		AVX512:     x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL,
		AVX512VNNI: x.HasAVX512VNNI,
		AVX512BF16: x.HasAVX512BF16,
		AMX:        x.HasAMXTile && x.HasAMXBF16 && x.HasAMXInt8 && amxPermitted(),
	}
	level := Generic
	for level+1 < numLevels && has[level+1] {
		level++
	}
	return level
}

// quantizeBy8 is what AVX2 has.
var quantizeBy8 = quantizeFuncs{quantizeAVX2, fromU8AVX2, fromS8AVX2, minMaxAVX2, 8, dequantizeAVX2, sumBytesAVX2, interleaveAVX2,
	requantizeAVX2, rescaleAVX2, addU8AVX2, addS8AVX2, maxBytesAVX2, &quantizeGeneric}

func init() {
	variants[AVX2] = func(s *Set) {
		s.transpose = transposeAVX2
		s.top = topKernel{topAVX2, 8}
		s.gemm = gemmTileAVX2
		s.gemmS8 = gemmTileS8AVX2
		s.gemmBF16 = gemmTileBF16AVX2
		s.pairsBF16 = s.gemmBF16
		s.copyRows = copyRowsAVX2
		s.unary = unaryAVX2
		s.convert = convertFuncs{toF16AVX2, fromF16AVX2, toBF16AVX2, fromBF16AVX2, 8}
		s.binary = binaryAVX2
		s.quantize = quantizeBy8
		s.pairBF16 = pairBF16AVX2
		s.roundBF16 = toBF16AVX2
		s.q4 = blockFuncs{decodeQ4AVX2, unpackQ4AVX2, gemmBlocksAVX2, &digitsQ4AVX2}
		s.q8 = blockFuncs{decode: decodeQ8AVX2, unpack: unpackQ8AVX2, tile: gemmBlocksQ8AVX2}
		s.quantizeBlocks = quantizeBlocksAVX2
		s.peaks[PeakFMA] = peakLoop{peakFMAAVX2, 12 * 2 * 8}
		s.peaks[PeakRead] = readLoop(peakReadAVX2, 256)
		s.reduce = reduceAVX2
		s.attention = attentionTileAVX2
		s.dot = dotAVX2
		s.softmax = softmaxAVX2
		s.softmaxStep = softmaxStepAVX2
		s.layerNorm = layerNormAVX2
		s.rmsNorm = rmsNormAVX2
		s.depthwise = depthwiseAVX2
		s.winograd = winogradFuncs{winogradInputAVX2, winogradOutputAVX2, winogradWeightsAVX2}
	}
	variants[AVX512] = func(s *Set) {
		s.caches = cacheSizes{l1: 32 << 10, l2: 1 << 20}
		s.gemm = gemmTileAVX512
		s.gemmBF16 = gemmTileBF16AVX512
		s.pairsBF16 = s.gemmBF16
		s.copyRows = copyRowsAVX512
		s.top = topKernel{topAVX512, 16}
		s.unary = unaryAVX512
		s.convert = convertFuncs{toF16AVX512, fromF16AVX512, toBF16AVX512, fromBF16AVX512, 16}
		s.binary = binaryAVX512
		s.quantize = quantizeFuncs{quantizeAVX512, fromU8AVX512, fromS8AVX512, minMaxAVX512, 16, dequantizeAVX512, sumBytesAVX2,
			interleaveAVX512, requantizeAVX512, rescaleAVX512, addU8AVX512, addS8AVX512, maxBytesAVX2, &quantizeBy8}
		s.pairBF16 = pairBF16AVX512
		s.roundBF16 = toBF16AVX512
		s.q4 = blockFuncs{decodeQ4AVX512, unpackQ4AVX512, gemmBlocksAVX512, &digitsQ4AVX512}
		s.q8 = blockFuncs{decode: decodeQ8AVX512, unpack: unpackQ8AVX512, tile: gemmBlocksQ8AVX512}
		s.quantizeBlocks = quantizeBlocksAVX512
		s.peaks[PeakFMA] = peakLoop{peakFMAAVX512, 24 * 2 * 16}
		s.peaks[PeakRead] = readLoop(peakReadAVX512, 512)
		s.reduce = reduceAVX512
		s.attention = attentionTileAVX512
		s.dot = dotAVX512
		s.softmax = softmaxAVX512
		s.softmaxStep = softmaxStepAVX512
		s.layerNorm = layerNormAVX512
		s.rmsNorm = rmsNormAVX512
		s.depthwise = depthwiseAVX512
		s.winograd = winogradFuncs{winogradInputAVX512, winogradOutputAVX512, winogradWeightsAVX512}
	}
	variants[AVX512VNNI] = func(s *Set) {
		s.q4.unpack, s.q4.tile = unpackQ4VNNI, gemmBlocksVNNI
		s.q8.unpack, s.q8.tile = unpackQ8VNNI, gemmBlocksVNNI
		s.q4.digits, s.q8.digits = &digitsQ4VNNI, &digitsQ8VNNI
		s.gemmS8 = gemmTileVNNI
		s.depthwiseWords = depthwiseWords{depthwiseVNNI, [2]slideFunc{slide1, slide2}}
		s.peaks[PeakInt8] = peakLoop{peakVNNI, 24 * 2 * 64}
	}
	variants[AVX512BF16] = func(s *Set) {
		s.gemmBF16 = gemmTileBF16
		s.pairsBF16 = s.gemmBF16
		s.pairBF16 = pairBF16
		s.roundBF16 = roundBF16
		s.peaks[PeakBF16] = peakLoop{peakBF16, 24 * 2 * 32}
	}
	variants[AMX] = func(s *Set) {
		s.caches = cacheSizes{l1: 48 << 10, l2: 2 << 20}
		s.gemmS8 = gemmTileAMX(&gemmAMXS8, s.gemmS8, 9) // VNNI reads a panel as fast as memory delivers it
		scaled := joinedAMX(&gemmAMXS8Scaled)
		s.gemmS8.joinedFrom, s.gemmS8.joined = 8, [NumUnary + 1]joinedFunc{NoUnary: scaled, Relu: scaled, Gelu: joinedAMX(&gemmAMXS8Gelu),
			sumsOnly: joinedAMX(&gemmAMXS8)}
		s.gemmBF16 = gemmTileAMX(&gemmAMXBF16, s.gemmBF16, 2)
		s.pairsBF16 = s.gemmBF16
		floats := joinedAMX(&gemmAMXBF16)
		s.gemmBF16.joinedFrom, s.gemmBF16.joined = 2, [NumUnary + 1]joinedFunc{NoUnary: floats, Relu: floats}
		s.bf16x3 = bf16x3Funcs{splitBF16x3AMX, [...]bf16x3Func{nil, gemmBF16x3AMX_1, gemmBF16x3AMX_2}}
		s.peaks[PeakInt8] = amxPeak(peakAMXS8, 64)
		s.peaks[PeakBF16] = amxPeak(peakAMXBF16, 32)
	}
}

// machineCaches reads the sizes from the CPUID leaf of deterministic cache parameters: 4 on Intel, its copy
// 0x8000001D on AMD.
func machineCaches() cacheSizes {
	caches := defaultCaches
	leaf := uint32(4)
	if _, ebx, ecx, edx := cpuid(0, 0); ebx == 'A'|'u'<<8|'t'<<16|'h'<<24 && ecx == 'c'|'A'<<8|'M'<<16|'D'<<24 &&
		edx == 'e'|'n'<<8|'t'<<16|'i'<<24 {
		leaf = 0x8000001d
	}
	if top, _, _, _ := cpuid(leaf&0x80000000, 0); top < leaf {
		return caches
	}
	for i := range uint32(8) {
		eax, ebx, ecx, _ := cpuid(leaf, i)
		const none, data, unified = 0, 1, 3
		kind, level := eax&31, eax>>5&7
		if kind == none {
			break
		}
		size := int(ebx>>22+1) * int(ebx>>12&0x3ff+1) * int(ebx&0xfff+1) * int(ecx+1)
		switch {
		case level == 1 && kind == data:
			caches.l1 = size
		case level == 2 && kind == unified:
			caches.l2 = size
		}
	}
	return caches
}
